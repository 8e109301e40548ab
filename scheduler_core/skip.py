"""`Skip`: one request left out of a tick, with the state in which that was decided."""

from __future__ import annotations

from dataclasses import dataclass

from scheduler_core.config import EngineConfig
from scheduler_core.events import RequestSkipped
from scheduler_core.instant import Instant, instant_before
from scheduler_core.lookup import request_in
from scheduler_core.trace import Snapshot, TickRecord, Trace


@dataclass(frozen=True, slots=True)
class Skip:
    """A skip event in its tick, with the state just before it."""

    trace: Trace
    tick: int
    index: int
    event: RequestSkipped
    instant: Instant

    @property
    def record(self) -> TickRecord:
        return self.trace.records[self.tick]

    @property
    def snapshot(self) -> Snapshot:
        snapshot = self.record.snapshot
        assert snapshot is not None
        return snapshot

    @property
    def config(self) -> EngineConfig:
        return self.trace.config_at(self.tick)

    @property
    def numbers(self) -> dict[str, int]:
        return dict(self.event.numbers)

    @property
    def was_running(self) -> bool:
        return self.event.request_id in self.instant.running


def skips(trace: Trace, tick: int) -> list[Skip]:
    """Every skip of the tick, in order."""
    events = trace.records[tick].events
    return [
        Skip(trace, tick, index, event, instant_before(trace, tick, index))
        for index, event in enumerate(events)
        if isinstance(event, RequestSkipped)
    ]


def cached_blocks(skip: Skip) -> int:
    """Blocks that the lookup found, where the rule asks for room for the whole sequence."""
    state = request_in(skip.record, skip.event.request_id)
    if state is None or skip.config.admission == "first_chunk":
        return 0
    return -(-state.num_tokens // skip.config.block_size) - skip.numbers["blocks_needed"]

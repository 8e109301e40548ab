"""Keeps what every tick did: its events, its numbers and, unless only a summary is wanted, the state after it."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Sequence

from scheduler_core.events import (
    BlockEvicted,
    BlockPublished,
    BlocksAllocated,
    BlocksFreed,
    Event,
    RequestScheduled,
    RequestSkipped,
    TokenSampled,
)
from scheduler_core.kv_cache_manager import KVCacheManager
from scheduler_core.output import SchedulerOutput
from scheduler_core.request import Request, RequestSpec, RequestStatus
from scheduler_core.roster import Roster
from scheduler_core.sharing import share
from scheduler_core.trace import Counts, RequestSnapshot, Snapshot, TickRecord

_ONLY_IN_FULL = frozenset(
    {RequestScheduled, RequestSkipped, BlocksAllocated, BlockPublished, BlockEvicted, BlocksFreed}
)


class Recorder:
    """The records of a run, and the text of every token in them. Changes nothing that it looks at.

    Unless `full`, it leaves out snapshots, batches and the candidates of tokens; unless it `keeps`, it only makes them.
    """

    def __init__(
        self,
        roster: Roster,
        kv: KVCacheManager,
        token_text: Callable[[int], str],
        *,
        full: bool,
        keeps: bool = True,
    ) -> None:
        self.keeps = keeps
        self.records: list[TickRecord] = []
        self.token_texts: dict[int, str] = {}
        self._roster = roster
        self._kv = kv
        self._token_text = token_text
        self._full = full
        self._order: dict[str, int] = {}
        self._snapshot: Snapshot | None = None

    def meet(self, spec: RequestSpec) -> None:
        """Hear of a request; snapshots list them in this order."""
        if self.keeps:
            self._order[spec.id] = len(self._order)
            self._learn_texts(spec.prompt_token_ids)

    def begin_anew(self, specs: Iterable[RequestSpec]) -> None:
        """Keep full records from now on; `specs` are the requests that have not ended."""
        self.keeps = self._full = True
        self.records.clear()
        for spec in specs:
            self.meet(spec)

    def stop(self) -> None:
        """Keep nothing more, and let go of what was kept."""
        self.keeps = self._full = False
        self.records.clear()
        self.token_texts.clear()
        self._order.clear()
        self._snapshot = None

    def record(
        self, output: SchedulerOutput, log: Sequence[Event], start: float, end: float, wall_seconds: float
    ) -> TickRecord:
        """Keep the tick of `output`, which took from `start` to `end` in virtual time."""
        if self.keeps:
            self._learn_texts(event.token_id for event in log if isinstance(event, TokenSampled))
        if self._full:
            self._snapshot = share(self._snapshot, self._look(output.tick))
        record = TickRecord(
            output.tick,
            start,
            end,
            wall_seconds,
            output if self._full else SchedulerOutput(output.tick),
            tuple(log) if self._full else _summary(log),
            self._counts(output),
            self._snapshot,
        )
        if self.keeps:
            self.records.append(record)
        return record

    def replace_last(self, record: TickRecord) -> None:
        """Keep `record` for the last tick: the same decisions, with the times and tokens first measured."""
        assert record.tick == self.records[-1].tick
        self.records[-1] = record

    def _learn_texts(self, token_ids: Iterable[int]) -> None:
        for token_id in token_ids:
            if token_id not in self.token_texts:
                self.token_texts[token_id] = self._token_text(token_id)

    def _counts(self, output: SchedulerOutput) -> Counts:
        pool = self._kv.pool
        return Counts(
            waiting=len(self._roster.waiting),
            running=len(self._roster.running),
            used_blocks=pool.num_blocks - pool.num_free,
            cached_blocks=len(self._kv.cache),
            scheduled_tokens=output.num_scheduled_tokens,
        )

    def _look(self, tick: int) -> Snapshot:
        roster, kv = self._roster, self._kv
        requests = itertools.chain(roster.requests.values(), roster.finished)
        return Snapshot(
            tuple(self._request(r, tick) for r in sorted(requests, key=lambda r: self._order[r.id])),
            tuple(r.id for r in roster.waiting),
            tuple(roster.running),
            kv.pool.free_blocks(),
            kv.cache.published_blocks(),
            kv.num_promised,
            kv.host_blocks_used,
        )

    def _request(self, request: Request, tick: int) -> RequestSnapshot:
        roster = self._roster
        return RequestSnapshot(
            request.id,
            request.status,
            request.finish_reason,
            request.num_prompt_tokens,
            request.num_tokens,
            request.num_computed_tokens,
            request.num_cached_tokens,
            request.max_computed_tokens,
            request.num_preemptions,
            0 if request.status is RequestStatus.FINISHED else roster.key(request)[0],
            request.queue_number,
            request.slice_used,
            roster.waiting.waited(request, tick + 1) if request in roster.waiting else request.waited_ticks,
            request.num_saved_tokens,
            self._kv.tables.get(request.id, ()),
        )


def _summary(log: Sequence[Event]) -> tuple[Event, ...]:
    kept = (event for event in log if type(event) not in _ONLY_IN_FULL)
    return tuple(dataclasses.replace(e, top=()) if isinstance(e, TokenSampled) and e.top else e for e in kept)

"""One replica: an engine with a pool of its own, what it has delivered, and how it ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from scheduler_core.backends.base import ModelRunner
from scheduler_core.config import EngineConfig
from scheduler_core.engine import Engine
from scheduler_core.events import FaultInjected, LowerTierQueried, PrefixCacheQueried
from scheduler_core.output import SchedulerOutput
from scheduler_core.replicas.resumed_runner import ResumedRunner, resumed_spec
from scheduler_core.replicas.shared_store import OneReplicasView
from scheduler_core.request import RequestSpec
from scheduler_core.storage.block_store import BlockStore
from scheduler_core.trace import Counts, Snapshot, TickRecord, Trace


@dataclass(frozen=True, slots=True)
class ReplicaFigures:
    """What one replica did. `computed_tokens` are those of all its batches; `busy_s` is the time of ticks with work.

    Hits are those of first admissions; requests that came from a killed replica are counted apart, as `resumed_…`.
    Both have what was loaded from a shared tier in them; `shared_hit_tokens` is that alone.
    """

    requests: int
    computed_tokens: int
    queried_tokens: int
    hit_tokens: int
    resumed_queried_tokens: int
    resumed_hit_tokens: int
    shared_hit_tokens: int
    busy_s: float
    most_outstanding: int
    killed_at: float | None

    @property
    def hit_rate(self) -> float | None:
        return self.hit_tokens / self.queried_tokens if self.queried_tokens else None


class Replica:
    """Ticks are computed when they start and delivered when they end."""

    def __init__(
        self,
        number: int,
        config: EngineConfig,
        runner: ModelRunner,
        *,
        record: str,
        check: bool,
        store: BlockStore | None = None,
    ) -> None:
        self.killed_at: float | None = None
        self.in_progress: TickRecord | None = None
        self._runner = ResumedRunner(runner)
        self._store = None if store is None else OneReplicasView(store)
        self._engine = Engine(
            config, self._runner, title=f"Replica {number + 1}", record=record, check=check, store=self._store
        )
        self._requests = self._computed = self._most = 0
        self._queries = [0, 0, 0, 0]
        self._shared_hits = 0
        self._busy_s = 0.0
        self._resumed: set[str] = set()
        self._lost_tick = False
        self._num_lost = 0

    def add(self, spec: RequestSpec, so_far: Sequence[int], time: float, outstanding: int) -> None:
        """Take a request that arrives now, or the rest of one that was begun elsewhere."""
        self._requests += 1
        self._most = max(self._most, outstanding)
        # Kills come before arrivals, so who arrives now has not been elsewhere.
        if time > spec.arrival_time:
            self._runner.resume(spec, len(so_far))
            self._resumed.add(spec.id)
            spec = resumed_spec(spec, so_far, time)
        self._engine.add_request(spec)

    def start_tick(self, time: float) -> TickRecord | None:
        """Begin the next tick, if there is anything to do; one that is idle first lets its clock catch up."""
        if not self._engine.has_work:
            return None
        if self._engine.now < time:
            self._engine.step()
        assert self._engine.now == time, "an idle replica wakes up with the request that arrives"
        self.in_progress = self._engine.step()
        return self.in_progress

    def end_tick(self) -> TickRecord:
        """Deliver the tick that is going on."""
        record, self.in_progress = self.in_progress, None
        assert record is not None
        if tokens := record.counts.scheduled_tokens:
            self._computed += tokens
            self._busy_s += record.end - record.start
        for event in record.events:
            if isinstance(event, PrefixCacheQueried) and not event.self_hit:
                place = 2 if event.request_id in self._resumed else 0
                self._queries[place] += event.query_tokens
                self._queries[place + 1] += event.hit_tokens
            elif isinstance(event, LowerTierQueried) and not event.self_hit:
                self._queries[3 if event.request_id in self._resumed else 1] += event.hit_tokens
                self._shared_hits += event.hit_tokens
        if self._store is not None:
            self._store.deliver()
        return record

    def kill(self, time: float, num_requests: int) -> bool:
        """Be gone; returns whether a tick was going on, of which nothing counts."""
        self.killed_at = time
        self._num_lost = num_requests
        self._lost_tick, self.in_progress = self.in_progress is not None, None
        return self._lost_tick

    def figures(self) -> ReplicaFigures:
        queried, hit, resumed_queried, resumed_hit = self._queries
        return ReplicaFigures(
            self._requests,
            self._computed,
            queried,
            hit,
            resumed_queried,
            resumed_hit,
            self._shared_hits,
            self._busy_s,
            self._most,
            self.killed_at,
        )

    def trace(self) -> Trace:
        """All that was delivered; of a killed one the last tick is the kill, after which its memory is empty."""
        trace = self._engine.trace()
        if self.killed_at is None:
            return trace
        kept = trace.records[:-1] if self._lost_tick else trace.records
        end = _kill_record(kept, self.killed_at, self._num_lost, trace.config.num_blocks)
        return replace(trace, records=(*kept, end))


def _kill_record(before: Sequence[TickRecord], time: float, num_requests: int, num_blocks: int) -> TickRecord:
    tick = len(before)
    nobody = Snapshot((), (), (), tuple(range(num_blocks)), (), 0, 0)
    detail = f"the replica was killed; {num_requests} requests go on elsewhere, and its KV is lost"
    return TickRecord(
        tick,
        before[-1].end if before else 0.0,
        time,
        0.0,
        SchedulerOutput(tick),
        (FaultInjected("replica_killed", "", detail),),
        Counts(0, 0, 0, 0, 0),
        nobody if not before or before[-1].snapshot is not None else None,
    )

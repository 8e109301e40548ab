"""`Life`: what one replica did from a start to a kill or to the end, as a trace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from scheduler_core.events import FaultInjected
from scheduler_core.output import SchedulerOutput
from scheduler_core.trace import Counts, Snapshot, TickRecord, Trace

KILLED = "replica_killed"


@dataclass(frozen=True, slots=True)
class Life:
    """`replica` (from 0) took requests from `start` on; the ticks of `trace` count from 0."""

    replica: int
    start: float
    trace: Trace

    @classmethod
    def of(cls, replica: int, start: float, trace: Trace) -> Life:
        """The life of an engine that was made at `start`, though its clock began at 0."""
        records = trace.records
        if not records or records[0].start >= start:
            return cls(replica, start, trace)
        return cls(replica, start, replace(trace, records=(replace(records[0], start=start), *records[1:])))

    def killed(self, time: float, num_requests: int, lost_tick: bool) -> Life:
        """The same, with all that was delivered; its last tick is the kill, after which its memory is empty."""
        records = self.trace.records[:-1] if lost_tick else self.trace.records
        end = _kill_record(records, self.start, time, num_requests, self.trace.config.num_blocks)
        return replace(self, trace=replace(self.trace, records=(*records, end)))


def _kill_record(
    before: Sequence[TickRecord], born: float, time: float, num_requests: int, num_blocks: int
) -> TickRecord:
    tick = len(before)
    detail = f"requests that go on elsewhere: {num_requests}; its KV is lost"
    return TickRecord(
        tick,
        before[-1].end if before else born,
        time,
        0.0,
        SchedulerOutput(tick),
        (FaultInjected(KILLED, "", detail),),
        Counts(0, 0, 0, 0, 0),
        Snapshot((), (), (), tuple(range(num_blocks)), (), 0, 0),
    )

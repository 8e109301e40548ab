"""Traces of all replicas on one grid of whole seconds, so that one playhead serves them: row k is second k."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from scheduler_core.errors import ConfigError
from scheduler_core.events import FaultInjected, RequestFinished
from scheduler_core.output import SchedulerOutput
from scheduler_core.replicas.fleet_trace import FleetTrace
from scheduler_core.request import FinishReason, RequestSpec, RequestStatus
from scheduler_core.trace import Counts, Snapshot, TickRecord, Trace

_GOES_ON = "its replica was killed; it goes on elsewhere"
_EMPTY = Counts(0, 0, 0, 0, 0)


def whole_seconds(specs: Iterable[RequestSpec]) -> list[RequestSpec]:
    """Requests that arrive with the next whole second, in order of arrival."""
    moved = (replace(spec, arrival_time=float(-(-spec.arrival_time // 1))) for spec in specs)
    return sorted(moved, key=lambda spec: spec.arrival_time)


def on_grid(fleet: FleetTrace) -> tuple[Trace, ...]:
    """Each trace with a record for every second up to the end of the last; raises `ConfigError` off the grid.

    Every tick has to last one second (cost "unit") and every arrival and kill to be at a whole one.
    """
    ends = [record.end for trace in fleet.traces for record in trace.records]
    seconds = max(1, round(max(ends, default=0.0)))
    if any(kill.time >= seconds for kill in fleet.kills):
        seconds = round(max(kill.time for kill in fleet.kills)) + 1
    return tuple(replace(trace, records=tuple(_rows(trace, seconds))) for trace in fleet.traces)


def _rows(trace: Trace, seconds: int) -> Iterator[TickRecord]:
    """One record a second: a longer one that is idle is drawn out, and after the last nothing happens."""
    at = _by_second(trace.records)
    nobody = Snapshot((), (), (), tuple(range(trace.config.num_blocks)), (), 0, 0)
    last = TickRecord(0, 0.0, 0.0, 0.0, SchedulerOutput(0), (), _EMPTY, nobody)
    for second in range(seconds):
        last = at.get(second) or _quiet(last)
        output = replace(last.output, tick=second)
        last = replace(last, tick=second, start=float(second), end=float(second + 1), output=output)
        yield last


def _by_second(records: Sequence[TickRecord]) -> dict[int, TickRecord]:
    found: dict[int, TickRecord] = {}
    before: TickRecord | None = None
    for record in records:
        is_kill = any(isinstance(event, FaultInjected) and event.name == "replica_killed" for event in record.events)
        # What ends an idle time is told where it happens.
        second = _whole(record.end if is_kill else record.start)
        if is_kill and before is not None:
            record = _with_the_lost(record, before)
        before = record
        if earlier := found.get(second):
            record = replace(record, events=(*earlier.events, *record.events))
        found[second] = record
    return found


def _with_the_lost(kill: TickRecord, before: TickRecord) -> TickRecord:
    """The record of a kill with the end, on this replica, of those that go on elsewhere."""
    assert before.snapshot is not None
    assert kill.snapshot is not None
    alive = [each for each in before.snapshot.requests if each.status is not RequestStatus.FINISHED]
    lost = tuple(
        replace(each, status=RequestStatus.FINISHED, finish_reason=FinishReason.ABORT, block_ids=(), saved_tokens=0)
        for each in alive
    )
    ends = tuple(RequestFinished(each.id, FinishReason.ABORT, _GOES_ON) for each in alive)
    return replace(kill, events=(*kill.events, *ends), snapshot=replace(kill.snapshot, requests=lost))


def _whole(time: float) -> int:
    if time != round(time):
        raise ConfigError(f"something happens at {time} s, between two ticks; let all times be whole seconds")
    return round(time)


def _quiet(before: TickRecord) -> TickRecord:
    """The second after, in which nothing happens; who has finished is gone."""
    assert before.snapshot is not None
    alive = tuple(each for each in before.snapshot.requests if each.status is not RequestStatus.FINISHED)
    return replace(
        before,
        output=SchedulerOutput(0),
        events=(),
        wall_seconds=0.0,
        counts=replace(before.counts, scheduled_tokens=0),
        snapshot=replace(before.snapshot, requests=alive),
    )

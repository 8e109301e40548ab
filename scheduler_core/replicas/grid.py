"""Traces of all replicas on one grid of whole seconds, so that one playhead serves them: row k is second k."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from scheduler_core.errors import ConfigError
from scheduler_core.events import FaultInjected, RequestFinished
from scheduler_core.output import SchedulerOutput
from scheduler_core.replicas.events import ReplicaKilled, ReplicaReady, ReplicaStarting
from scheduler_core.replicas.fleet_trace import FleetTrace
from scheduler_core.replicas.life import KILLED, Life
from scheduler_core.request import FinishReason, RequestSpec, RequestStatus
from scheduler_core.trace import Counts, Snapshot, TickRecord, Trace

_GOES_ON = "its replica was killed; it goes on elsewhere"
_CHANGES = (ReplicaKilled, ReplicaStarting, ReplicaReady)
_EMPTY = Counts(0, 0, 0, 0, 0)


def whole_seconds(specs: Iterable[RequestSpec]) -> list[RequestSpec]:
    """Requests that arrive with the next whole second, in order of arrival."""
    moved = (replace(spec, arrival_time=float(-(-spec.arrival_time // 1))) for spec in specs)
    return sorted(moved, key=lambda spec: spec.arrival_time)


def num_seconds(fleet: FleetTrace) -> int:
    """Up to the end of the last tick of any replica, or the last change of one; raises `ConfigError` off the grid."""
    ends = [life.trace.records[-1].end for life in fleet.lives if life.trace.records]
    changes = [event.time for event in fleet.events if isinstance(event, _CHANGES)]
    return max(1, round(max(ends, default=0.0)), *(_whole(time) + 1 for time in changes))


def on_grid(fleet: FleetTrace) -> tuple[Trace, ...]:
    """A trace for each replica, with a record for every second up to the end of the last; raises `ConfigError`.

    Every tick has to last one second (cost "unit"), and every arrival, kill and start to be at a whole one. The lives
    of a replica stand one after the other; a request that it had in two of them cannot be drawn.
    """
    return tuple(one_on_grid(fleet, number) for number in range(fleet.config.num_replicas))


def one_on_grid(fleet: FleetTrace, number: int) -> Trace:
    """The trace of one replica (from 0) as `on_grid` makes it."""
    lives = [life for life in fleet.lives if life.replica == number]
    return _joined(lives, _told(fleet, number), num_seconds(fleet))


def _told(fleet: FleetTrace, number: int) -> dict[int, list[FaultInjected]]:
    """What is told of a replica beyond its lives, by second."""
    found: dict[int, list[FaultInjected]] = {}
    for event in fleet.events:
        match event:
            case ReplicaStarting(time, replica, ready_at) if replica == number:
                told = FaultInjected("replica_starting", "", f"it loads the weights until second {ready_at:g}")
            case ReplicaReady(time, replica, down) if replica == number:
                told = FaultInjected("replica_ready", "", f"it was gone for {down:g} seconds, and its memory is empty")
            case _:
                continue
        found.setdefault(_whole(time), []).append(told)
    return found


def _joined(lives: Sequence[Life], told: Mapping[int, Sequence[FaultInjected]], seconds: int) -> Trace:
    """The lives of one replica as one trace."""
    first = lives[0].trace
    requests = tuple(spec for life in lives for spec in life.trace.requests)
    ids = [spec.id for spec in requests]
    if len(set(ids)) < len(ids):
        again = next(name for name in ids if ids.count(name) > 1)
        raise ConfigError(
            f"request {again!r} came back to replica {lives[0].replica + 1} after its restart, which cannot be drawn; "
            "kill one replica only"
        )
    texts = {token: text for life in lives for token, text in life.trace.token_texts.items()}
    at = {second: record for life in lives for second, record in _by_second(life.trace.records).items()}
    rows = tuple(_rows(at, told, first.config.num_blocks, seconds))
    return replace(first, requests=requests, token_texts=texts, records=rows)


def _rows(
    at: Mapping[int, TickRecord], told: Mapping[int, Sequence[FaultInjected]], num_blocks: int, seconds: int
) -> Iterator[TickRecord]:
    """One record a second: a longer one that is idle is drawn out, and after the last nothing happens."""
    nobody = Snapshot((), (), (), tuple(range(num_blocks)), (), 0, 0)
    last = TickRecord(0, 0.0, 0.0, 0.0, SchedulerOutput(0), (), _EMPTY, nobody)
    for second in range(seconds):
        last = at.get(second) or _quiet(last)
        output = replace(last.output, tick=second)
        events = (*told.get(second, ()), *last.events)
        last = replace(last, tick=second, start=float(second), end=float(second + 1), output=output, events=events)
        yield last


def _by_second(records: Sequence[TickRecord]) -> dict[int, TickRecord]:
    found: dict[int, TickRecord] = {}
    before: TickRecord | None = None
    for record in records:
        is_kill = any(isinstance(event, FaultInjected) and event.name == KILLED for event in record.events)
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

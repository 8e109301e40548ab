"""What each replica is at every second, in five numbers: small enough to show sixty of them at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

from scheduler_core.events import LowerTierQueried, PrefixCacheQueried
from scheduler_core.replicas.events import ReplicaKilled, ReplicaReady, ReplicaStarting
from scheduler_core.replicas.fleet_trace import FleetTrace
from scheduler_core.replicas.grid import num_seconds
from scheduler_core.replicas.life import Life
from scheduler_core.trace import TickRecord

#: In `hit_permille`: nothing was looked up yet.
NO_QUERY = 1001


class ReplicaState(IntEnum):
    """Whether a replica takes requests."""

    ALIVE = 0
    GONE = 1
    STARTING = 2


@dataclass(frozen=True, slots=True)
class Overview:
    """One replica as columns with an entry for every second; `hit_permille` counts from its last start on."""

    state: tuple[int, ...]
    waiting: tuple[int, ...]
    running: tuple[int, ...]
    used_blocks: tuple[int, ...]
    hit_permille: tuple[int, ...]


def overview(fleet: FleetTrace) -> tuple[Overview, ...]:
    """One for each replica; the run has to fit a grid of seconds (see `grid.py`)."""
    seconds = num_seconds(fleet)
    return tuple(_of(fleet, number, seconds) for number in range(fleet.config.num_replicas))


def _of(fleet: FleetTrace, number: int, seconds: int) -> Overview:
    lives = [life for life in fleet.lives if life.replica == number]
    rows = {second: row for life in lives for second, row in _rows(life)}
    state = tuple(_states(fleet, number, seconds))
    shown, last = [], (0, 0, 0, NO_QUERY)
    for second in range(seconds):
        last = rows.get(second, last) if state[second] is ReplicaState.ALIVE else (0, 0, 0, NO_QUERY)
        shown.append(last)
    waiting, running, used, hits = zip(*shown, strict=True)
    return Overview(tuple(map(int, state)), waiting, running, used, hits)


def _states(fleet: FleetTrace, number: int, seconds: int) -> Iterator[ReplicaState]:
    """A change holds from its second on."""
    changes: dict[int, ReplicaState] = {}
    for event in fleet.events:
        match event:
            case ReplicaKilled(time=time, replica=replica) if replica == number:
                changes[int(time)] = ReplicaState.GONE
            case ReplicaStarting(time=time, replica=replica) if replica == number:
                changes[int(time)] = ReplicaState.STARTING
            case ReplicaReady(time=time, replica=replica) if replica == number:
                changes[int(time)] = ReplicaState.ALIVE
    now = ReplicaState.ALIVE
    for second in range(seconds):
        now = changes.get(second, now)
        yield now


def _rows(life: Life) -> Iterator[tuple[int, tuple[int, int, int, int]]]:
    """What stands in the columns, for the seconds in which a tick starts."""
    queried = hit = 0
    for record in life.trace.records:
        asked, found = _queries(record)
        queried, hit = queried + asked, hit + found
        counts = record.counts
        share = 1000 * hit // queried if queried else NO_QUERY
        yield int(record.start), (counts.waiting, counts.running, counts.used_blocks, share)


def _queries(record: TickRecord) -> tuple[int, int]:
    """Tokens that were looked up, and those of them that were found."""
    queried = hit = 0
    for event in record.events:
        if isinstance(event, PrefixCacheQueried) and not event.self_hit:
            queried, hit = queried + event.query_tokens, hit + event.hit_tokens
        elif isinstance(event, LowerTierQueried) and not event.self_hit:
            hit += event.hit_tokens
    return queried, hit

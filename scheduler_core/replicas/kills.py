"""Kills of replicas and what follows them: when each is gone, starts anew and is back."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from scheduler_core.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Kill:
    """Replica `replica` (from 0) is gone from `time` on, in seconds of virtual time; its KV is lost.

    `restart_after` seconds later a new process starts in its place and loads the weights; None = nobody starts one.
    """

    time: float
    replica: int
    restart_after: float | None = None

    def ready_at(self, start_seconds: float) -> float | None:
        """When the new process has loaded the weights and takes requests; None if there is none."""
        return None if self.restart_after is None else self.time + self.restart_after + start_seconds


class Change(IntEnum):
    """What becomes of a replica, in the order in which it happens at the same instant."""

    READY = 0
    KILLED = 1
    STARTING = 2


class Turn(NamedTuple):
    """One change of one replica; `ready_at` is when it will be back, None where it stays away."""

    time: float
    change: Change
    replica: int
    ready_at: float | None


def turns(kills: Iterable[Kill], start_seconds: float) -> list[Turn]:
    """All changes in order of time."""
    found = []
    for kill in kills:
        ready_at = kill.ready_at(start_seconds)
        found.append(Turn(kill.time, Change.KILLED, kill.replica, ready_at))
        if kill.restart_after is not None and ready_at is not None:
            found.append(Turn(kill.time + kill.restart_after, Change.STARTING, kill.replica, ready_at))
            found.append(Turn(ready_at, Change.READY, kill.replica, ready_at))
    return sorted(found, key=lambda turn: turn[:3])


def check_kills(kills: Iterable[Kill], num_replicas: int, start_seconds: float) -> None:
    """Nobody is killed who is not there, and somebody always is; raises `ConfigError`."""
    alive, back_at = set(range(num_replicas)), dict[int, float | None]()
    for turn in turns(kills, start_seconds):
        if turn.change is Change.READY:
            alive.add(turn.replica)
        elif turn.change is Change.KILLED:
            if turn.replica not in alive:
                raise ConfigError(_twice(turn, back_at[turn.replica]))
            alive.remove(turn.replica)
            back_at[turn.replica] = turn.ready_at
            if not alive:
                raise ConfigError(
                    f"with the kill at {turn.time:g} s all {num_replicas} replicas are gone; leave at least one to "
                    "serve the requests"
                )


def _twice(turn: Turn, back_at: float | None) -> str:
    when = "is not restarted in between" if back_at is None else f"is back at {back_at:g} s only"
    return (
        f"replica {turn.replica} is killed twice: at {turn.time:g} s it is gone already, and it {when}; kill it once, "
        "or after it is back"
    )

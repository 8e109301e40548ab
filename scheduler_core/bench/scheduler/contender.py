"""What is measured: a scheduler that takes requests and makes ticks with a model that costs nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from scheduler_core.request import RequestSpec


@dataclass(frozen=True, slots=True)
class MeasuredTick:
    """One tick: the scheduler's own time, its batch as tokens by request id, and how many requests finished."""

    seconds: float
    scheduled: dict[str, int]
    num_finished: int


class Contender(Protocol):
    """A scheduler with one load; `includes` says in words what its time covers."""

    name: str
    includes: str

    def add(self, spec: RequestSpec) -> None:
        """Send a request; not measured."""
        ...

    def tick(self) -> MeasuredTick: ...

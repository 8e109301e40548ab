"""A few states of a run, evenly over its ticks, in bounded memory."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable

FIRST_INTERVAL = 2_048


class Checkpoints:
    """At most `most` states of together at most `max_bytes`; when there are more, every other one is let go."""

    def __init__(self, most: int = 12, max_bytes: int = 128 * 1024 * 1024) -> None:
        self.interval = FIRST_INTERVAL
        self._most = most
        self._max_bytes = max_bytes
        self._states: dict[int, bytes] = {}

    @property
    def ticks(self) -> list[int]:
        return [*self._states]

    @property
    def num_bytes(self) -> int:
        return sum(map(len, self._states.values()))

    def offer(self, tick: int, save: Callable[[], bytes]) -> None:
        """Keep the state as of the start of `tick`, if it is time for one."""
        if not self._most or not tick or tick % self.interval:
            return
        self._states[tick] = save()
        while self._states and (len(self._states) > self._most or self.num_bytes > self._max_bytes):
            self.interval *= 2
            self._states = {at: state for at, state in self._states.items() if at % self.interval == 0}

    def before(self, tick: int) -> tuple[int, bytes] | None:
        """The last state at `tick` or earlier."""
        ticks = self.ticks
        place = bisect_right(ticks, tick)
        return (ticks[place - 1], self._states[ticks[place - 1]]) if place else None

"""Waiting requests in the order of admission, in lines that rise together, so that ageing moves nobody one by one."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from itertools import groupby, takewhile

from scheduler_core.policy import SchedulingPolicy
from scheduler_core.request import Request

Key = tuple[int, int]

#: The line of those in the best class, who rise no further.
_BEST = 0


def lifted_class(request_class: int, idle_ticks: int, aging: int) -> int:
    """The effective class: one better for every `aging` ticks without getting ahead; 0 is the best there is."""
    return max(0, request_class - idle_ticks // aging) if aging else request_class


class WaitingQueue:
    """Requests sorted by (effective class, queue number), and by queue number alone.

    A line holds those that are in the same class at every tick. With ageing it is named by the tick in which they reach
    the best class, which no wait changes; without, by their class. At most `aging` lines share a class, as those that
    have reached the best one are merged.
    """

    def __init__(self, policy: SchedulingPolicy, aging: int) -> None:
        self._policy = policy
        self._aging = aging
        self._tick = 0
        self._requests: dict[int, Request] = {}
        self._numbers: list[int] = []
        self._line_of: dict[int, int] = {}
        self._lines: dict[int, list[int]] = {}
        self._names: list[int] = []

    def __len__(self) -> int:
        return len(self._requests)

    def __contains__(self, request: Request) -> bool:
        return request.queue_number in self._requests

    def __iter__(self) -> Iterator[Request]:
        """Best first."""
        for _, names in groupby(self._names, self._class_of):
            for number in sorted(number for name in names for number in self._lines[name]):
                yield self._requests[number]

    def best(self) -> Request | None:
        """The first in line, of the lines in the best class that anybody waits in."""
        if not self._names:
            return None
        best_class = self._class_of(self._names[0])
        names = takewhile(lambda name: self._class_of(name) == best_class, self._names)
        return self._requests[min(self._lines[name][0] for name in names)]

    def key(self, request: Request) -> Key:
        return self._class_of(self._line_of[request.queue_number]), request.queue_number

    def oldest(self, count: int) -> list[Request]:
        """The first `count` by queue number."""
        return [self._requests[number] for number in self._numbers[:count]]

    def add(self, request: Request, tick: int) -> None:
        number = request.queue_number
        assert number not in self._requests, f"{request.id} is waiting already"
        request.waiting_since = self._tick = tick
        self._requests[number] = request
        insort(self._numbers, number)
        self._join(self._line_for(request, tick), number)

    def remove(self, request: Request, tick: int) -> None:
        """Take it out; its wait is added to what it waited before."""
        number = request.queue_number
        self._leave(number)
        del self._requests[number]
        del self._numbers[bisect_left(self._numbers, number)]
        request.waited_ticks += tick - request.waiting_since

    def promote(self, tick: int) -> None:
        """Let the time come to `tick`; lines that have reached the best class become one."""
        self._tick = tick
        if not self._aging:
            return
        for name in self._names[: bisect_right(self._names, tick)]:
            if name != _BEST:
                self._merge_with_best(name)

    def rekey(self, request: Request, tick: int) -> None:
        """Put it where its class of now belongs."""
        self._tick = tick
        self._leave(request.queue_number)
        self._join(self._line_for(request, tick), request.queue_number)

    def waited(self, request: Request, tick: int) -> int:
        return request.waited_ticks + tick - request.waiting_since

    # Lines

    def _line_for(self, request: Request, tick: int) -> int:
        request_class = self._policy.request_class(request)
        if not self._aging:
            return request_class
        best_at = tick + request_class * self._aging - self.waited(request, tick) - request.lost_ticks
        return best_at if best_at > tick else _BEST

    def _class_of(self, name: int) -> int:
        if not self._aging or name == _BEST:
            return name
        return max(0, -((self._tick - name) // self._aging))

    def _join(self, name: int, number: int) -> None:
        self._line_of[number] = name
        insort(self._open(name), number)

    def _leave(self, number: int) -> None:
        name = self._line_of.pop(number)
        line = self._lines[name]
        del line[bisect_left(line, number)]
        if not line:
            self._close(name)

    def _merge_with_best(self, name: int) -> None:
        risen = self._close(name)
        self._line_of.update(dict.fromkeys(risen, _BEST))
        best = self._open(_BEST)
        best += risen
        # Two sorted runs: this takes one look at each.
        best.sort()

    def _open(self, name: int) -> list[int]:
        if name not in self._lines:
            self._lines[name] = []
            insort(self._names, name)
        return self._lines[name]

    def _close(self, name: int) -> list[int]:
        del self._names[bisect_left(self._names, name)]
        return self._lines.pop(name)

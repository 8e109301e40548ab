"""Waiting requests in the order of admission. Ageing lifts them at known ticks, so nothing is scanned per tick."""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections.abc import Iterator

from scheduler_core.policy import SchedulingPolicy
from scheduler_core.request import Request

Key = tuple[int, int]


def lifted_class(request_class: int, idle_ticks: int, aging: int) -> int:
    """The effective class: one better for every `aging` ticks without getting ahead; 0 is the best there is."""
    return max(0, request_class - idle_ticks // aging) if aging else request_class


class WaitingQueue:
    """Requests sorted by (effective class, queue number), and by queue number alone."""

    def __init__(self, policy: SchedulingPolicy, aging: int) -> None:
        self._policy = policy
        self._aging = aging
        self._requests: dict[int, Request] = {}
        self._keys: dict[int, Key] = {}
        self._sorted: list[Key] = []
        self._numbers: list[int] = []
        self._promotions: list[tuple[int, int]] = []
        self._due: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._sorted)

    def __contains__(self, request: Request) -> bool:
        return request.queue_number in self._requests

    def __iter__(self) -> Iterator[Request]:
        """Best first."""
        return (self._requests[number] for _, number in self._sorted)

    def best(self) -> Request | None:
        return self._requests[self._sorted[0][1]] if self._sorted else None

    def key(self, request: Request) -> Key:
        return self._keys[request.queue_number]

    def oldest(self, count: int) -> list[Request]:
        """The first `count` by queue number."""
        return [self._requests[number] for number in self._numbers[:count]]

    def add(self, request: Request, tick: int) -> None:
        number = request.queue_number
        assert number not in self._requests, f"{request.id} is waiting already"
        request.waiting_since = tick
        self._requests[number] = request
        insort(self._numbers, number)
        self._insert(request, tick)

    def remove(self, request: Request, tick: int) -> None:
        """Take it out; its wait is added to what it waited before."""
        number = request.queue_number
        self._drop(number)
        del self._requests[number]
        self._due.pop(number, None)
        del self._numbers[bisect_left(self._numbers, number)]
        request.waited_ticks += tick - request.waiting_since

    def promote(self, tick: int) -> None:
        """Lift those whose time has come."""
        while self._promotions and self._promotions[0][0] <= tick:
            due, number = heapq.heappop(self._promotions)
            if self._due.get(number) == due:
                self.rekey(self._requests[number], tick)

    def rekey(self, request: Request, tick: int) -> None:
        """Put it where its class of now belongs."""
        self._drop(request.queue_number)
        self._insert(request, tick)

    def waited(self, request: Request, tick: int) -> int:
        return request.waited_ticks + tick - request.waiting_since

    def _insert(self, request: Request, tick: int) -> None:
        number = request.queue_number
        idle = self.waited(request, tick) + request.lost_ticks
        key = (lifted_class(self._policy.request_class(request), idle, self._aging), number)
        self._keys[number] = key
        insort(self._sorted, key)
        if self._aging and key[0] > 0:
            due = tick + self._aging - idle % self._aging
            if self._due.get(number) != due:
                self._due[number] = due
                heapq.heappush(self._promotions, (due, number))

    def _drop(self, number: int) -> None:
        del self._sorted[bisect_left(self._sorted, self._keys.pop(number))]

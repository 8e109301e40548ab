"""Requests on their way: sent, but not arrived yet."""

from __future__ import annotations

import heapq
from collections.abc import Iterator

from scheduler_core.request import RequestSpec


class Arrivals:
    """Requests by arrival time; those of the same time in the order in which they were sent."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, RequestSpec]] = []
        self._num_sent = 0

    def __len__(self) -> int:
        return len(self._heap)

    @property
    def next_time(self) -> float | None:
        return self._heap[0][0] if self._heap else None

    def send(self, spec: RequestSpec) -> None:
        self._num_sent += 1
        heapq.heappush(self._heap, (spec.arrival_time, self._num_sent, spec))

    def due(self, now: float) -> Iterator[RequestSpec]:
        """Hand over those that arrive at `now` or did before."""
        while self._heap and self._heap[0][0] <= now:
            yield heapq.heappop(self._heap)[2]

    def withdraw(self, request_id: str) -> bool:
        """Take one back before it arrives; False if it is not on its way."""
        kept = [entry for entry in self._heap if entry[2].id != request_id]
        found = len(kept) < len(self._heap)
        self._heap = kept
        heapq.heapify(kept)
        return found

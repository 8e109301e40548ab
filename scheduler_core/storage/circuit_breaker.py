"""Stops asking a service that fails, and tries again now and then."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

from scheduler_core.storage.backing import NotAsked, StoreFault

T = TypeVar("T")


class CircuitBreaker:
    """After `threshold` failures in a row nothing is asked for `pause_s`, twice as long after each trial that fails.

    `clock` gives seconds that only grow.
    """

    def __init__(
        self,
        threshold: int = 3,
        pause_s: float = 0.5,
        longest_pause_s: float = 10.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._threshold = threshold
        self._first_pause = pause_s
        self._longest_pause = longest_pause_s
        self._clock = clock
        self._lock = threading.Lock()
        self._failures = 0
        self._pause = pause_s
        self._closed_from = 0.0

    @property
    def is_open(self) -> bool:
        """Whether nothing is asked at the moment."""
        return self._failures >= self._threshold and self._clock() < self._closed_from

    def call(self, ask: Callable[[], T]) -> T:
        """What `ask` answers; raises `NotAsked` while the pause lasts, or the `StoreFault` that it raises."""
        if self.is_open:
            raise NotAsked("the service has failed before and is not asked again yet")
        try:
            answer = ask()
        except StoreFault:
            self._failed()
            raise
        with self._lock:
            self._failures = 0
            self._pause = self._first_pause
        return answer

    def _failed(self) -> None:
        with self._lock:
            self._failures += 1
            if self._failures >= self._threshold:
                self._closed_from = self._clock() + self._pause
                self._pause = min(2 * self._pause, self._longest_pause)

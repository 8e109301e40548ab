"""An event loop whose clock leaps over every sleep: a minute is over at once, and always in the same order."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")


class _Leap(selectors.SelectSelector):
    """Waits for nothing; the time that it should have waited has passed."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        assert timeout is not None, "every task waits for another, so the clock would stand still for ever"
        self.now += max(timeout, 0.0)
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    """Seconds from 0 that pass only while all tasks sleep."""

    def __init__(self) -> None:
        self._leap = _Leap()
        super().__init__(self._leap)

    def time(self) -> float:
        return self._leap.now


def run_virtually(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """The result of a coroutine under a clock of its own, which starts at 0."""
    # In a thread of its own, for the caller's may have a loop that runs already.
    with ThreadPoolExecutor(max_workers=1) as thread:
        return thread.submit(_run, main).result()


def _run(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main())

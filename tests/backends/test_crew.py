"""Threads that share phases of items."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from numba import njit

from scheduler_core.backends.crew import Crew, claim, finish, wait


@njit(nogil=True)
def add_up(phases, values, sums):  # type: ignore[no-untyped-def]
    """Phase by phase, each item becomes the sum of all of the phase before, plus itself."""
    for phase in range(sums.shape[0] - 1):
        item = claim(phases, phase)
        while item < values.shape[0]:
            total = 0
            for other in range(values.shape[0]):
                total += sums[phase, other]
            sums[phase + 1, item] = total % 1_000_003 + values[item]
            finish(phases, phase)
            item = claim(phases, phase)
        wait(phases, phase, values.shape[0])


def run(threads: int, crew: Crew, items: int = 40, phases: int = 200) -> np.ndarray:
    values = np.arange(items)
    sums = np.zeros((phases + 1, items), np.int64)
    crew.run(threads, add_up, phases, values, sums)
    return sums


@pytest.fixture(scope="module")
def alone() -> np.ndarray:
    return run(1, Crew())


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_every_phase_sees_all_of_the_one_before_whatever_the_number_of_threads(threads: int, alone: np.ndarray) -> None:
    crew = Crew()
    for _ in range(20):
        np.testing.assert_array_equal(run(threads, crew), alone)


def test_a_thread_that_never_comes_holds_nobody_up(alone: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
    """The helpers are kept busy elsewhere for the whole run."""
    free = threading.Event()

    class Busy(ThreadPoolExecutor):
        def submit(self, *work: object) -> object:  # type: ignore[override]
            return super().submit(free.wait)

    monkeypatch.setattr("scheduler_core.backends.crew.ThreadPoolExecutor", Busy)
    try:
        np.testing.assert_array_equal(run(3, Crew()), alone)
    finally:
        free.set()


def test_a_thread_that_comes_late_from_an_earlier_run_touches_nothing_of_the_next(alone: np.ndarray) -> None:
    crew, phases, values = Crew(), 200, np.arange(40)
    sums = np.zeros((phases + 1, 40), np.int64)
    counters = np.zeros((phases, 8), np.int64)
    add_up(counters, values, sums)
    changed = np.full_like(sums, -1)
    add_up(counters, values, changed)  # as a helper would that wakes after its run is over
    assert (changed == -1).all()
    np.testing.assert_array_equal(run(2, crew), alone)


def test_a_phase_without_items_is_over_at_once() -> None:
    sums = np.zeros((4, 0), np.int64)
    Crew().run(2, add_up, 3, np.arange(0), sums)

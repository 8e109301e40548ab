"""Rounds of what is fitted and of what is predicted in turn, so that a busy moment of the machine meets both."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from scheduler_core.backends.base import ModelRunner
from scheduler_core.bench.calibration.measure import Measured, measure
from scheduler_core.bench.calibration.unseen import Unseen, run_unseen
from scheduler_core.bench.tick_shape import TickShape


def measure_rounds(
    runner: ModelRunner, shapes: Sequence[TickShape], rounds: int, requests: int, seed: int, say: Callable[[str], None]
) -> tuple[Measured, Unseen | None]:
    """All shapes `rounds` times, and after each time the unseen workload, if it has requests."""
    measured, seen = Measured([(shape, []) for shape in shapes], {}), Unseen(requests, seed, [])
    for number in range(rounds):

        def tell(what: str, round_number: int = number + 1) -> None:
            say(f"round {round_number} of {rounds}: {what}")

        measured.add(measure(runner, shapes, 1, tell))
        if requests:
            seen.add(run_unseen(runner, requests, seed, tell))
    return measured, seen if requests else None

"""A tick costs what takes part in it: function calls are counted, as they are the same on every machine."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from scheduler_core.bench.scheduler.load import SchedulerLoad
from scheduler_core.bench.scheduler.ours import InstantModel
from scheduler_core.engine import Engine
from scheduler_core.trace import TickRecord


def engine(waiting: int, preset: str, lanes: int = 8, prompt_tokens: int = 100, **changes: object) -> Engine:
    load = SchedulerLoad("steady", waiting, lanes, num_blocks=50 * lanes, prompt_tokens=prompt_tokens)
    made = Engine(load.config(preset, **changes), InstantModel(), record="summary", check=False)
    for number in range(load.num_requests):
        made.add_request(load.request(number))
    return made


def calls(step: Callable[[], TickRecord]) -> int:
    """Calls of functions, ours and built-in ones, in a tick."""
    count = 0

    def counting(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(counting)
    try:
        step()
    finally:
        sys.setprofile(None)
    return count


def calls_per_tick(waiting: int, preset: str, **changes: object) -> list[int]:
    made = engine(waiting, preset, **changes)
    for _ in range(12):
        made.step()
    return [calls(made.step) for _ in range(24)]


@pytest.mark.parametrize(
    ("preset", "changes"),
    [
        ("vllm", {}),
        ("vllm", {"policy": "priority"}),
        ("tickscope", {}),
        ("tickscope", {"quantum": 2}),
        ("tickscope", {"policy": "priority", "aging": 3, "quantum": 2}),
        ("tickscope", {"policy": "mlfq", "aging": 1}),
        ("tickscope", {"policy": "shortest", "aging": 1, "quantum": None}),
        ("tickscope", {"policy": "longest_prefix", "quantum": None}),
    ],
    ids=str,
)
def test_the_calls_of_a_tick_do_not_grow_with_those_who_wait(preset: str, changes: dict[str, object]) -> None:
    few, many = calls_per_tick(100, preset, **changes), calls_per_tick(2_000, preset, **changes)
    assert sum(many) < 1.1 * sum(few), (few, many)
    assert max(many) < 1.5 * max(few), (few, many)


def test_the_calls_of_a_tick_grow_no_faster_than_the_lanes_when_all_slices_end_at_once() -> None:
    def most_calls(lanes: int) -> int:
        made = engine(200, "tickscope", quantum=1, lanes=lanes, prompt_tokens=16)
        return max(calls(made.step) for _ in range(6))

    assert most_calls(128) < 2.4 * most_calls(64)

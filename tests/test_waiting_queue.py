"""WaitingQueue: order, ageing, removal."""

from __future__ import annotations

import random

import pytest

from scheduler_core.config import EngineConfig
from scheduler_core.policy import PriorityPolicy, make_policy
from scheduler_core.request import Request
from scheduler_core.waiting_queue import WaitingQueue, lifted_class
from tests.helpers import create_request


def queue(aging: int = 0) -> WaitingQueue:
    return WaitingQueue(make_policy(EngineConfig(policy="priority")), aging)


def request(name: str, priority: int, number: int) -> Request:
    return Request(create_request(name, priority=priority), number, 20)


def names(waiting: WaitingQueue) -> list[str]:
    return [r.id for r in waiting]


def test_the_better_class_goes_first_and_within_it_the_smaller_number() -> None:
    waiting = queue()
    for name, priority, number in [("a", 2, 1), ("b", 0, 2), ("c", 2, 3), ("d", 0, 4)]:
        waiting.add(request(name, priority, number), tick=0)
    assert names(waiting) == ["b", "d", "a", "c"]
    assert waiting.best().id == "b"


def test_a_memory_victim_with_its_old_number_returns_to_its_place() -> None:
    waiting = queue()
    waiting.add(request("later", 1, 7), tick=0)
    waiting.add(request("victim", 1, 3), tick=5)
    assert names(waiting) == ["victim", "later"]


def test_ageing_lifts_by_one_class_every_so_many_ticks_and_no_further_than_0() -> None:
    waiting = queue(aging=4)
    old = request("old", 2, 1)
    waiting.add(old, tick=0)
    seen = []
    for tick in range(0, 14, 2):
        waiting.promote(tick)
        seen.append(waiting.key(old)[0])
    assert seen == [2, 2, 1, 1, 0, 0, 0]


def test_waits_add_up_over_several_stays() -> None:
    waiting = queue(aging=4)
    r = request("r", 2, 1)
    waiting.add(r, tick=0)
    waiting.remove(r, tick=3)
    waiting.add(r, tick=10)
    waiting.promote(11)
    assert waiting.key(r)[0] == 1, "3 ticks before and 1 now"


@pytest.mark.parametrize("seed", range(30))
def test_the_order_equals_sorting_by_definition_at_every_tick(seed: int) -> None:
    rng = random.Random(seed)
    aging = rng.choice([1, 2, 5])
    waiting = queue(aging)
    alive: list[Request] = []
    number = 0
    for tick in range(60):
        waiting.promote(tick)
        if rng.random() < 0.5:
            number += 1
            alive.append(request(f"r{number}", rng.randint(0, 5), number))
            waiting.add(alive[-1], tick)
        if alive and rng.random() < 0.3:
            gone = alive.pop(rng.randrange(len(alive)))
            waiting.remove(gone, tick)
            if rng.random() < 0.5:
                waiting.add(gone, tick)
                alive.append(gone)
        expected = sorted(
            alive,
            key=lambda r: (
                lifted_class(r.spec.priority, r.waited_ticks + tick - r.waiting_since, aging),
                r.queue_number,
            ),
        )
        assert names(waiting) == [r.id for r in expected]
        assert [r.id for r in waiting.oldest(3)] == [r.id for r in sorted(alive, key=lambda r: r.queue_number)][:3]


def test_ageing_asks_nobody_again_for_a_class_as_all_rise_in_their_lines() -> None:
    asked: list[str] = []

    class Counting(PriorityPolicy):
        def request_class(self, request: Request) -> int:
            asked.append(request.id)
            return super().request_class(request)

    waiting = WaitingQueue(Counting(EngineConfig()), aging=3)
    for number in range(100):
        waiting.add(request(f"r{number}", number % 4, number), tick=0)
    classes = []
    for tick in range(0, 12, 3):
        waiting.promote(tick)
        classes.append(len({waiting.key(r)[0] for r in waiting}))
    assert (len(asked), classes, names(waiting)) == (100, [4, 3, 2, 1], [f"r{number}" for number in range(100)])

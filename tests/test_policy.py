"""Policies: who goes first, in whole runs."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler_core.config import POLICIES, EngineConfig
from scheduler_core.events import RequestAdmitted, RequestFinished
from scheduler_core.policy import make_policy
from scheduler_core.request import RequestSpec
from scheduler_core.trace import Trace
from tests.helpers import create_engine, create_request, events, run


def order(*specs: RequestSpec, **knobs: Any) -> list[str]:
    """Request ids in the order of first admission on one lane."""
    trace = run(create_engine(max_num_seqs=1, **knobs), *specs)
    return [e.request_id for e in events(trace, RequestAdmitted) if not e.resumed]


@pytest.mark.parametrize("name", POLICIES)
def test_every_policy_has_its_class(name: str) -> None:
    assert make_policy(EngineConfig(policy=name)).name == name


def test_fcfs_admits_in_order_of_arrival() -> None:
    specs = [create_request(n, 4, max_tokens=2, arrival=a) for n, a in [("late", 1), ("first", 0), ("later", 2)]]
    assert order(*specs, policy="fcfs") == ["first", "late", "later"]


def test_priority_admits_the_lower_number_first() -> None:
    specs = [create_request(n, 4, max_tokens=2, priority=p) for n, p in [("a", 2), ("b", 0), ("c", 1)]]
    assert order(*specs, policy="priority") == ["b", "c", "a"]


def test_shortest_admits_the_least_work_first() -> None:
    specs = [create_request("long", 4, 9), create_request("short", 4, 2), create_request("prompt", 12, 1)]
    assert order(*specs, policy="shortest") == ["short", "long", "prompt"]


def test_longest_prefix_admits_what_is_cached_first() -> None:
    prefix = list(range(50, 58))
    specs = [
        create_request("warm", [*prefix, 1], 2),
        create_request("cold", 9, max_tokens=2, arrival=1),
        create_request("hit", [*prefix, 2], max_tokens=2, arrival=1),
    ]
    assert order(*specs, policy="longest_prefix") == ["warm", "hit", "cold"]
    assert order(*specs, policy="fcfs") == ["warm", "cold", "hit"]


def end_ticks(trace: Trace) -> dict[str, int]:
    return {e.request_id: r.tick for r in trace.records for e in r.events if isinstance(e, RequestFinished)}


def ends_beside_warm_requests(aging: int, count: int = 40) -> dict[str, int]:
    """A cold request and a stream of warm ones, on one lane; request id -> tick of its end."""
    prefix = list(range(50, 58))
    specs = [create_request("warmup", [*prefix, 1], 1), create_request("cold", 9, max_tokens=1, arrival=2)]
    specs += [create_request(f"hit{i}", [*prefix, 100 + i], max_tokens=1, arrival=2 + i) for i in range(count)]
    trace = run(create_engine(policy="longest_prefix", max_num_seqs=1, aging=aging), *specs)
    return end_ticks(trace)


def test_longest_prefix_starves_a_cold_request_and_ageing_bounds_its_wait() -> None:
    assert ends_beside_warm_requests(aging=0)["cold"] > 40
    assert ends_beside_warm_requests(aging=2)["cold"] <= 2 + 2 * 2 + 2


def test_mlfq_lets_a_newcomer_pass_a_request_that_has_had_its_slice() -> None:
    specs = [create_request("old", 4, max_tokens=20), create_request("new", 4, max_tokens=2, arrival=5)]
    trace = run(create_engine(policy="mlfq", quantum=2, max_num_seqs=1), *specs)
    ends = [e.request_id for e in events(trace, RequestFinished)]
    assert ends == ["new", "old"]


def test_ageing_lets_a_patient_request_through_a_stream_of_urgent_ones() -> None:
    specs = [create_request("patient", 4, max_tokens=2, priority=3)]
    specs += [create_request(f"u{i}", 4, max_tokens=2, priority=0, arrival=2 * i) for i in range(20)]
    knobs = {"policy": "priority", "max_num_seqs": 1, "priority_push_out": False}
    starved = run(create_engine(aging=0, **knobs), *specs)
    aged = run(create_engine(aging=3, **knobs), *specs)

    assert end_ticks(starved)["patient"] > 38
    assert end_ticks(aged)["patient"] < 20

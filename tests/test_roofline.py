"""What a tick costs by the tokens in it, and where its bound turns from memory to arithmetic."""

from __future__ import annotations

import pytest

from scheduler_core.cost_model import MACHINES, Work, tick_seconds
from scheduler_core.output import ScheduledRequest, SchedulerOutput
from scheduler_core.request import SamplingParams
from scheduler_core.roofline import CONTEXT, LARGEST, REAL, SIZES, cost, decodes, knee, prefill


def chunk(tokens: int) -> SchedulerOutput:
    item = ScheduledRequest("A", (1,) * tokens, 0, (), False, 0, SamplingParams(1), 0)
    return SchedulerOutput(0, (item,))


def test_all_machines_but_the_unit_clock_have_a_roofline():
    assert set(REAL) == set(MACHINES) - {"unit"}


@pytest.mark.parametrize("name", REAL)
@pytest.mark.parametrize("size", [1, 7, 64, 700])
def test_a_point_is_what_the_cost_model_says_of_that_tick(name: str, size: int):
    assert cost(prefill(size), MACHINES[name]).seconds == tick_seconds(chunk(size), MACHINES[name])
    items = [ScheduledRequest(str(i), (1,), CONTEXT, (), True, 1, SamplingParams(9), 0) for i in range(size)]
    assert decodes(size) == Work.of(SchedulerOutput(0, tuple(items)))


@pytest.mark.parametrize("name", REAL)
def test_the_knee_is_where_the_bound_turns(name: str):
    machine = MACHINES[name]
    at = knee(machine)
    assert 1 < at < LARGEST
    assert cost(prefill(at - 1), machine).bound_by == "memory"
    assert cost(prefill(at), machine).bound_by == "compute"
    assert [cost(prefill(size), machine).bound_by == "compute" for size in SIZES] == [size >= at for size in SIZES]


@pytest.mark.parametrize("name", REAL)
def test_tokens_are_almost_free_before_the_knee_and_cost_in_proportion_far_behind_it(name: str):
    machine = MACHINES[name]
    before = cost(prefill(knee(machine) - 1), machine).seconds - cost(prefill(1), machine).seconds
    assert before < 0.1 * cost(prefill(1), machine).seconds
    one, two = cost(prefill(2_048), machine), cost(prefill(4_096), machine)
    assert 1.9 < two.compute_s / one.compute_s < 3

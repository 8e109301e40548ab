"""Whether a setting made a difference, and why not."""

from __future__ import annotations

import pytest

from scheduler_core.difference import makes_a_difference, same_run, why_no_difference
from scheduler_core.trace import Trace
from tests.helpers import create_engine, create_request, run


def make(**knobs: object) -> Trace:
    """Two requests side by side, 12 tokens of prompt and 6 of answer each."""
    engine = create_engine(**({"max_num_seqs": 2, "chunk_size": 8} | knobs))
    return run(engine, create_request("A", 12, max_tokens=6), create_request("B", 12, max_tokens=6))


def crowd(**knobs: object) -> Trace:
    """Three requests and one lane."""
    engine = create_engine(**({"max_num_seqs": 1} | knobs))
    return run(engine, *(create_request(name, 8, max_tokens=6) for name in "ABC"))


def test_a_run_does_not_differ_from_itself():
    assert not makes_a_difference(make(), make())


def test_a_smaller_chunk_makes_a_difference():
    assert makes_a_difference(make(), make(chunk_size=4))


def test_saving_instead_of_recomputing_makes_a_difference():
    assert makes_a_difference(crowd(quantum=2, preemption_mode="swap"), crowd(quantum=2, preemption_mode="recompute"))


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        ({"quantum": 100}, {"quantum": 200}, "no request ever ran 100 ticks in one go"),
        ({"quantum": 2}, {"quantum": 3}, "while another waited"),
        ({"chunk_size": 32}, {"chunk_size": 64}, "no more than 12 tokens of a prompt"),
        ({"max_num_batched_tokens": 100}, {"max_num_batched_tokens": 200}, "no tick computed more than 16 tokens"),
        ({"max_num_seqs": 4}, {"max_num_seqs": 8}, "no more than 2 requests ever ran at once"),
        ({"policy": "fcfs"}, {"policy": "priority"}, "no order to choose"),
        ({"enable_prefix_caching": True}, {"enable_prefix_caching": False}, "already computed"),
        ({"preemption_mode": "swap"}, {"preemption_mode": "recompute"}, "no request was preempted"),
        ({"num_blocks": 64}, {"num_blocks": 96}, "memory was never short"),
        ({"batch_order": "decode_first"}, {"batch_order": "running_order"}, "never too small"),
        ({"seed": 1}, {"seed": 2}, "nothing is drawn by chance"),
        ({"max_model_len": 128}, {"max_model_len": 256}, "no request grew past 17 tokens"),
    ],
)
def test_a_setting_without_effect_is_explained(before: dict[str, object], after: dict[str, object], why: str):
    first, second = make(**before), make(**after)
    assert not makes_a_difference(first, second)
    assert why in why_no_difference(first, second)


def test_levels_mean_nothing_without_their_policy():
    first, second = crowd(mlfq_levels=2), crowd(mlfq_levels=3)
    assert "which has no levels" in why_no_difference(first, second)


def test_every_changed_setting_gets_its_sentence():
    first, second = make(quantum=100, seed=1), make(quantum=200, seed=2)
    assert why_no_difference(first, second).count(":") == 2


def test_runs_of_other_requests_are_not_compared():
    other = run(create_engine(), create_request("A", 5))
    assert not same_run(make(), other)
    assert same_run(make(), make(chunk_size=2))

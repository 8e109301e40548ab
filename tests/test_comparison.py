"""Two runs side by side: where they part and why, each request's figures, and the totals."""

from __future__ import annotations

import dataclasses
import random

import pytest

from scheduler_core.comparison import (
    first_difference,
    request_differences,
    settings_changed,
    total_differences,
    verdict,
)
from scheduler_core.config import FIXED_FIELDS
from scheduler_core.difference import schedule
from scheduler_core.metrics import request_metrics, totals
from scheduler_core.request import FinishReason
from scheduler_core.trace import Trace
from tests.helpers import create_engine, create_request, random_config, random_workload, run


def crowd(**knobs: object) -> Trace:
    """Three requests of eight tokens each, one lane unless told otherwise."""
    engine = create_engine(**({"max_num_seqs": 1} | knobs))
    return run(engine, *(create_request(name, 8, max_tokens=6) for name in "ABC"))


def two_prompts(**knobs: object) -> Trace:
    """The second prompt begins with the first one's tokens and comes later."""
    shared = list(range(100, 124))
    late = create_request("B", [*shared, 7, 8], max_tokens=3, arrival=20)
    return run(create_engine(**knobs), create_request("A", shared, max_tokens=3), late)


def test_a_run_is_equal_to_itself():
    assert first_difference(crowd(), crowd()) is None
    assert not settings_changed(crowd(), crowd())
    assert "the same on both sides" in verdict(crowd(), crowd())


def test_a_setting_without_effect_leaves_the_runs_equal():
    assert first_difference(crowd(quantum=100), crowd(quantum=200)) is None
    assert settings_changed(crowd(quantum=100), crowd(quantum=200))


def test_a_preemption_on_one_side_is_told_with_its_reason():
    first = first_difference(crowd(quantum=None), crowd(quantum=2))
    assert first is not None
    assert "A generated a token." in first.left
    assert "A was preempted." in first.right
    assert "slice of 2 ticks ended while B was waiting" in first.right


def test_a_smaller_chunk_is_told_in_tokens():
    first = first_difference(crowd(chunk_size=8), crowd(chunk_size=4))
    assert first is not None
    assert first.tick == 0
    assert first.left == "A read its whole prompt of 8 tokens and generated its first token."
    assert first.right == "A read 4 tokens of its prompt (4 of 8)."


def test_a_hit_on_one_side_is_told():
    first = first_difference(two_prompts(), two_prompts(enable_prefix_caching=False))
    assert first is not None
    assert "B took 24 of its 26 tokens from the cache" in first.left
    assert first.left != first.right
    assert "B" in first.left
    assert "B" in first.right


def test_a_lane_more_lets_in_who_waits_on_the_other_side():
    first = first_difference(crowd(max_num_seqs=1), crowd(max_num_seqs=2))
    assert first is not None
    assert first.tick == 0
    assert "The only lane is taken." in first.left
    assert "B was admitted" in first.right


def test_a_clock_that_runs_otherwise_is_a_difference_of_time():
    first = first_difference(crowd(), crowd(cost="smollm2-cpu"))
    assert first is not None
    assert first.tick == 0
    assert "in 1 second" in first.left


def test_an_answer_drawn_otherwise_is_a_difference_of_words():
    def drawn(seed: int) -> Trace:
        return run(create_engine(seed=seed), create_request("A", 8, max_tokens=4, temperature=1.0))

    first = first_difference(drawn(1), drawn(2))
    assert first is not None
    assert first.left.startswith("A said")
    [row] = request_differences(drawn(1), drawn(2))
    assert not row.says_the_same


def test_the_longer_run_goes_on_where_the_other_has_ended():
    short = run(create_engine(), create_request("A", 8, max_tokens=4))
    long = run(create_engine(), create_request("A", 8, max_tokens=4), create_request("B", 8, max_tokens=4, arrival=9))
    first = first_difference(short, long)
    assert first is not None
    assert first.tick == len(short.records)
    assert f"ended with tick {len(short.records) - 1}" in first.left


@pytest.mark.parametrize("seed", range(40))
def test_the_first_difference_is_the_first_tick_that_is_scheduled_otherwise(seed: int):
    workload = dataclasses.replace(random_workload(seed), aborts=())
    left = workload.run()
    right = dataclasses.replace(workload, config=workload.config.replace(quantum=2, chunk_size=3)).run()
    first = first_difference(left, right)
    ours, others = schedule(left), schedule(right)
    if first is None:
        assert ours == others
        return
    assert ours[: first.tick] == others[: first.tick]
    assert first.left
    assert first.right
    assert first.left != first.right


@pytest.mark.parametrize("seed", range(40))
def test_figures_are_those_of_the_runs_alone(seed: int):
    workload = dataclasses.replace(random_workload(seed), aborts=())
    left = workload.run()
    right = dataclasses.replace(workload, config=workload.config.replace(policy="shortest", quantum=1)).run()
    rows = request_differences(left, right)
    for row, one, two in zip(rows, request_metrics(left), request_metrics(right), strict=True):
        assert row.left is not None
        assert row.right is not None
        assert row.id == one.id == two.id
        assert (row.left.ttft_s, row.right.ttft_s) == (one.ttft_s, two.ttft_s)
        assert (row.left.worst_gap_s, row.right.worst_gap_s) == (one.worst_gap_s, two.worst_gap_s)
        assert (row.left.recomputed_tokens, row.right.recomputed_tokens) == (
            one.recomputed_tokens,
            two.recomputed_tokens,
        )
        ends = [r.end for r in right.records if any(i.request_id == row.id for i in r.output.scheduled)]
        assert row.right.finish_s is None or row.right.finish_s == pytest.approx(ends[-1])
        assert row.says_the_same
    by_name = {total.name: total for total in total_differences(left, right)}
    assert by_name["preemptions"].left == totals(left)["preemptions"]
    assert by_name["recomputed_tokens"].right == sum(m.recomputed_tokens or 0 for m in request_metrics(right))
    assert by_name["ticks"].right == len(right.records)


@pytest.mark.parametrize("seed", range(60))
def test_sides_can_be_swapped_and_each_has_a_story_of_its_own(seed: int):
    workload = random_workload(seed)
    other = random_config(random.Random(seed + 1_000))
    memory = {name: getattr(workload.config, name) for name in FIXED_FIELDS}
    left, right = workload.run(), dataclasses.replace(workload, config=other.replace(watermark=0, **memory)).run()
    ours, others = first_difference(left, right), first_difference(right, left)
    if ours is None or others is None:
        assert ours is others
        assert schedule(left) == schedule(right)
        return
    assert (ours.tick, ours.left, ours.right) == (others.tick, others.right, others.left)
    assert ours.left != ours.right


def test_another_order_of_the_batch_is_told_as_such():
    def mixed(order: str) -> Trace:
        late = create_request("B", 12, max_tokens=3, arrival=2)
        return run(create_engine(batch_order=order, chunk_size=4), create_request("A", 4, max_tokens=9), late)

    first = first_difference(mixed("decode_first"), mixed("prefill_first"))
    assert first is not None
    assert first.left == "The same was computed, in the order A, B."
    assert first.right == "The same was computed, in the order B, A."


def test_a_request_of_one_side_only_has_no_figures_on_the_other():
    alone = run(create_engine(), create_request("A"))
    both = run(create_engine(), create_request("A"), create_request("B"))
    rows = {row.id: row for row in request_differences(alone, both)}
    assert rows["B"].left is None
    assert rows["B"].right is not None
    assert rows["B"].right.finish_reason is FinishReason.LENGTH


def test_the_verdict_tells_what_the_right_side_gains_and_loses():
    told = verdict(crowd(max_num_seqs=1), crowd(max_num_seqs=3))
    assert told.startswith("On the right, the mean time to the first token is")
    assert "shorter" in told
    assert told.endswith("than on the left.")

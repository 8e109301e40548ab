"""The rules of a tick, one by one, on small workloads."""

from __future__ import annotations

import pytest

from scheduler_core.backends.synthetic import SyntheticRunner
from scheduler_core.events import (
    BlockEvicted,
    BlockPublished,
    FaultInjected,
    PreemptReason,
    PrefixCacheQueried,
    RequestAdmitted,
    RequestFinished,
    RequestPreempted,
    RequestRefused,
    RequestRestored,
    RequestSkipped,
    SkipReason,
    SliceExpired,
)
from scheduler_core.request import FinishReason
from scheduler_core.trace import Trace
from tests.helpers import create_engine, create_request, events, outputs, run, tokens_per_tick


def finish_reasons(trace: Trace) -> dict[str, FinishReason]:
    return {e.request_id: e.reason for e in events(trace, RequestFinished)}


def admission_ticks(trace: Trace) -> list[tuple[int, str]]:
    return [(r.tick, e.request_id) for r in trace.records for e in r.events if isinstance(e, RequestAdmitted)]


def preemptions(trace: Trace) -> list[tuple[int, str, PreemptReason, str]]:
    return [
        (r.tick, e.request_id, e.reason, e.for_request)
        for r in trace.records
        for e in r.events
        if isinstance(e, RequestPreempted)
    ]


# Chunks and the budget


def test_a_prompt_is_read_in_chunks_of_the_cap() -> None:
    trace = run(create_engine(chunk_size=4), create_request("a", 10, max_tokens=2))
    assert tokens_per_tick(trace) == [{"a": 4}, {"a": 4}, {"a": 2}, {"a": 1}]


def test_decodes_go_first_and_a_prompt_gets_what_is_left() -> None:
    engine = create_engine(chunk_size=None, max_num_batched_tokens=6, max_num_seqs=4)
    chats = [create_request(f"c{i}", 1, max_tokens=9) for i in range(3)]
    trace = run(engine, *chats, create_request("p", 10, max_tokens=1, arrival=1))
    assert tokens_per_tick(trace)[1:4] == [{"c0": 1, "c1": 1, "c2": 1, "p": n} for n in (3, 3, 3)]


def test_without_chunking_a_prompt_runs_whole_even_past_the_budget() -> None:
    engine = create_engine(enable_chunked_prefill=False, max_num_batched_tokens=8, num_blocks=64)
    trace = run(engine, create_request("chat", 2, max_tokens=6), create_request("long", 40, max_tokens=1, arrival=2))
    assert tokens_per_tick(trace)[2] == {"chat": 1, "long": 40}


def test_prefill_first_makes_decodes_stall() -> None:
    knobs = {"chunk_size": None, "max_num_batched_tokens": 8}
    specs = [create_request("chat", 2, max_tokens=8), create_request("long", 24, max_tokens=1, arrival=2)]
    stalled = run(create_engine(batch_order="prefill_first", **knobs), *specs)
    assert tokens_per_tick(stalled)[2:5] == [{"long": 8}] * 3
    assert [e.reason for e in events(stalled, RequestSkipped, "chat")] == [SkipReason.BUDGET] * 3
    mixed = run(create_engine(batch_order="decode_first", **knobs), *specs)
    assert all("chat" in tick for tick in tokens_per_tick(mixed)[:7])


def test_the_cap_is_lifted_for_a_lone_request_only_where_asked() -> None:
    request = create_request("a", 12, max_tokens=1)
    assert tokens_per_tick(run(create_engine(chunk_size=4), request))[0] == {"a": 4}
    assert tokens_per_tick(run(create_engine(chunk_size=4, cap_lone_request=False), request))[0] == {"a": 12}


# Refusals and the ends of texts


def test_a_request_that_could_never_fit_is_refused_with_both_numbers_and_disturbs_nobody() -> None:
    big, small = create_request("x", 12, max_tokens=8), create_request("y", 3, max_tokens=2, arrival=1)
    trace = run(create_engine(num_blocks=4), big, small)
    [refusal] = events(trace, RequestRefused)
    assert dict(refusal.numbers) == {"blocks_needed": 5, "num_blocks": 4}
    assert finish_reasons(trace) == {"x": FinishReason.REJECTED, "y": FinishReason.LENGTH}
    assert outputs(trace)["y"] == outputs(run(create_engine(num_blocks=4), small))["y"]


@pytest.mark.parametrize(("prompt", "reason"), [(31, "length"), (32, "rejected"), (33, "rejected")])
def test_a_prompt_has_to_leave_room_for_one_token(prompt: int, reason: str) -> None:
    trace = run(create_engine(max_model_len=32), create_request("a", prompt, max_tokens=1))
    assert finish_reasons(trace)["a"].value == reason


@pytest.mark.parametrize(("max_tokens", "length"), [(5, 5), (6, 6), (7, 6), (100, 6)])
def test_an_answer_is_cut_at_the_context(max_tokens: int, length: int) -> None:
    trace = run(create_engine(max_model_len=16), create_request("a", 10, max_tokens=max_tokens))
    assert len(outputs(trace)["a"]) == length
    assert finish_reasons(trace)["a"] is FinishReason.LENGTH
    assert max(item.end for r in trace.records for item in r.output.scheduled) <= 15


def test_a_stop_token_ends_a_text_and_wins_over_the_limit() -> None:
    first = outputs(run(create_engine(), create_request("a", 5, max_tokens=1)))["a"][0]
    trace = run(create_engine(), create_request("a", 5, max_tokens=1, stop_token_ids=(first,)))
    assert finish_reasons(trace)["a"] is FinishReason.STOP


def test_min_tokens_holds_a_stop_token_back() -> None:
    first = outputs(run(create_engine(), create_request("a", 5, max_tokens=1)))["a"][0]
    trace = run(create_engine(), create_request("a", 5, max_tokens=4, min_tokens=2, stop_token_ids=(first,)))
    assert len(outputs(trace)["a"]) >= 2


# Prefix cache


@pytest.mark.parametrize(("length", "hit"), [(4, 0), (5, 4), (7, 4), (8, 4), (9, 8)])
def test_a_hit_leaves_at_least_one_token_to_compute(length: int, hit: int) -> None:
    prompt = list(range(50, 50 + length))
    trace = run(
        create_engine(), create_request("cold", prompt, 1), create_request("warm", prompt, max_tokens=1, arrival=20)
    )
    assert [e.hit_tokens for e in events(trace, PrefixCacheQueried)] == [0, hit]
    assert outputs(trace)["warm"] == outputs(trace)["cold"]


def test_a_twin_in_the_same_tick_does_not_hit_what_is_being_computed() -> None:
    prompt = list(range(50, 59))
    trace = run(create_engine(), create_request("x", prompt), create_request("y", prompt))
    assert admission_ticks(trace) == [(0, "x"), (0, "y")]
    assert [e.hit_tokens for e in events(trace, PrefixCacheQueried)] == [0, 0]
    assert outputs(trace)["x"] == outputs(trace)["y"]


def test_a_salt_keeps_tenants_apart() -> None:
    prompt = list(range(50, 66))
    specs = [
        create_request(name, prompt, 1, arrival=10 * i, salt=salt)
        for i, (name, salt) in enumerate([("a1", "a"), ("b", "b"), ("a2", "a"), ("none", "")])
    ]
    trace = run(create_engine(), *specs)
    assert [e.hit_tokens for e in events(trace, PrefixCacheQueried)] == [0, 0, 12, 0]


def test_the_least_recently_used_block_is_evicted_first() -> None:
    names = ["a", "b", "c", "a2", "d", "e", "f"]
    prompts = {n: [100 * (1 + "abcdef".index(n[0])) + i for i in range(5)] for n in names}
    specs = [create_request(n, prompts[n], 1, arrival=10 * i) for i, n in enumerate(names)]
    trace = run(create_engine(num_blocks=4), *specs)
    keys = {e.request_id: e.key for e in events(trace, BlockPublished)}
    assert [e.hit_tokens for e in events(trace, PrefixCacheQueried)] == [0, 0, 0, 4, 0, 0, 0]
    assert [(e.for_request, e.key) for e in events(trace, BlockEvicted)] == [
        ("d", keys["b"]),
        ("e", keys["c"]),
        ("f", keys["a"]),
    ]


# Admission


def test_admission_counts_the_blocks_promised_to_part_read_prompts() -> None:
    specs = [create_request("x", 20, max_tokens=4), create_request("y", 20, max_tokens=4)]
    knobs = {"num_blocks": 8, "chunk_size": 4, "enable_prefix_caching": False}
    counts = {}
    for rule in ("first_chunk", "whole_prompt", "whole_minus_promised"):
        trace = run(create_engine(admission=rule, **knobs), *specs)
        counts[rule] = len(preemptions(trace))
        assert set(finish_reasons(trace).values()) == {FinishReason.LENGTH}
    assert counts["first_chunk"] > 0
    assert counts["whole_prompt"] > 0
    assert counts["whole_minus_promised"] == 0


def test_a_refused_admission_names_what_is_lacking_and_changes_nothing() -> None:
    holder = create_request("x", 8, max_tokens=8)
    waiter = create_request("y", 8, max_tokens=1, arrival=1)
    trace = run(create_engine(num_blocks=4, enable_prefix_caching=False), holder, waiter)
    skip = events(trace, RequestSkipped, "y")[0]
    assert skip.reason is SkipReason.MEMORY
    assert dict(skip.numbers) == {"blocks_needed": 2, "blocks_free": 1, "blocks_promised": 0, "watermark": 0}
    assert [r.id for r in trace.records[1].snapshot.requests if r.block_ids] == ["x"]


def test_a_hit_block_cannot_be_taken_for_the_very_request_that_hit_it() -> None:
    prefix = list(range(50, 58))
    specs = [
        create_request("warm", [*prefix, 1], 1),
        create_request("holder", 8, max_tokens=9, arrival=5),
        create_request("next", [*prefix, *range(70, 75)], max_tokens=1, arrival=6),
    ]
    knobs = {"max_num_seqs": 2, "admission": "whole_prompt"}
    tight = run(create_engine(num_blocks=4, **knobs), *specs)
    skip = events(tight, RequestSkipped, "next")[0]
    assert dict(skip.numbers)["blocks_free"] == 0, "2 are free, and both are the hits"
    roomy = run(create_engine(num_blocks=7, **knobs), *specs)
    assert events(roomy, PrefixCacheQueried, "next")[0].hit_tokens == 8
    assert outputs(tight)["next"] == outputs(roomy)["next"]


def test_static_batching_admits_only_when_the_batch_is_empty() -> None:
    specs = [create_request(f"r{i}", 4, max_tokens=2 + i) for i in range(4)]
    trace = run(create_engine(admission="when_empty", max_num_seqs=2), *specs)
    assert admission_ticks(trace) == [(0, "r0"), (0, "r1"), (3, "r2"), (3, "r3")]
    assert events(trace, RequestSkipped, "r2")[-1].reason is SkipReason.BATCH_CLOSED


def test_the_watermark_is_ignored_while_nothing_runs() -> None:
    trace = run(create_engine(num_blocks=8, watermark=6), create_request("a", 16, 1), create_request("b", 16, 1))
    assert admission_ticks(trace) == [(0, "a"), (1, "b")]


# Slices


def test_a_slice_ends_only_when_somebody_waits() -> None:
    alone = run(create_engine(quantum=2, max_num_seqs=1), create_request("a", 4, max_tokens=8))
    assert len(events(alone, SliceExpired)) == 1
    assert preemptions(alone) == []


def test_the_request_whose_slice_ended_leaves_for_the_one_that_waits() -> None:
    specs = [create_request("a", 4, max_tokens=8), create_request("b", 4, max_tokens=2, arrival=1)]
    trace = run(create_engine(quantum=3, max_num_seqs=1), *specs)
    assert preemptions(trace) == [(3, "a", PreemptReason.SLICE, "b")]
    assert [e.slice_used for e in events(trace, RequestPreempted)] == [3]


def test_a_request_about_to_finish_is_spared() -> None:
    specs = [create_request("a", 4, max_tokens=4), create_request("b", 4, max_tokens=2, arrival=1)]
    trace = run(create_engine(quantum=3, max_num_seqs=1), *specs)
    assert preemptions(trace) == []


def test_nobody_leaves_if_the_waiting_request_would_still_not_fit() -> None:
    long_a, long_b = create_request("a", 8, max_tokens=12), create_request("b", 8, max_tokens=12)
    big = create_request("big", 20, max_tokens=4, arrival=1)
    trace = run(
        create_engine(quantum=2, max_num_seqs=3, num_blocks=10, enable_prefix_caching=False), long_a, long_b, big
    )
    first_leaver = preemptions(trace)[0]
    skips = [e for r in trace.records[: first_leaver[0]] for e in r.events if isinstance(e, RequestSkipped)]
    assert {e.reason for e in skips} == {SkipReason.MEMORY}
    left = [p for p in preemptions(trace) if p[0] == first_leaver[0]]
    assert len(left) == 1, "one of the two makes enough room"


def test_recomputed_tokens_do_not_count_as_progress_of_a_slice() -> None:
    specs = [create_request("a", 16, max_tokens=6), create_request("b", 16, max_tokens=6)]
    knobs = {"max_num_seqs": 1, "chunk_size": 4, "preemption_mode": "recompute", "enable_prefix_caching": False}
    trace = run(create_engine(quantum=1, **knobs), *specs)
    assert set(finish_reasons(trace).values()) == {FinishReason.LENGTH}
    for tick in trace.records:
        for item in tick.output.scheduled:
            if item.recomputed_tokens == item.num_tokens:
                state = next(r for r in tick.snapshot.requests if r.id == item.request_id)
                assert state.slice_used == 0


def test_mlfq_falls_one_level_at_each_slice_that_preempts() -> None:
    specs = [create_request("a", 4, max_tokens=12), create_request("b", 4, max_tokens=12)]
    trace = run(create_engine(policy="mlfq", quantum=2, max_num_seqs=1, mlfq_levels=3), *specs)
    levels = [s.key_class for r in trace.records for s in r.snapshot.requests if s.id == "a"]
    assert sorted(set(levels)) == [0, 1, 2]
    assert levels[0] == 0


# Memory


def test_the_worst_running_request_gives_way_when_memory_runs_out() -> None:
    specs = [create_request(n, 7, max_tokens=8) for n in ("a", "b", "c")]
    trace = run(create_engine(num_blocks=7, max_num_seqs=3, enable_prefix_caching=False), *specs)
    assert preemptions(trace)[0][1:] == ("c", PreemptReason.MEMORY, "b")
    assert not any(admitted[0] == preemptions(trace)[0][0] for admitted in admission_ticks(trace))


def test_a_request_that_is_its_own_victim_does_not_end_the_walk() -> None:
    specs = [
        create_request("x", 3, max_tokens=6, priority=5),
        create_request("y", 2, max_tokens=3, priority=1, arrival=1),
    ]
    knobs = {"policy": "priority", "batch_order": "running_order", "enable_prefix_caching": False}
    trace = run(create_engine(num_blocks=2, **knobs), *specs)
    assert preemptions(trace) == [(2, "x", PreemptReason.MEMORY, "x")]
    assert tokens_per_tick(trace)[2] == {"y": 1}


def test_a_victim_that_was_scheduled_already_is_taken_out_of_the_batch() -> None:
    specs = [
        create_request("low", 4, max_tokens=16, priority=9),
        create_request("high", 7, max_tokens=16, priority=1),
    ]
    knobs = {"policy": "priority", "batch_order": "running_order", "enable_prefix_caching": False}
    trace = run(create_engine(num_blocks=6, **knobs), *specs)
    tick, victim, _, for_request = preemptions(trace)[0]
    assert (victim, for_request) == ("low", "high")
    assert tokens_per_tick(trace)[tick] == {"high": 1}


# Push-out


def test_a_better_class_pushes_out_a_worse_one_at_once() -> None:
    specs = [create_request("slow", 4, max_tokens=12, priority=3), create_request("urgent", 4, arrival=3)]
    trace = run(create_engine(policy="priority", max_num_seqs=1), *specs)
    assert preemptions(trace) == [(3, "slow", PreemptReason.PUSH_OUT, "urgent")]
    waits = run(create_engine(policy="priority", max_num_seqs=1, priority_push_out=False), *specs)
    assert preemptions(waits) == []


def test_push_out_waits_for_a_request_that_finishes_in_this_very_tick() -> None:
    specs = [
        create_request("a", 4, max_tokens=12, priority=5),
        create_request("b", 4, max_tokens=12, priority=5),
        create_request("c", 4, max_tokens=4, priority=9),
        create_request("urgent", 4, max_tokens=1, arrival=3, priority=1),
    ]
    trace = run(create_engine(policy="priority", max_num_seqs=3), *specs)
    assert preemptions(trace) == []
    assert events(trace, RequestSkipped, "urgent")[0].reason is SkipReason.FINISHING
    assert (4, "urgent") in admission_ticks(trace)


@pytest.mark.parametrize(("prompt", "leavers"), [(8, ["low3"]), (12, ["low3", "low2"])])
def test_push_out_takes_as_many_as_the_memory_needs(prompt: int, leavers: list[str]) -> None:
    specs = [create_request(f"low{i}", 4, max_tokens=4, priority=9) for i in range(4)]
    urgent = create_request("urgent", prompt, max_tokens=1, arrival=1)
    knobs = {"num_blocks": 8, "max_num_seqs": 8, "policy": "priority", "enable_prefix_caching": False}
    trace = run(create_engine(**knobs), *specs, urgent)
    assert preemptions(trace) == [(1, name, PreemptReason.PUSH_OUT, "urgent") for name in leavers]
    assert (1, "urgent") in admission_ticks(trace)


# Modes


@pytest.mark.parametrize("mode", ["swap", "recompute"])
@pytest.mark.parametrize("tick", range(1, 12))
def test_a_preemption_at_any_tick_changes_no_token_and_loses_none(mode: str, tick: int) -> None:
    victim = create_request("x", 5, max_tokens=12, priority=5)
    urgent = create_request("u", 3, max_tokens=2, arrival=tick)
    solo = outputs(run(create_engine(), victim))["x"]
    knobs = {"policy": "priority", "max_num_seqs": 1, "preemption_mode": mode, "chunk_size": 3}
    trace = run(create_engine(**knobs), victim, urgent)
    assert [p[1] for p in preemptions(trace)] == ["x"]
    assert outputs(trace)["x"] == solo
    assert len(solo) == 12


def test_swap_restores_what_it_saved_and_recompute_computes_it_again() -> None:
    victim = create_request("x", 5, max_tokens=8, priority=5)
    urgent = create_request("u", 3, max_tokens=2, arrival=4)
    knobs = {"policy": "priority", "max_num_seqs": 1, "enable_prefix_caching": False}
    swapped = run(create_engine(preemption_mode="swap", **knobs), victim, urgent)
    [restored] = events(swapped, RequestRestored)
    assert (restored.tokens_copied, restored.blocks_copied, restored.hit_tokens) == (8, 2, 0)
    assert restored.bytes_copied == 2 * 4 * 46_080
    again = run(create_engine(preemption_mode="recompute", **knobs), victim, urgent)
    assert events(again, RequestRestored) == []
    assert sum(item.recomputed_tokens for r in again.records for item in r.output.scheduled) == 8


def test_a_full_host_pool_means_recomputation() -> None:
    victim = create_request("x", 5, max_tokens=8, priority=5)
    urgent = create_request("u", 3, max_tokens=2, arrival=4)
    trace = run(create_engine(policy="priority", max_num_seqs=1, num_swap_blocks=1), victim, urgent)
    assert [e.mode for e in events(trace, RequestPreempted)] == ["recompute"]


@pytest.mark.parametrize("fault", ["fail_copies", "fail_restores"])
def test_a_copy_that_fails_means_recomputation_and_leaves_nothing_behind(fault: str) -> None:
    victim = create_request("x", 5, max_tokens=8, priority=5)
    urgent = create_request("u", 3, max_tokens=2, arrival=5)
    engine = create_engine(SyntheticRunner(**{fault: True}), policy="priority", max_num_seqs=1)
    trace = run(engine, victim, urgent)
    assert outputs(trace)["x"] == outputs(run(create_engine(), victim))["x"]
    assert trace.records[-1].snapshot.host_blocks_used == 0
    assert len(events(trace, FaultInjected)) == 1


def test_hits_after_a_preemption_do_not_enter_the_hit_rate() -> None:
    victim = create_request("x", 9, max_tokens=8, priority=5)
    urgent = create_request("u", 3, max_tokens=2, arrival=4)
    trace = run(create_engine(policy="priority", max_num_seqs=1, preemption_mode="recompute"), victim, urgent)
    first, again = events(trace, PrefixCacheQueried, "x")
    assert (first.hit_tokens, first.self_hit) == (0, False)
    assert (again.hit_tokens, again.self_hit) == (12, True)

"""Known faults of other servers, kept out: priorities, starvation, and prompts that hold up everybody else."""

from __future__ import annotations

from itertools import pairwise

import pytest

from scheduler_core.events import RequestPreempted, RequestSkipped, SkipReason
from scheduler_core.request import FinishReason
from scheduler_core.trace import Trace
from tests.helpers import (
    admissions,
    create_engine,
    create_request,
    events,
    finish_reasons,
    preemptions,
    run,
    state,
    tokens_per_tick,
)


def key(trace: Trace, tick: int, request_id: str) -> tuple[int, int]:
    """The key of a request as of the end of a tick; smaller goes first."""
    found = state(trace, tick, request_id)
    return found.key_class, found.queue_number


# Case 56 is test_scheduler.py: test_push_out_waits_for_a_request_that_finishes_in_this_very_tick.


def test_only_those_who_reach_their_end_in_this_tick_are_counted_on() -> None:
    """Case 56: d has one token to go as well, but is skipped in that tick, as p takes the whole budget."""
    engine = create_engine(
        policy="priority", batch_order="running_order", max_num_seqs=3, max_num_batched_tokens=5, chunk_size=3
    )
    engine.add_request(create_request("e", 1, max_tokens=6, priority=5))
    engine.add_request(create_request("p", 60, max_tokens=1, priority=5))
    engine.add_request(create_request("d", 1, max_tokens=6, priority=5))
    engine.add_request(create_request("urgent", 1, max_tokens=1, priority=1, arrival=5))
    for _ in range(5):
        engine.step()
    engine.reconfigure(engine.config.replace(chunk_size=5))
    record = engine.step()
    assert {item.request_id for item in record.output.scheduled} == {"e", "p"}
    skipped = {e.request_id: e for e in record.events if isinstance(e, RequestSkipped)}
    assert skipped["urgent"].reason is SkipReason.FINISHING
    assert dict(skipped["urgent"].numbers) == {"finishing": 1}
    assert (6, "urgent") in admissions(engine.run())


@pytest.mark.parametrize("push_out", [True, False])
def test_an_urgent_request_without_memory_pushes_out_or_waits_for_memory(push_out: bool) -> None:
    """Case 57: lanes are free, all four blocks are taken by requests of priority 9."""
    low = [create_request(f"low{i}", 2, max_tokens=3, priority=9) for i in range(4)]
    urgent = create_request("urgent", 8, max_tokens=1, arrival=1)
    knobs = {"num_blocks": 4, "max_num_seqs": 8, "policy": "priority", "priority_push_out": push_out}
    trace = run(create_engine(**knobs), *low, urgent)
    if push_out:
        assert preemptions(trace) == [(1, "low3"), (1, "low2")]
        assert (1, "urgent") in admissions(trace)
    else:
        assert preemptions(trace) == []
        assert {e.reason for e in events(trace, RequestSkipped, "urgent")} == {SkipReason.MEMORY}
    assert set(finish_reasons(trace).values()) == {FinishReason.LENGTH}


@pytest.mark.parametrize("mode", ["swap", "recompute"])
def test_a_victim_keeps_its_place_so_that_nobody_is_preempted_again_and_again(mode: str) -> None:
    """Case 59: equal priorities, ageing, and new requests in every tick.

    A memory victim is the one with the worst key, and admission takes the best: only older requests can make one
    leave, each at most once for every block that its answer needs.
    """
    specs = [create_request(f"r{i}", 6, max_tokens=10, priority=2, arrival=i) for i in range(30)]
    knobs = {"policy": "priority", "aging": 5, "num_blocks": 10, "preemption_mode": mode, "max_num_seqs": 4}
    trace = run(create_engine(admission="first_chunk", chunk_size=3, enable_prefix_caching=False, **knobs), *specs)
    assert set(finish_reasons(trace).values()) == {FinishReason.LENGTH}
    victims = [name for _, name in preemptions(trace)]
    assert len(victims) > 10
    assert max(victims.count(name) for name in victims) <= (4 - 1) * 4
    for tick, victim in preemptions(trace):
        before = trace.records[tick - 1].snapshot.running
        stayed = [key(trace, tick - 1, name) for name in before if (tick, name) not in preemptions(trace)]
        assert all(key(trace, tick - 1, victim) > other for other in stayed), "the worst leaves"
    for tick, name in admissions(trace):
        waiting = trace.records[tick].snapshot.waiting
        assert all(key(trace, tick, other) > key(trace, tick, name) for other in waiting), "the best enters"


@pytest.mark.parametrize("priority", [5, 50, 500])
def test_requests_that_age_do_not_take_the_lane_from_each_other_before_they_get_ahead(priority: int) -> None:
    """Case 59: what was lost is computed again before anything new, and that time ages a request as waiting does."""
    specs = [create_request(name, 20, max_tokens=2, priority=priority) for name in "ab"]
    knobs = {"policy": "priority", "aging": 1, "preemption_mode": "recompute", "max_num_seqs": 1, "chunk_size": 3}
    trace = run(create_engine(enable_prefix_caching=False, **knobs), *specs)
    ahead = dict.fromkeys("ab", 0)
    for record in trace.records:
        for event in record.events:
            if isinstance(event, RequestPreempted):
                assert ahead[event.request_id] > 0
                ahead[event.request_id] = 0
        for item in record.output.scheduled:
            ahead[item.request_id] += item.num_tokens - item.recomputed_tokens
    assert len(trace.records) <= 3 * (2 * 8), "alone each takes eight ticks"


@pytest.mark.parametrize("aging", [1, 2])
@pytest.mark.parametrize("priority", [5, 50, 500])
def test_victims_of_memory_that_age_do_not_go_round_in_circles(priority: int, aging: int) -> None:
    """Case 59: three prompts of seven blocks in a memory of eight, let in by their first chunk."""
    specs = [create_request(name, 14, max_tokens=3, priority=priority) for name in "abc"]
    knobs = {"policy": "priority", "admission": "first_chunk", "chunk_size": 1, "block_size": 2, "num_blocks": 8}
    engine = create_engine(aging=aging, preemption_mode="recompute", enable_prefix_caching=False, **knobs)
    trace = run(engine, *specs)
    new = [r.tick for r in trace.records if any(i.recomputed_tokens < i.num_tokens for i in r.output.scheduled)]
    longest = max(after - before for before, after in pairwise(new))
    assert longest <= 3 * 16, "each is set back once by each other, and computes its 16 tokens again"
    assert set(finish_reasons(trace).values()) == {FinishReason.LENGTH}


@pytest.mark.parametrize(("aging", "bound"), [(0, None), (5, 11), (3, 7)])
def test_longest_prefix_first_starves_the_cold_and_ageing_bounds_its_wait(aging: int, bound: int | None) -> None:
    """Case 61: one lane; a request with a hit of two blocks comes in every tick up to tick 39."""
    prefix = [*range(50, 58)]
    engine = create_engine(policy="longest_prefix", max_num_seqs=1, aging=aging)
    run(engine, create_request("warm", [*prefix, 1], 1))
    start = engine.tick
    engine.add_request(create_request("cold", 9, 1, arrival=start))
    for i in range(40):
        engine.add_request(create_request(f"hit{i}", [*prefix, 100 + i], 1, arrival=start + i))
    trace = engine.run()
    [waited] = [tick - start for tick, name in admissions(trace) if name == "cold"]
    assert waited == 40 if bound is None else waited <= bound
    assert [tick for tick, name in admissions(trace) if name == "hit0"] == [start]


def test_a_chunk_below_the_budget_lets_a_short_prompt_in_beside_a_long_one() -> None:
    """Case 62."""
    specs = [create_request("x", 160, max_tokens=1), create_request("y", 4, max_tokens=1, arrival=1)]
    first_token, prefill_ticks = {}, {}
    for chunk in (16, 8):
        engine = create_engine(max_num_batched_tokens=16, chunk_size=chunk, num_blocks=64, max_model_len=256)
        ticks = tokens_per_tick(run(engine, *specs))
        first_token[chunk] = next(i for i, tick in enumerate(ticks) if "y" in tick)
        prefill_ticks[chunk] = sum("x" in tick for tick in ticks)
    assert first_token == {16: 10, 8: 1}
    assert prefill_ticks == {16: 10, 8: 20}


def test_chunks_keep_answers_going_and_a_whole_prompt_stalls_them() -> None:
    """Case 63: three answers, and a prompt of 64 tokens at tick 3."""
    chats = [create_request(f"c{i}", 4, max_tokens=20) for i in range(3)]
    long = create_request("long", 64, max_tokens=1, arrival=3)
    knobs = {"num_blocks": 64, "max_model_len": 256}
    chunked = tokens_per_tick(run(create_engine(max_num_batched_tokens=16, chunk_size=13, **knobs), *chats, long))
    whole = tokens_per_tick(
        run(create_engine(max_num_batched_tokens=16, enable_chunked_prefill=False, **knobs), *chats, long)
    )
    for tick in chunked[1:20]:
        assert {name: tick[name] for name in ("c0", "c1", "c2")} == {"c0": 1, "c1": 1, "c2": 1}
    assert max(sum(tick.values()) for tick in chunked) == 16
    assert [tick["long"] for tick in chunked if "long" in tick] == [13, 13, 13, 13, 12]
    assert max(sum(tick.values()) for tick in whole) == 67

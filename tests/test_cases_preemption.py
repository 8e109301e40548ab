"""Known faults of other servers, kept out: what a preemption loses, repeats, skips or leaves behind."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler_core.backends.synthetic import SyntheticRunner
from scheduler_core.events import (
    BlocksAllocated,
    BlocksFreed,
    RequestPreempted,
    RequestRestored,
    RequestScheduled,
    RequestSkipped,
    TokenSampled,
)
from scheduler_core.request import FinishReason
from tests.helpers import (
    admissions,
    create_engine,
    create_request,
    events,
    finish_reasons,
    hit_tokens,
    is_idle_and_sound,
    outputs,
    preemptions,
    run,
    state,
    tokens_per_tick,
)

URGENT: dict[str, Any] = {"policy": "priority", "max_num_seqs": 1}

# Case 51 is test_scheduler.py: test_a_request_that_is_its_own_victim_does_not_end_the_walk.


@pytest.mark.parametrize("caching", [True, False])
def test_what_was_generated_is_computed_again_with_the_prompt(caching: bool) -> None:
    """Case 45: preempted with 4 output tokens, of which the last has no KV yet."""
    x, urgent = create_request("x", 5, max_tokens=12, priority=5), create_request("u", 3, max_tokens=2, arrival=5)
    trace = run(
        create_engine(preemption_mode="recompute", chunk_size=3, enable_prefix_caching=caching, **URGENT), x, urgent
    )
    [(left, _)] = preemptions(trace)
    assert state(trace, left, "x").num_tokens == 9
    back = next(tick for tick, name in admissions(trace) if name == "x" and tick > left)
    hit = hit_tokens(trace)["x"][-1] if caching else 0
    assert hit == (8 if caching else 0)
    ticks = [record.output.scheduled for record in trace.records[back:]]
    items = [item for tick in ticks for item in tick if item.request_id == "x"]
    until_drawn = items[: 1 + next(i for i, item in enumerate(items) if item.samples)]
    assert sum(item.num_tokens for item in until_drawn) == 9 - hit
    assert sum(item.recomputed_tokens for item in items) == 8 - hit
    assert until_drawn[-1].output_index == 4
    assert outputs(trace)["x"] == outputs(run(create_engine(), x))["x"]


@pytest.mark.parametrize("mode", ["swap", "recompute"])
@pytest.mark.parametrize("tick", range(1, 14))
def test_each_token_is_told_once_whenever_the_preemption_comes(mode: str, tick: int) -> None:
    """Case 46; the texts are compared in test_scheduler.py: test_a_preemption_at_any_tick_changes_no_token..."""
    x = create_request("x", 5, max_tokens=12, priority=5)
    urgent = create_request("u", 3, max_tokens=2, arrival=tick)
    trace = run(create_engine(preemption_mode=mode, chunk_size=3, **URGENT), x, urgent)
    assert [e.index for e in events(trace, TokenSampled, "x")] == [*range(12)]
    assert outputs(trace)["x"] == outputs(run(create_engine(), x))["x"]
    assert bool(preemptions(trace)) == (tick < 12), "in tick 12 it is about to finish, and is spared"


def test_drawn_tokens_do_not_depend_on_chunks_preemptions_or_company() -> None:
    """Case 47: one draw for each kept token, keyed by the request's seed and the position."""
    x = create_request("x", 7, max_tokens=10, priority=5, temperature=1.0, seed=5)
    urgent = create_request("u", 3, max_tokens=2, arrival=4, temperature=1.0)
    others = [create_request(f"o{i}", 6, max_tokens=8, temperature=1.0, arrival=i) for i in range(3)]
    alone = outputs(run(create_engine(), x))["x"]
    for mode in ("swap", "recompute"):
        trace = run(create_engine(preemption_mode=mode, **URGENT), x, urgent)
        assert preemptions(trace) == [(4, "x")]
        assert outputs(trace)["x"] == alone
    assert outputs(run(create_engine(chunk_size=2), x))["x"] == alone
    assert outputs(run(create_engine(), *others, x))["x"] == alone
    assert outputs(run(create_engine(), create_request("x", 7, max_tokens=10, temperature=1.0, seed=6)))["x"] != alone
    assert outputs(run(create_engine(), create_request("x", 7, max_tokens=10)))["x"] != alone


def test_a_victim_scheduled_before_leaves_no_trace_in_the_batch_budget_or_memory() -> None:
    """Case 49: low takes the last block, then high needs one in the same tick."""
    specs = [
        create_request("low", 8, max_tokens=12, priority=9),
        create_request("high", 5, max_tokens=12, priority=1, arrival=1),
    ]
    knobs = {"policy": "priority", "batch_order": "running_order", "enable_prefix_caching": False}
    trace = run(create_engine(num_blocks=6, **knobs), *specs)
    tick, victim = preemptions(trace)[0]
    record = trace.records[tick]
    assert (victim, trace.records[tick - 1].snapshot.running) == ("low", ("low", "high"))
    taken, freed = (
        next(e for e in record.events if isinstance(e, BlocksAllocated)),
        events(trace, BlocksFreed, "low")[0],
    )
    assert {taken, freed} <= set(record.events)
    assert set(taken.block_ids) <= set(freed.block_ids)
    assert state(trace, tick, "low").block_ids == ()
    assert [e.request_id for e in record.events if isinstance(e, RequestScheduled)] == ["high"]
    assert record.counts.scheduled_tokens == 1
    assert len(record.snapshot.free_blocks) == 6 - len(state(trace, tick, "high").block_ids)


def test_a_victim_ahead_in_the_walk_makes_nobody_be_skipped_or_seen_twice() -> None:
    """Case 50: running are l, m and h; h needs a block, and l leaves."""
    specs = [
        create_request(name, 7, max_tokens=12, priority=priority, arrival=arrival)
        for arrival, (name, priority) in enumerate([("l", 9), ("m", 5), ("h", 1)])
    ]
    knobs = {"policy": "priority", "batch_order": "running_order", "enable_prefix_caching": False}
    trace = run(create_engine(num_blocks=8, **knobs), *specs)
    tick = next(
        r.tick
        for r in trace.records
        for e in r.events
        if isinstance(e, RequestPreempted) and (e.request_id, e.for_request) == ("l", "h")
    )
    assert trace.records[tick - 1].snapshot.running == ("l", "m", "h")
    seen = [e.request_id for e in trace.records[tick].events if isinstance(e, RequestScheduled | RequestSkipped)]
    assert sorted(seen) == ["h", "m"]
    assert set(tokens_per_tick(trace)[tick]) == {"m", "h"}


class Watched(SyntheticRunner):
    """Keeps what was saved and what stood in the blocks after the restore."""

    def __init__(self) -> None:
        super().__init__()
        self.saved: list[Any] = []
        self.restored: list[Any] = []

    def copy_out(self, block_ids: tuple[int, ...]) -> Any:
        self.saved.append(super().copy_out(block_ids))
        return self.saved[-1]

    def copy_in(self, saved: Any, first_block: int, block_ids: tuple[int, ...]) -> None:
        super().copy_in(saved, first_block, block_ids)
        self.restored.append(super().copy_out(block_ids))


def test_restored_kv_equals_what_was_saved_after_others_wrote_to_the_blocks() -> None:
    """Case 53a; with tensors in backends/test_cases_model.py."""
    runner = Watched()
    x, y = create_request("x", 6, max_tokens=8, priority=5), create_request("y", 12, max_tokens=5, arrival=4)
    trace = run(create_engine(runner, num_blocks=4, enable_prefix_caching=False, **URGENT), x, y)
    assert set(state(trace, 3, "x").block_ids) & set(state(trace, 5, "y").block_ids), "y overwrote them"
    assert runner.restored == runner.saved
    assert outputs(trace)["x"] == outputs(run(create_engine(), x))["x"]


@pytest.mark.parametrize("others", [0, 1])
def test_a_saved_request_that_is_cancelled_leaves_no_copy_on_the_host(others: int) -> None:
    """Case 53b: also where nothing is left to compute in that tick."""
    engine = create_engine(**URGENT)
    engine.add_request(create_request("x", 6, max_tokens=8, priority=5))
    engine.add_request(create_request("u", 3, max_tokens=3, arrival=3))
    for _ in range(4):
        engine.step()
    assert engine.copies.saved.keys() == {"x"}
    engine.abort("x")
    if not others:
        engine.abort("u")
    engine.step()
    assert engine.copies.saved == {}
    assert engine.trace().records[-1].snapshot.host_blocks_used == 0
    engine.run()
    assert is_idle_and_sound(engine)


@pytest.mark.parametrize("fault", ["fail_copies", "fail_restores"])
def test_a_copy_that_raises_falls_back_to_computing_and_loses_no_block_or_buffer(fault: str) -> None:
    """Case 53c."""
    engine = create_engine(SyntheticRunner(**{fault: True}), enable_prefix_caching=False, **URGENT)
    x = create_request("x", 6, max_tokens=8, priority=5)
    trace = run(engine, x, create_request("u", 3, max_tokens=3, arrival=3))
    assert sum(item.recomputed_tokens for r in trace.records for item in r.output.scheduled) > 0
    assert outputs(trace)["x"] == outputs(run(create_engine(), x))["x"]
    assert is_idle_and_sound(engine)


def test_a_saved_request_is_back_within_a_bound_while_new_ones_keep_arriving() -> None:
    """Case 54: behind those that waited when it left, and before all who came later."""
    x = create_request("x", 3, max_tokens=24)
    short = [create_request(f"s{i}", 3, max_tokens=1, arrival=i) for i in range(1, 51)]
    trace = run(create_engine(quantum=3, max_num_seqs=1, num_swap_blocks=4), x, *short)
    left = [tick for tick, name in preemptions(trace) if name == "x"]
    back = [tick for tick, name in admissions(trace) if name == "x"][1:]
    assert left[0] == 3
    assert len(left) > 3
    assert {e.mode for e in events(trace, RequestPreempted)} >= {"swap"}
    for away, again in zip(left, back, strict=True):
        ahead = trace.records[away].snapshot.waiting.index("x") + 1  # and the one that it left for
        assert again - away <= ahead
    assert set(finish_reasons(trace).values()) == {FinishReason.LENGTH}


def test_a_victim_that_the_host_cannot_hold_is_computed_again_and_nobody_is_stuck() -> None:
    """Case 54: the host has room for four blocks."""
    specs = [create_request(name, 10, max_tokens=12) for name in "abc"]
    engine = create_engine(quantum=3, max_num_seqs=1, num_swap_blocks=4, enable_prefix_caching=False)
    trace = run(engine, *specs)
    assert {e.mode for e in events(trace, RequestPreempted)} == {"swap", "recompute"}
    assert max(record.snapshot.host_blocks_used for record in trace.records) <= 4
    assert events(trace, RequestRestored)
    assert outputs(trace) == outputs(run(create_engine(), *specs))
    assert is_idle_and_sound(engine)


class Unready(SyntheticRunner):
    """Its first copy to the host fails, the next ones do not."""

    copies = 0

    def copy_out(self, block_ids: tuple[int, ...]) -> Any:
        self.copies += 1
        self._fail_copies = self.copies == 1
        return super().copy_out(block_ids)


def test_a_copy_that_failed_once_does_not_spoil_the_next() -> None:
    """Case 53c, the second time round."""
    specs = [create_request(name, 6, max_tokens=9) for name in "ab"]
    engine = create_engine(Unready(), quantum=2, max_num_seqs=1)
    trace = run(engine, *specs)
    assert len(events(trace, RequestRestored)) > 2
    assert outputs(trace) == outputs(run(create_engine(), *specs))
    assert is_idle_and_sound(engine)

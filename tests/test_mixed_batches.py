"""Without mixed batches a tick is for prompts or for answers, in turn; nothing else of a run's laws changes."""

from __future__ import annotations

import dataclasses

import pytest

from scheduler_core.backends.synthetic import SyntheticRunner
from scheduler_core.engine import replay_to
from scheduler_core.events import RequestAdmitted, RequestScheduled, RequestSkipped, SkipReason
from scheduler_core.explain import explain
from scheduler_core.trace import Trace
from tests.helpers import create_engine, create_request, events, outputs, random_workload, run, tokens_per_tick
from tests.test_laws import check_laws

KNOBS = {"max_num_batched_tokens": 8, "chunk_size": 8, "mixed_batches": False, "quantum": None, "num_blocks": 64}


def two_kinds() -> Trace:
    """A chat that answers while a long prompt comes in."""
    return run(
        create_engine(**KNOBS),
        create_request("chat", 2, max_tokens=12),
        create_request("long", 24, max_tokens=4, arrival=2),
    )


def test_prompts_and_decodes_take_ticks_in_turn():
    assert tokens_per_tick(two_kinds())[:8] == [
        {"chat": 2},
        {"chat": 1},
        {"long": 8},
        {"chat": 1},
        {"long": 8},
        {"chat": 1},
        {"long": 8},
        {"chat": 1, "long": 1},
    ]


def test_a_tick_without_prompts_to_read_is_for_answers():
    alone = run(create_engine(**KNOBS), create_request("chat", 2, max_tokens=5))
    assert tokens_per_tick(alone) == [{"chat": 2}, *[{"chat": 1}] * 4]


def test_who_is_left_out_is_told_whose_turn_it_is():
    trace = two_kinds()
    assert {e.reason for e in events(trace, RequestSkipped)} == {SkipReason.TURN}
    chat, long = explain(trace, 2, "chat"), explain(trace, 3, "long")
    assert "this tick is for prompts" in chat.checks[-1].text
    assert "this tick is for answers" in long.checks[-1].text
    assert chat.remedy == "It could run in this tick if batches were mixed."


def test_a_waiting_prompt_is_told_too():
    trace = run(
        create_engine(**KNOBS | {"max_num_seqs": 1}),
        create_request("first", 2, max_tokens=6),
        create_request("second", 4, max_tokens=1),
    )
    assert events(trace, RequestSkipped, "second")[0].reason is SkipReason.LANES
    assert events(trace, RequestSkipped, "second")[1].reason is SkipReason.TURN


@pytest.mark.parametrize("seed", range(150))
def test_the_laws_hold_and_no_tick_has_both_kinds(seed: int):
    workload = random_workload(seed)
    config = dataclasses.replace(workload.config, mixed_batches=False)
    apart = dataclasses.replace(workload, config=config)
    trace = apart.run()
    if not workload.fail_copies:
        check_laws(apart, trace)
    for record in trace.records:
        let_in = {e.request_id for e in record.events if isinstance(e, RequestAdmitted)}
        # Who comes back after a preemption comes in with the prompts, whatever is left to compute.
        kinds = {e.is_decode and e.request_id not in let_in for e in record.events if isinstance(e, RequestScheduled)}
        assert len(kinds) <= 1, f"tick {record.tick}"
        for request in record.snapshot.requests:  # type: ignore[union-attr]
            explain(trace, record.tick, request.id)


def test_texts_are_those_of_mixed_batches():
    mixed = run(
        create_engine(**KNOBS | {"mixed_batches": True}),
        create_request("chat", 2, max_tokens=12),
        create_request("long", 24, max_tokens=4, arrival=2),
    )
    assert outputs(mixed) == outputs(two_kinds())


@pytest.mark.parametrize("tick", [1, 2, 3, 4])
def test_a_run_that_is_taken_up_again_goes_on_in_the_same_turn(tick: int):
    trace = two_kinds()
    engine = replay_to(trace, tick, SyntheticRunner())
    assert tokens_per_tick(engine.run()) == tokens_per_tick(trace)

"""Known faults of other servers, kept out: what is let in, what is refused, and what happens when memory is gone."""

from __future__ import annotations

import dataclasses

import pytest

from scheduler_core.backends.synthetic import SyntheticRunner
from scheduler_core.config import ADMISSION_RULES
from scheduler_core.errors import RequestError
from scheduler_core.events import RequestAdmitted, RequestFinished, RequestRefused, RequestSkipped
from scheduler_core.explain import explain
from scheduler_core.metrics import waiting_by_cause
from scheduler_core.output import SchedulerOutput
from scheduler_core.request import FinishReason, RequestSpec
from scheduler_core.workload import Draft
from tests.helpers import (
    admissions,
    create_engine,
    create_request,
    events,
    finish_reasons,
    is_idle_and_sound,
    outputs,
    preemptions,
    run,
    tokens_per_tick,
)

# Case 33 is test_scheduler.py: test_a_request_that_could_never_fit_is_refused_with_both_numbers_and_disturbs_nobody.
# Case 34 is test_scheduler.py: test_a_prompt_has_to_leave_room_for_one_token.
# Case 42 is test_scheduler.py: test_decodes_go_first_and_a_prompt_gets_what_is_left.
# Case 43 is test_cases_eviction.py: test_a_request_that_does_not_fit_holds_nothing_while_it_waits.
# Case 44 is test_scheduler.py: test_admission_counts_the_blocks_promised_to_part_read_prompts.


def test_an_empty_prompt_is_refused_when_sent_and_disturbs_nobody() -> None:
    """Case 37: no tokens, and no words, are refused alike."""
    y = create_request("y", 5, max_tokens=6)
    engine = create_engine()
    engine.add_request(y)
    engine.step()
    with pytest.raises(RequestError, match="'x' has an empty prompt"):
        engine.add_request(RequestSpec("x", ()))
    with pytest.raises(RequestError, match="'x' has an empty prompt"):
        engine.add_request(Draft("x", " \n ").spec(SyntheticRunner()))
    trace = engine.run()
    assert [spec.id for spec in trace.requests] == ["y"]
    assert outputs(trace) == outputs(run(create_engine(), y))


@pytest.mark.parametrize("ended", ["while it waits", "while it lives", "after its end", "with its abort"])
def test_an_id_stands_for_one_request_in_a_run(ended: str) -> None:
    """Case 39: a run is recorded by ids, so a second request of one name is refused, also when the first has ended."""
    engine = create_engine()
    engine.add_request(create_request("a", 9, max_tokens=5, arrival=0 if ended != "while it waits" else 5))
    engine.step()
    if ended == "after its end":
        engine.run()
    if ended == "with its abort":
        engine.abort("a")
    with pytest.raises(RequestError, match="'a' already; give the new one another id"):
        engine.add_request(create_request("a", 3))
    again = create_request("b", 9, max_tokens=5)
    engine.add_request(again)
    trace = engine.run()
    assert outputs(trace)["b"] == outputs(run(create_engine(), again))["b"], "nothing of the first is left in it"
    assert len(events(trace, RequestFinished)) == 2


def test_a_request_that_could_outgrow_the_memory_is_refused_and_the_next_one_runs() -> None:
    """Case 41, on arrival."""
    engine = create_engine(num_blocks=2)
    trace = run(engine, create_request("x", 6, max_tokens=10), create_request("y", 6, max_tokens=3, arrival=1))
    assert finish_reasons(trace) == {"x": FinishReason.REJECTED, "y": FinishReason.LENGTH}
    assert is_idle_and_sound(engine)


def test_a_request_whose_memory_is_taken_away_ends_with_its_tokens_kept_and_the_next_one_runs() -> None:
    """Case 41, while it runs: two of four blocks disappear, so that 8 tokens fit."""
    engine = create_engine(num_blocks=4)
    engine.add_request(create_request("x", 6, max_tokens=10))
    engine.step()
    engine._kv.tables["thief"] = engine._kv.pool.take(2)
    engine._check = False
    trace = engine.run(max_ticks=50)
    [end] = events(trace, RequestFinished)
    assert (end.reason, len(outputs(trace)["x"])) == (FinishReason.ERROR, 3)
    assert "out of KV" in end.message
    engine._kv.pool.release(engine._kv.tables.pop("thief"))
    engine._check = True
    after = create_request("y", 6, max_tokens=10)
    assert outputs(run(engine, after))["y"] == outputs(run(create_engine(), after))["y"]
    assert is_idle_and_sound(engine)


def test_a_second_tick_in_a_row_without_work_done_is_an_alarm() -> None:
    """Case 42: nobody may wait for ever for a chunk that is rounded down to nothing."""
    engine = create_engine()
    engine.add_request(create_request("x", 10))
    engine.scheduler.schedule = lambda tick: SchedulerOutput(tick)  # type: ignore[method-assign]
    engine.step()
    with pytest.raises(AssertionError, match="nothing was scheduled"):
        engine.step()


@pytest.mark.parametrize("admission", ADMISSION_RULES)
def test_what_can_never_fit_is_refused_under_every_admission_rule(admission: str) -> None:
    """Case 93: its first chunk would fit."""
    trace = run(create_engine(num_blocks=4, chunk_size=4, admission=admission), create_request("x", 20, 1))
    assert dict(events(trace, RequestRefused)[0].numbers) == {"blocks_needed": 5, "num_blocks": 4}
    assert events(trace, RequestAdmitted) == []
    largest = create_request("y", 16, 1)
    assert finish_reasons(run(create_engine(num_blocks=4, admission=admission), largest))["y"] is FinishReason.LENGTH


ANSWERS = [create_request(f"r{i}", 18, max_tokens=2, arrival=i) for i in range(4)]


def test_with_memory_for_all_a_cautious_and_an_optimistic_admission_decide_alike() -> None:
    """Case 90: four requests of five blocks each."""
    cautious, optimistic = (
        run(create_engine(num_blocks=20, chunk_size=4, admission=rule), *ANSWERS)
        for rule in ("whole_minus_promised", "first_chunk")
    )
    assert [dataclasses.replace(r, events=()) for r in cautious.records] == [
        dataclasses.replace(r, events=()) for r in optimistic.records
    ]
    assert [e for r in cautious.records for e in r.events if not isinstance(e, RequestSkipped)] == [
        e for r in optimistic.records for e in r.events if not isinstance(e, RequestSkipped)
    ]


def test_with_too_little_memory_the_optimistic_admission_preempts_and_it_is_told_who_pays() -> None:
    """Case 90: the memory holds 60 % of what all need."""
    knobs = {"num_blocks": 12, "chunk_size": 4, "enable_prefix_caching": False, "preemption_mode": "recompute"}
    cautious, optimistic = (
        run(create_engine(admission=rule, **knobs), *ANSWERS) for rule in ("whole_minus_promised", "first_chunk")
    )
    assert preemptions(cautious) == []
    victims = {name for _, name in preemptions(optimistic)}
    assert victims
    assert {w.request_id for w in waiting_by_cause(optimistic) if w.preempted_s > 0} == victims
    tick, victim = preemptions(optimistic)[0]
    told = explain(optimistic, tick, victim)
    assert told.headline == f"{victim} was preempted."
    assert any("computed again" in check.text for check in told.checks)
    work = [sum(n for t in tokens_per_tick(trace) for n in t.values()) for trace in (cautious, optimistic)]
    assert work[0] == 4 * 19 < work[1]
    assert outputs(cautious) == outputs(optimistic)
    assert [name for _, name in admissions(cautious)] == ["r0", "r1", "r2", "r3"]

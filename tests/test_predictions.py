"""Questions about a tick: what is graded right is recounted here from events and snapshots alone."""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from scheduler_core.errors import TraceError
from scheduler_core.events import RequestArrived, RequestPreempted, RequestScheduled
from scheduler_core.predictions import (
    NOBODY,
    Question,
    QuestionKind,
    grade,
    next_question,
    question,
    questions,
    right_values,
)
from scheduler_core.trace import Trace
from scheduler_core.workload import list_scenarios
from tests.helpers import create_engine, create_request, events, random_workload, run

TRACES = Path(__file__).resolve().parents[1] / "assets" / "traces"
NUMBERS = (QuestionKind.HITS, QuestionKind.CHUNK, QuestionKind.FIRST_TOKEN)
SEEDS = range(1_000, 1_200)


@cache
def asked(seed: int) -> tuple[Trace, tuple[Question, ...]]:
    trace = random_workload(seed).run()
    return trace, tuple(q for record in trace.records for q in questions(trace, record.tick))


def running_before(trace: Trace, tick: int) -> tuple[str, ...]:
    return trace.records[tick - 1].snapshot.running if tick else ()


def computed(trace: Trace, tick: int) -> dict[str, int]:
    found = [e for e in trace.records[tick].events if isinstance(e, RequestScheduled)]
    return {e.request_id: e.num_tokens for e in found}


def recount(trace: Trace, asked: Question) -> set[str]:
    """The right answers, by other ways than the module takes."""
    tick, who = asked.tick, asked.subject
    before, snapshot = running_before(trace, tick), trace.records[tick].snapshot
    match asked.kind:
        case QuestionKind.VICTIM:
            old = {r.id: r.num_preemptions for r in trace.records[tick - 1].snapshot.requests} if tick else {}
            lost = {r.id for r in snapshot.requests if r.id in before and r.num_preemptions > old[r.id]}
            return lost or {NOBODY}
        case QuestionKind.ADMITTED:
            return set(computed(trace, tick)) - set(before) or {NOBODY}
        case QuestionKind.SCHEDULED:
            return set(computed(trace, tick))
        case QuestionKind.CAUSE:
            found = [e for e in trace.records[tick].events if isinstance(e, RequestPreempted)]
            return {e.reason.value for e in found if e.request_id == who}
        case QuestionKind.HITS:
            part = next(i for i in trace.records[tick].output.scheduled if i.request_id == who)
            copied = any(copy.request_id == who for copy in trace.records[tick].output.copies_in)
            first = next((c.first_block for c in trace.records[tick].output.copies_in if c.request_id == who), 0)
            if copied:
                return {str(first * trace.config.block_size)}
            saved = {r.id: r.saved_tokens for r in trace.records[tick - 1].snapshot.requests} if tick else {}
            if saved.get(who):  # nothing had to be copied: the cache had it all
                return {str(-(-part.start // trace.config.block_size) * trace.config.block_size)}
            return {str(part.start)}
        case QuestionKind.CHUNK:
            return {str(computed(trace, tick).get(who, 0))}
        case QuestionKind.FIRST_TOKEN:
            for record in trace.records[tick:]:
                for state in record.snapshot.requests:
                    if state.id == who and state.num_output_tokens > 0:
                        return {str(record.tick)}
    raise AssertionError(f"no answer to {asked.text}")


def test_on_200_random_runs_the_graded_answer_is_the_one_recounted_from_the_run():
    kinds = Counter()
    for seed in SEEDS:
        trace, found = asked(seed)
        for number, one in enumerate(found):
            right = recount(trace, one)
            kinds[one.kind] += 1
            assert set(right_values(trace, one)) == right, (seed, one)
            assert right & {choice.value for choice in one.choices}, (seed, one)
            choice = one.choices[number % len(one.choices)]
            assert grade(trace, one, choice.value).right == (choice.value in right), (seed, one)
    assert set(kinds) == set(QuestionKind)
    assert min(kinds.values()) > 100, kinds


def test_a_grade_tells_what_was_said_what_the_run_did_and_why():
    for seed in SEEDS[:20]:
        trace, found = asked(seed)
        for one in found:
            for choice in one.choices:
                told = grade(trace, one, choice.value)
                assert told.said == choice.label
                assert told.did
                assert told.reason.endswith((".", "”."))
                assert "None" not in told.reason
                assert told.right or told.did != told.said
                assert one.tick <= told.reveal_tick < len(trace.records)


def test_a_question_is_one_sentence_with_two_to_six_different_answers():
    for seed in SEEDS:
        _, found = asked(seed)
        for one in found:
            assert one.text.endswith("?")
            assert one.text.count("?") == 1
            assert f"tick {one.tick:,}" in one.text or one.kind is QuestionKind.FIRST_TOKEN
            assert 2 <= len(one.choices) <= 6
            assert len({c.value for c in one.choices}) == len({c.label for c in one.choices}) == len(one.choices)


def places(kinds: tuple[QuestionKind, ...]) -> dict[int, Counter[int]]:
    """Number of answers -> how often the right one stood at each place, where just one is right ("nobody" aside)."""
    found: dict[int, Counter[int]] = {}
    for seed in SEEDS:
        trace, all_ = asked(seed)
        for one in all_:
            values = [choice.value for choice in one.choices if choice.value != NOBODY]
            right = [place for place, value in enumerate(values) if value in right_values(trace, one)]
            if one.kind in kinds and len(right) == 1:
                found.setdefault(len(values), Counter())[right[0]] += 1
    return found


@pytest.mark.parametrize("kind", [k for k in QuestionKind if k not in NUMBERS])
def test_the_place_of_the_right_one_of_several_requests_or_causes_is_drawn_by_lot(kind: QuestionKind):
    tried = 0
    for size, counts in places((kind,)).items():
        total = counts.total()
        if size > 1 and total >= 60:
            tried += 1
            assert all(0.5 / size < counts[place] / total < 1.6 / size for place in range(size)), (size, counts)
    assert tried


def test_the_right_number_stands_at_every_place():
    counts = places(NUMBERS)[4]
    assert all(counts[place] / counts.total() > 0.12 for place in range(4)), counts
    assert max(counts.values()) / counts.total() < 0.5, counts


def test_the_same_run_asks_the_same_questions_in_the_same_order():
    again = random_workload(SEEDS[0]).run()
    assert tuple(q for record in again.records for q in questions(again, record.tick)) == asked(SEEDS[0])[1]


def test_a_question_knows_only_the_state_before_its_tick_and_who_arrives_in_it():
    for seed in SEEDS[:50]:
        trace, found = asked(seed)
        for one in found:
            arrived = {e.request_id for e in trace.records[one.tick].events if isinstance(e, RequestArrived)}
            before = trace.records[one.tick - 1].snapshot if one.tick else None
            known = arrived | ({*before.running, *before.waiting} if before else set())
            assert not one.subject or one.subject in known
            if one.kind in (QuestionKind.VICTIM, QuestionKind.ADMITTED, QuestionKind.SCHEDULED):
                assert {c.value for c in one.choices} - {NOBODY} <= known


@pytest.mark.parametrize("name", list_scenarios())
def test_recorded_runs_are_asked_about_and_graded(name: str):
    trace = Trace.load(TRACES / f"{name}.json.gz")
    found = [q for record in trace.records for q in questions(trace, record.tick)]
    assert len({q.kind for q in found}) >= 3
    for one in found:
        right = recount(trace, one)
        shown = next(choice for choice in one.choices if choice.value in right)
        assert set(right_values(trace, one)) == right
        assert grade(trace, one, shown.value).right


# One kind after the other


def test_every_request_admitted_in_the_tick_is_a_right_answer():
    made = run(create_engine(max_num_seqs=2), *(create_request(name, 4, 3) for name in "ABC"))
    one = question(made, QuestionKind.ADMITTED, 0)
    assert {c.label for c in one.choices} == {"A (arrives now)", "B (arrives now)", "C (arrives now)", "nobody"}
    assert [grade(made, one, value).right for value in ("A", "B", "C", NOBODY)] == [True, True, False, False]
    told = grade(made, one, "C")
    assert told.did == "A and B"
    assert "C did not run in this tick. Both lanes are taken" in told.reason


def test_nobody_is_right_where_all_lanes_stay_taken():
    made = run(create_engine(max_num_seqs=1), create_request("A", 4, 5), create_request("B", 4, 3, arrival=2))
    told = grade(made, question(made, QuestionKind.ADMITTED, 2), NOBODY)
    assert (told.right, told.said, told.did) == (True, "nobody", "nobody")
    assert told.reason == "Nobody was let in. B has to wait. The only lane is taken."


def test_the_largest_chunk_allowed_is_the_reason_of_a_chunk():
    made = run(create_engine(chunk_size=4, cap_lone_request=True), create_request("A", 10, 2))
    one = question(made, QuestionKind.CHUNK, 0, "A")
    assert one.text == "A gets a lane in tick 0: how many of the 10 tokens left are computed in it?"
    told = grade(made, one, "10")
    assert (told.right, told.said, told.did) == (False, "10 tokens", "4 tokens")
    assert told.reason == "It computed 4 tokens: the largest chunk allowed. 10 were left."


def test_a_hit_names_who_had_computed_it():
    prompt = list(range(10, 22))
    made = run(create_engine(), create_request("A", prompt, 2), create_request("B", [*prompt, 5], 2, arrival=3))
    tick = next(
        r.tick for r in made.records if any(isinstance(e, RequestArrived) and e.request_id == "B" for e in r.events)
    )
    told = grade(made, question(made, QuestionKind.HITS, tick, "B"), "12")
    assert told.right
    assert "A had computed it before." in told.reason


def test_a_preemption_is_asked_for_with_its_victim_and_then_with_its_cause():
    made = run(create_engine(max_num_seqs=1, quantum=2), create_request("A", 4, 6), create_request("B", 4, 6))
    tick = next(r.tick for r in made.records if any(isinstance(e, RequestPreempted) for e in r.events))
    kinds = [q.kind for q in questions(made, tick)]
    assert kinds.index(QuestionKind.VICTIM) < kinds.index(QuestionKind.CAUSE)
    assert grade(made, question(made, QuestionKind.VICTIM, tick), "A").right
    cause = question(made, QuestionKind.CAUSE, tick, "A")
    assert grade(made, cause, "slice").reason == "Its slice of 2 ticks ended while B was waiting."
    assert not grade(made, cause, "memory").right


def test_without_slices_and_classes_a_victim_is_asked_for_only_where_memory_is_tight_and_it_may_be_nobody():
    trace = Trace.load(TRACES / "memory_pressure.json.gz")
    assert (trace.config.quantum, trace.config.policy) == (None, "fcfs")
    size, tight = trace.config.block_size, set()
    for record in trace.records[1:]:
        before = trace.records[record.tick - 1].snapshot
        growing = [r for r in before.requests if r.id in before.running and r.num_tokens > len(r.block_ids) * size]
        if growing and len(growing) + 1 >= len(before.free_blocks):
            tight.add(record.tick)
    found = [q for record in trace.records for q in questions(trace, record.tick) if q.kind is QuestionKind.VICTIM]
    victims = {record.tick for record in trace.records if any(isinstance(e, RequestPreempted) for e in record.events)}
    assert {q.tick for q in found} == tight > victims
    assert [q.tick for q in found if grade(trace, q, NOBODY).right] == sorted(tight - victims)


def test_the_first_token_is_revealed_in_its_own_tick():
    made = run(create_engine(max_num_seqs=1), create_request("A", 4, 5), create_request("B", 4, 3))
    one = question(made, QuestionKind.FIRST_TOKEN, 0, "B")
    right = right_values(made, one)[0]
    told = grade(made, one, right)
    assert told.right
    assert told.reveal_tick == int(right) == 5
    assert told.reason.startswith("B arrived in tick 0. It took part in 1 tick and had to wait in 5.")


def test_nothing_is_asked_about_a_tick_in_which_somebody_intervenes():
    engine = create_engine(max_num_seqs=1)
    for name in "AB":
        engine.add_request(create_request(name, 4, 6))
    engine.step()
    engine.abort("A")
    engine.run()
    assert questions(engine.trace(), 1) == ()
    assert question(engine.trace(), QuestionKind.ADMITTED, 1) is None
    # Nor what such a tick would bring about.
    assert question(engine.trace(), QuestionKind.FIRST_TOKEN, 0, "B") is None


def test_what_cannot_be_asked_is_none():
    made = run(create_engine(), create_request("A", 4, 3))
    assert question(made, QuestionKind.CHUNK, 1, "A") is None  # it decodes, always one token
    assert question(made, QuestionKind.CHUNK, 0) is None  # of whom?
    assert question(made, QuestionKind.VICTIM, 0, "A") is None
    assert question(made, QuestionKind.CAUSE, 1, "A") is None
    assert question(made, QuestionKind.HITS, 0, "nobody knows me") is None


def test_the_next_question_is_the_first_one_of_its_kinds_from_a_tick_on():
    trace, found = asked(SEEDS[3])
    assert next_question(trace, 0) == found[0]
    for kind in QuestionKind:
        wanted = [q for q in found if q.kind is kind and q.tick >= 3]
        assert next_question(trace, 3, [kind]) == (wanted[0] if wanted else None)
    assert next_question(trace, len(trace.records)) is None


def test_an_answer_that_was_not_offered_is_refused_with_those_that_were():
    made = run(create_engine(max_num_seqs=1), create_request("A", 4, 5), create_request("B", 4, 3))
    with pytest.raises(TraceError, match=r"'Z' is no answer to .* 'A'"):
        grade(made, question(made, QuestionKind.ADMITTED, 0), "Z")


def test_a_tick_that_is_not_there_is_refused():
    made = run(create_engine(), create_request("A", 4, 3))
    with pytest.raises(TraceError, match="there is no tick 99"):
        questions(made, 99)


def test_the_random_runs_hold_every_cause_that_can_be_foreseen():
    reasons = {e.reason.value for seed in SEEDS for e in events(asked(seed)[0], RequestPreempted)}
    assert reasons == {"slice", "memory", "push_out"}

"""A quiz of a run: where it asks, and what."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest

from scheduler_core.predictions import Question, questions
from scheduler_core.quiz import ORDER, PAUSE, QuestionKind, next_in_quiz, question_about
from scheduler_core.trace import Trace
from tests.helpers import random_workload

SEEDS = range(3_000, 3_030)


def quiz(trace: Trace, first: int = 1) -> list[Question]:
    asked: list[Question] = []
    while (following := next_in_quiz(trace, first, asked)) is not None:
        asked.append(following)
    return asked


@pytest.mark.parametrize("seed", SEEDS)
def test_each_question_can_be_asked_and_leaves_ticks_after_the_one_before(seed: int):
    trace = random_workload(seed).run()
    asked = quiz(trace)
    ticks = [question.tick for question in asked]
    assert all(after >= before + PAUSE for before, after in itertools.pairwise(ticks))
    assert all(question in questions(trace, question.tick) for question in asked)
    assert not ticks or ticks[0] >= 1


@pytest.mark.parametrize("seed", SEEDS)
def test_a_kind_that_was_not_asked_comes_as_soon_as_it_can(seed: int):
    trace = random_workload(seed).run()
    asked = quiz(trace)
    offered = {question.kind for record in trace.records[1:] for question in questions(trace, record.tick)}
    missed = offered - {question.kind for question in asked}
    for kind in missed:
        # It only ever came up in a pause, or beside another that had not been asked either.
        for record in trace.records[1:]:
            before = [question for question in asked if question.tick < record.tick]
            beside = [question for question in asked if question.tick == record.tick]
            is_offered = any(question.kind is kind for question in questions(trace, record.tick))
            in_pause = bool(before) and record.tick < before[-1].tick + PAUSE
            assert not is_offered or in_pause or (beside and beside[0].kind not in {q.kind for q in before})


def test_kinds_vary_more_than_if_each_tick_were_asked():
    counts: Counter[QuestionKind] = Counter()
    for seed in SEEDS:
        counts.update(question.kind for question in quiz(random_workload(seed).run()))
    assert set(counts) == set(QuestionKind)
    assert counts.most_common(1)[0][1] < 0.4 * counts.total()


def test_the_order_of_the_kinds_names_each_once():
    assert sorted(ORDER, key=lambda kind: kind.value) == sorted(QuestionKind, key=lambda kind: kind.value)


@pytest.mark.parametrize("seed", SEEDS)
def test_on_demand_each_question_about_a_tick_comes_once(seed: int):
    trace = random_workload(seed).run()
    for record in trace.records[:20]:
        asked: list[Question] = []
        while (following := question_about(trace, record.tick, asked)) is not None:
            asked.append(following)
        assert Counter(asked) == Counter(questions(trace, record.tick))


def test_past_the_last_tick_there_is_no_question():
    trace = random_workload(3_000).run()
    assert next_in_quiz(trace, len(trace.records), ()) is None

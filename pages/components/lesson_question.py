"""The question of a step: asked before its tick is shown, then graded by the run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pages.components.lesson_state import LessonState
from scheduler_core.errors import LessonError
from scheduler_core.lesson import Lesson, Step
from scheduler_core.predictions import Grade, Question, QuestionKind, grade, question, right_values
from scheduler_core.trace import Trace


@dataclass(frozen=True, slots=True)
class Score:
    """How many questions a lesson has, and how many were answered, and rightly."""

    asked: int
    answered: int
    right: int


def question_of(step: Step, traces: Mapping[str, Trace]) -> Question | None:
    """What the step asks, None if nothing; raises `LessonError` if its run gives no such question."""
    if step.ask is None:
        return None
    trace = traces[step.run]
    tick = step.stop.find(trace)
    kinds = [kind.value for kind in QuestionKind]
    if step.ask.kind not in kinds:
        raise LessonError(f"{step.place}: there is no question {step.ask.kind!r}; the kinds are {', '.join(kinds)}")
    asked = question(trace, QuestionKind(step.ask.kind), tick, step.ask.subject) if tick else None
    if asked is None:
        about = f" about {step.ask.subject}" if step.ask.subject else ""
        raise LessonError(f"{step.place}: tick {tick} of run {step.run} has no question {step.ask.kind!r}{about}")
    return asked


def grade_of(asked: Question, trace: Trace, answer: str | None) -> Grade:
    """The grade of an answer; of a skipped question it tells what the run did, and is not right."""
    values = [choice.value for choice in asked.choices]
    if answer in values:
        return grade(trace, asked, answer)
    right = next(value for value in right_values(trace, asked) if value in values)
    return grade(trace, asked, right)


def score_of(lesson: Lesson, state: LessonState, traces: Mapping[str, Trace]) -> Score:
    """The score so far."""
    asking = [step for step in lesson.steps if step.ask is not None]
    right = answered = 0
    for step in asking:
        answer = state.answers.get(step.number)
        if answer is None:
            continue
        answered += 1
        asked = question_of(step, traces)
        right += asked is not None and grade_of(asked, traces[step.run], answer).right
    return Score(len(asking), answered, right)


def open_tick(lesson: Lesson, state: LessonState, traces: Mapping[str, Trace], run: str, from_step: int) -> int | None:
    """The first tick of a run that an open question from `from_step` on is about: from there on it is hidden."""
    ticks = [
        step.stop.find(traces[step.run])
        for step in lesson.steps[from_step - 1 :]
        if step.ask is not None and step.run == run and state.is_open(step.number)
    ]
    return min(ticks, default=None)

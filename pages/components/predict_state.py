"""The quiz of the run on the playground: what was asked and answered, and from which tick on the run is hidden."""

from __future__ import annotations

from dataclasses import dataclass, field

import streamlit as st

from pages.components.lesson_question import grade_of
from pages.components.play_state import PlayState
from pages.components.teach_score import Answered, Result
from pages.components.visit import hear, seek
from scheduler_core.predictions import Grade, Question
from scheduler_core.quiz import next_in_quiz, question_about
from scheduler_core.trace import Trace

_QUIZ, _ROWS = "quiz", "quiz_rows"


@dataclass(frozen=True, slots=True)
class Told:
    """A question that is over; `answer` is None where it was skipped."""

    asked: Question
    answer: str | None
    grade: Grade


@dataclass(slots=True)
class Quiz:
    """`start` is the tick that was seen when it began, `wished` a question that the learner asked for."""

    trace: Trace
    start: int
    told: list[Told] = field(default_factory=list)
    wished: Question | None = None
    planned: Question | None = None

    def __post_init__(self) -> None:
        self.plan()

    def plan(self) -> None:
        self.planned = next_in_quiz(self.trace, self.start + 1, self.asked)

    @property
    def asked(self) -> list[Question]:
        return [told.asked for told in self.told]

    @property
    def open(self) -> Question | None:
        """What is asked next."""
        return self.wished or self.planned

    @property
    def end(self) -> int:
        """The first tick that is hidden: the one that the open question is about."""
        return self.open.tick if self.open else len(self.trace.records)

    def last_told(self, tick: int) -> Told | None:
        """The latest question about a tick that can be seen at `tick`."""
        seen = [told for told in self.told if told.asked.tick <= tick]
        return max(seen, key=lambda told: told.asked.tick, default=None)

    def about(self, tick: int) -> Question | None:
        """A further question about the tick, if there is one."""
        return question_about(self.trace, tick, self.asked) if 0 < tick < len(self.trace.records) else None


def quiz_of(state: PlayState, trace: Trace) -> Quiz | None:
    """The quiz of the run that stands, None where it is off; another run begins its own at tick 0."""
    if not state.predict:
        st.session_state.pop(_QUIZ, None)
        return None
    quiz = st.session_state.get(_QUIZ)
    if isinstance(quiz, Quiz) and quiz.trace is not trace and quiz.trace == trace:
        quiz.trace = trace
    if not isinstance(quiz, Quiz):
        quiz = st.session_state[_QUIZ] = Quiz(trace, state.tick)
    elif quiz.trace is not trace:
        quiz = st.session_state[_QUIZ] = Quiz(trace, 0)
        state.tick = 0
        seek(state)
    return quiz


def answer(state: PlayState, quiz: Quiz, value: str | None) -> None:
    """Grade the open question, keep it for the score, and show the tick."""
    asked = quiz.open
    if asked is None:
        return
    graded = grade_of(asked, quiz.trace, value)
    quiz.told.append(Told(asked, value, graded))
    quiz.wished = None
    quiz.plan()
    result = Result.SKIPPED if value is None else Result.RIGHT if graded.right else Result.WRONG
    said = "" if value is None else graded.said
    title = f"Playground: {quiz.trace.title or quiz.trace.scenario or 'a run'}"
    row = Answered(title, asked.tick, asked.kind, asked.text, result, said, graded.did)
    st.session_state[_ROWS] = [*quiz_rows(), row]
    state.tick = asked.tick
    seek(state)


def wish(state: PlayState, quiz: Quiz) -> None:
    """Ask about the tick after the one shown, and hide what is from there on."""
    quiz.wished = quiz.about(state.tick + 1)
    seek(state)


def begin_again(state: PlayState, quiz: Quiz) -> None:
    """The same run from tick 0, each question open; the score goes on."""
    st.session_state[_QUIZ] = Quiz(quiz.trace, 0)
    state.tick = 0
    seek(state)


def toggle(state: PlayState) -> None:
    """Turn the quiz on or off; what was hidden is shown again."""
    # The stage may have stopped for this very press: its word comes with it.
    hear(state)
    state.predict = not state.predict
    seek(state)


def quiz_rows() -> list[Answered]:
    """The questions of all quizzes of this visit that are over."""
    rows: list[Answered] = st.session_state.get(_ROWS, [])
    return rows


def forget_quizzes() -> None:
    """Begin the score anew, and the quiz that stands with it."""
    st.session_state[_ROWS] = []
    quiz, state = st.session_state.get(_QUIZ), st.session_state.get("play")
    if isinstance(quiz, Quiz) and isinstance(state, PlayState):
        begin_again(state, quiz)

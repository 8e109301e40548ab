"""Where a visitor stands in a lesson, and what was answered: kept for the session, the step also in the address."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import streamlit as st

from pages.components.plain import cut
from scheduler_core.lesson import Lesson

MAX_DIGITS = 6


@dataclass(slots=True)
class LessonState:
    """`step` counts from 1; the one after the last is "check yourself". `answers` holds None where it was skipped."""

    step: int = 1
    answers: dict[int, str | None] = field(default_factory=dict)
    tried: dict[int, str] = field(default_factory=dict)

    def is_open(self, number: int) -> bool:
        return number not in self.answers


def enter(lesson: Lesson, fresh: bool) -> tuple[LessonState, str]:
    """The visitor's state, and what could not be taken from the address; on entry the address wins."""
    slot = f"lesson {lesson.name}"
    message = ""
    state = st.session_state.get(slot)
    if state is None:
        state = st.session_state[slot] = LessonState()
    assert isinstance(state, LessonState)
    if fresh:
        step, message = step_from(st.query_params.to_dict(), state.step, last_step(lesson))
        state.step = step
    return state, message


def last_step(lesson: Lesson) -> int:
    """The number of the "check yourself" behind the steps."""
    return len(lesson.steps) + 1


def step_from(query: Mapping[str, str], usual: int, last: int) -> tuple[int, str]:
    """The step that an address asks for, from 1 to `last`, with a message if it could not be taken."""
    text = query.get("step")
    if text is None:
        return usual, ""
    if not (text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS):
        return (
            1,
            f"The link asks for the step {cut(text)}, which is no step; there are steps 1 to {last}. This is step 1.",
        )
    nearest = min(max(int(text), 1), last)
    if nearest == int(text):
        return nearest, ""
    return nearest, f"The link asks for the step {text}; there are steps 1 to {last}, so this is step {nearest}."

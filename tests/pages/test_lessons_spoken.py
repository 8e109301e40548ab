"""What a screen reader is told of each step of each lesson."""

from __future__ import annotations

import re

import pytest

from pages.components.lesson_question import question_of
from pages.components.lesson_runs import LessonRuns
from scheduler_core.lesson import list_lessons, load_lesson
from tests.pages.helpers import component, open_page


def squeezed(text: str) -> str:
    """Words only, so that marks of Markdown and line ends do not matter."""
    return " ".join(re.findall(r"\w+", text))


@pytest.mark.parametrize("name", list_lessons())
def test_every_step_is_told_whole_and_without_marks(name: str):
    lesson = load_lesson(name)
    traces = LessonRuns(lesson)
    for step in lesson.steps:
        at = open_page(name, step=str(step.number))
        told = component(at, "tickscope_lesson")["text"]
        assert told.startswith(f"Step {step.number} of {len(lesson.steps)}: {step.title}.")
        assert not re.search(r"[*`|{}\\]|\]\(|glossary", told), step.title
        # All that is told before an answer; a figure may stand between any two of these pieces.
        for piece in re.split(r"\{[^}]*\}", step.text):
            assert squeezed(re.sub(r":?--+:?", " ", piece)) in squeezed(told), step.title
        asked = question_of(step, traces)
        assert asked is None or squeezed(asked.text) in squeezed(told)
        if step.after:
            assert squeezed(step.after)[:60] not in squeezed(told), "nothing of the answer"


@pytest.mark.parametrize("name", list_lessons())
def test_the_end_of_a_lesson_is_told(name: str):
    at = open_page(name, step="99")
    assert component(at, "tickscope_lesson")["text"].startswith("Check yourself.")

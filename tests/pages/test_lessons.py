"""The lessons without a browser."""

from __future__ import annotations

from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from pages.components.lesson_question import Score, grade_of, question_of, score_of
from pages.components.lesson_runs import LessonRuns, until
from pages.components.lesson_state import LessonState, step_from
from pages.components.plain import plain
from scheduler_core.lesson import list_lessons, load_lesson
from scheduler_core.predictions import right_values
from tests.pages.helpers import assert_drawn, component, everything_said, open_page, stage_data

NAMES = list_lessons()


def lesson_state(at: AppTest, name: str) -> LessonState:
    state = at.session_state[f"lesson {name}"]
    assert isinstance(state, LessonState)
    return state


def text(at: AppTest) -> str:
    return "\n".join(element.value for element in at.markdown)


def press(at: AppTest, key: str) -> AppTest:
    at.button(key=key).click().run()
    assert not at.exception, at.exception
    return at


def shown_ticks(at: AppTest) -> int:
    return int(stage_data(at)["run"]["ticks"])


@pytest.mark.parametrize("name", NAMES)
def test_every_step_is_drawn_forwards_and_back(name: str):
    lesson = load_lesson(name)
    at = open_page(name)
    for number, step in enumerate(lesson.steps, 1):
        assert_drawn(at)
        assert lesson_state(at, name).step == number
        assert plain(step.title) in [heading.value for heading in at.header]
        press(at, "lesson_on")
    assert at.button(key="lesson_on").disabled
    assert len(at.expander) == len(lesson.checks)
    for number in range(len(lesson.steps), 0, -1):
        press(at, "lesson_back")
        assert lesson_state(at, name).step == number
        assert_drawn(at)
    assert at.button(key="lesson_back").disabled


@pytest.mark.parametrize("name", NAMES)
def test_the_stage_stands_at_the_step_s_tick_with_its_spotlight(name: str):
    lesson = load_lesson(name)
    traces = LessonRuns(lesson)
    for step in lesson.steps:
        at = open_page(name, step=str(step.number))
        data = stage_data(at)
        tick = step.stop.find(traces[step.run])
        assert data["command"]["tick"] == (tick - 1 if step.ask else tick)
        assert data["command"]["selected"] == (step.request or None)
        assert data["options"]["panel"] == step.panel
        assert data["options"]["room"] == len(traces[step.run].records)


@pytest.mark.parametrize("name", NAMES)
def test_until_an_answer_the_stage_is_sent_nothing_from_the_tick_on(name: str):
    lesson = load_lesson(name)
    traces = LessonRuns(lesson)
    for step in lesson.steps:
        asked = question_of(step, traces)
        if asked is None:
            continue
        at = open_page(name, step=str(step.number))
        assert shown_ticks(at) <= asked.tick
        assert not [group for group in at.button_group if (group.key or "").startswith("lesson_try")]
        press(at, "lesson_skip")
        grade = grade_of(asked, traces[step.run], None)
        assert shown_ticks(at) > grade.reveal_tick
        assert stage_data(at)["command"]["tick"] == grade.reveal_tick


def test_a_cut_run_does_not_name_those_who_have_not_arrived():
    traces = LessonRuns(load_lesson("preemption"))
    cut = until(traces["base"], 3)
    assert [spec.id for spec in cut.requests] == ["R1", "R2", "R3"]
    assert len(cut.records) == 3


def test_a_right_answer_and_a_wrong_one_are_told_and_counted():
    lesson = load_lesson("preemption")
    traces = LessonRuns(lesson)
    at = open_page("preemption", step="1")
    for number, is_right in ((1, True), (2, False)):
        asked = question_of(lesson.steps[number - 1], traces)
        assert asked is not None
        right = right_values(traces["base"], asked)
        value = next(choice.value for choice in asked.choices if (choice.value in right) is is_right)
        assert at.button(key="lesson_reveal").disabled
        at.radio(key=f"lesson_choice preemption {number}").set_value(value).run()
        press(at, "lesson_reveal")
        assert ("✓ Right" if is_right else "× Not so") in text(at)
        assert not [button for button in at.button if button.key == "lesson_reveal"]
        press(at, "lesson_on")
    assert "1 of 2 right" in text(at)
    press(at, "lesson_back")
    assert "× Not so" in text(at)
    at = open_end(at)
    assert "**1 of 2 right.**" in text(at)
    assert "You left out" in text(at)


def open_end(at: AppTest) -> AppTest:
    while not at.button(key="lesson_on").disabled:
        press(at, "lesson_on")
    return at


def test_who_goes_on_without_an_answer_has_skipped_it():
    at = press(open_page("preemption", step="1"), "lesson_on")
    assert lesson_state(at, "preemption").answers == {1: None}
    assert "of 0" not in text(at)


def test_what_a_lesson_does_not_speak_of_is_left_away_from_its_stage():
    for name, without in (("chunked_prefill", ["blocks"]), ("prefix_caching", [])):
        assert stage_data(open_page(name))["options"]["without"] == without


def test_another_run_can_be_put_on_the_stage():
    at = open_page("chunked_prefill", step="7")
    traces = LessonRuns(load_lesson("chunked_prefill"))
    assert shown_ticks(at) == len(traces["base"].records)
    at.button_group(key="lesson_try chunked_prefill 7").set_value("whole").run()
    assert not at.exception, at.exception
    assert shown_ticks(at) == len(traces["whole"].records)


@pytest.mark.parametrize(
    ("asked", "step", "told"),
    [
        ("3", 3, ""),
        ("0", 1, "there are steps 1 to 12"),
        ("99", 12, "there are steps 1 to 12"),
        ("-1", 1, "which is no step"),
        ("<b>", 1, "which is no step"),
        ("9" * 50, 1, "which is no step"),
        ("²", 1, "which is no step"),
    ],
)
def test_the_step_in_an_address_is_checked(asked: str, step: int, told: str):
    found, message = step_from({"step": asked}, 1, 12)
    assert found == step
    assert told in message
    assert bool(message) == bool(told)


def test_a_bad_step_in_the_address_is_told():
    at = open_page("chunked_prefill", step="99")
    assert "The link asks for the step 99" in everything_said(at).replace("\\", "")
    assert lesson_state(at, "chunked_prefill").step == len(load_lesson("chunked_prefill").steps) + 1


def test_the_step_stands_in_the_address():
    at = open_page("chunked_prefill")
    assert component(at, "tickscope_lesson_address")["query"] == ""
    press(at, "lesson_on")
    assert component(at, "tickscope_lesson_address")["query"] == "step=2"


def test_each_step_is_told_to_a_screen_reader():
    at = open_page("preemption", step="2")
    words: Any = component(at, "tickscope_lesson")["text"]
    assert words.startswith("Step 2 of 12: The slice is over.")
    assert "Who loses a lane" in words
    press(at, "lesson_skip")
    assert component(at, "tickscope_lesson")["text"].startswith("The run: R2.")


def test_a_score_counts_what_was_answered():
    lesson = load_lesson("preemption")
    traces = LessonRuns(lesson)
    state = LessonState(answers={1: "", 2: "R1", 4: None})
    assert score_of(lesson, state, traces) == Score(10, 2, 1)

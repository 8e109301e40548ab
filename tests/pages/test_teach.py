"""The teacher view: its link, what it leaves out, its QR code and its score."""

from __future__ import annotations

import csv
import io

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pages.components.lesson_question import question_of
from pages.components.lesson_runs import LessonRuns
from pages.components.lesson_state import LessonState
from pages.components.teach_qr import MAX_READABLE, Code, code_of, is_loopback, obstacles
from pages.components.teach_score import Result, Tally, answered_in, by_kind, by_lesson, score_csv, tally
from pages.components.teach_state import PARTS, USUAL, Teach, from_text, hidden_on_stage, to_text
from scheduler_core.lesson import load_lesson
from scheduler_core.predictions import right_values
from tests.pages.helpers import component, open_home, open_page, stage_data

# --- the link ---------------------------------------------------------------------------------------------------------


@given(st.none() | st.frozensets(st.sampled_from(sorted(PARTS))).map(Teach))
def test_a_teacher_view_survives_its_link(teach: Teach | None):
    assert from_text(to_text(teach) or "off") == (teach, [])


@given(st.text(max_size=300) | st.lists(st.sampled_from([*PARTS, "x", ""]), max_size=12).map(",".join))
def test_no_link_breaks_the_teacher_view(text: str):
    teach, messages = from_text(text)
    assert teach is None or teach.hidden <= PARTS.keys()
    assert all(messages)
    assert from_text(to_text(teach) or "off") == (teach, [])


def test_what_cannot_be_hidden_is_told_and_the_rest_is_hidden():
    teach, messages = from_text("timeline,teacher")
    assert teach == Teach(frozenset({"timeline"}))
    assert "“teacher”" in messages[0]
    assert "timeline, narration, tips, panels" in messages[0]
    usual, (told,) = from_text("yes")
    assert usual == Teach(USUAL)
    assert "“yes”" in told


def test_a_link_of_any_length_is_cut():
    teach, messages = from_text("timeline," * 10_000)
    assert teach == Teach(frozenset({"timeline"}))
    assert len(messages) == 1
    assert len(messages[0]) < 400


def test_the_stage_hears_only_of_its_own_parts():
    assert hidden_on_stage(frozenset(PARTS)) == ["buttons", "scrubber", "blocks", "timeline", "narration", "tips"]
    assert hidden_on_stage(USUAL) == []


# --- the pages --------------------------------------------------------------------------------------------------------


def keys(at: object) -> set[str]:
    """The keys of all buttons, sliders and lists that were drawn."""
    kinds = ("button", "select_slider", "selectbox", "number_input", "toggle", "radio", "download_button")
    return {element.key for kind in kinds for element in at.get(kind) if element.key}  # type: ignore[attr-defined]


def drawn(at: object) -> set[str]:
    found = at.get("bidi_component")  # type: ignore[attr-defined]
    return {element.proto.component_name for element in found}


def test_the_playground_leaves_out_settings_choices_and_panels():
    usual = open_page("playground", tick="5")
    at = open_page("playground", tick="5", teach="on")
    assert not at.exception
    assert {"set_quantum", "set_policy", "edit_requests", "ask_what_if"} <= keys(usual)
    assert keys(at) == {"predict", "teach_leave"}
    assert not at.get("tab")
    assert not at.sidebar.children
    assert stage_data(at)["options"]["teach"] == {"clicker": "run", "hide": []}
    assert stage_data(at)["options"]["why"] is False
    assert stage_data(usual)["options"]["teach"] is None
    assert at.title[0].value == "Time slices"


def test_what_the_teacher_keeps_is_drawn():
    at = open_page("playground", tick="5", teach="timeline")
    assert {"edit_requests", "ask_what_if", "teach_leave"} <= keys(at)
    assert at.get("tab")
    assert stage_data(at)["options"]["teach"] == {"clicker": "run", "hide": ["timeline"]}
    assert "set_quantum" not in keys(at), "behind a pill, until that is opened"
    at.session_state["pop_settings"] = True
    at.run()
    assert {"set_quantum", "set_policy"} <= keys(at)


def test_a_comparison_leaves_out_settings_and_tables():
    usual, at = open_page("compare"), open_page("compare", teach="on")
    assert "swap_sides" in keys(usual)
    assert keys(at) == {"go_to_difference", "teach_leave"}
    assert usual.dataframe
    assert not at.dataframe
    assert len([e for e in at.get("bidi_component") if e.proto.component_name == "tickscope.stage"]) == 2


def test_a_lesson_keeps_its_band_and_has_no_way_to_the_playground():
    at = open_page("chunked_prefill", step="3", teach="on")
    assert {"lesson_on", "lesson_back", "teach_leave"} <= keys(at)
    assert stage_data(at)["options"]["teach"]["clicker"] == "lesson"
    assert stage_data(at)["options"]["why"] is False
    assert not at.sidebar.children


def test_the_address_carries_the_teacher_view():
    assert component(open_page("playground", teach="on"), "tickscope_address")["query"] == "teach=on"
    assert component(open_page("compare", teach="nothing"), "tickscope_address")["query"] == "teach=nothing"
    lesson = open_page("preemption", step="2", teach="tips")
    assert component(lesson, "tickscope_lesson_address")["query"] == "step=2&teach=tips"


def test_the_teacher_view_stays_from_page_to_page_until_it_is_left():
    at = open_home()
    at.query_params["teach"] = "panels,timeline"
    at.switch_page("pages/playground.py").run()
    at.query_params.clear()
    at.switch_page("pages/preemption.py").run()
    assert stage_data(at)["options"]["teach"] == {"clicker": "lesson", "hide": ["timeline"]}
    at.button(key="teach_leave").click().run()
    assert stage_data(at)["options"]["teach"] is None
    assert at.sidebar.children
    at.switch_page("pages/playground.py").run()
    assert stage_data(at)["options"]["teach"] is None


def test_what_a_link_cannot_hide_is_told_on_the_page():
    at = open_page("compare", teach="walls")
    assert any("walls" in warning.value for warning in at.warning)
    assert not any("means nothing" in warning.value for warning in at.warning)
    at.button(key="teach_got_it").click().run()
    assert not at.warning


def test_home_has_its_navigation_whatever_the_link_says():
    at = open_home()
    at.query_params["teach"] = "on"
    assert at.run().sidebar.children


# --- the QR code ------------------------------------------------------------------------------------------------------


def picture(code: Code, scale: int = 8) -> np.ndarray:
    """The code as a camera would see it, drawn from its path."""
    side = (code.side + 8) * scale
    image = np.full((side, side), 255, np.uint8)
    for run in filter(None, code.path.split("z")):
        start, _, rest = run[1:].partition("h")
        x, y = (int(part) + 4 for part in start.split())
        width = int(rest.split("v")[0])
        image[y * scale : (y + 1) * scale, x * scale : (x + width) * scale] = 0
    return image


@pytest.mark.parametrize(
    "address",
    [
        "http://192.168.1.20:8501/playground",
        "https://example.org/tickscope/compare?pair=cache&tick=12&selected=R%C3%BC%2F1",
        "http://10.0.0.7:8501/playground?scenario=own&requests=" + "x-_9" * 50,
    ],
)
def test_a_code_is_read_as_the_address(address: str):
    code = code_of(address)
    assert code is not None
    assert cv2.QRCodeDetector().detectAndDecode(picture(code))[0] == address
    assert obstacles(address, code) == []


def test_a_long_address_is_told_before_the_class_tries_it():
    address = "http://10.0.0.7:8501/playground?requests=" + "x" * 700
    code = code_of(address)
    assert code is not None
    assert code.side > MAX_READABLE
    (told,) = obstacles(address, code)
    assert f"{len(address)} characters" in told
    assert f"{code.side} modules" in told


def test_an_address_that_no_code_can_hold_has_none():
    address = "http://10.0.0.7:8501/playground?requests=" + "x" * 3_000
    assert code_of(address) is None
    assert "more than a QR code can hold" in obstacles(address, None)[0]


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "localhost", "a.localhost", "[::1]", "0.0.0.0"])
def test_a_loopback_address_is_told_with_the_way_out(host: str):
    address = f"http://{host}:8501/playground"
    assert is_loopback(address)
    assert "make run HOST=0.0.0.0" in obstacles(address, code_of(address))[0]


@pytest.mark.parametrize(
    "address", ["http://192.168.1.20:8501/", "https://example.org", "http://[fe80::1]/", "", "http://["]
)
def test_other_addresses_are_not_loopback(address: str):
    assert not is_loopback(address)


# --- the score --------------------------------------------------------------------------------------------------------


def answered(name: str) -> tuple[LessonState, list[Result]]:
    """A lesson with its questions answered rightly, wrongly and not at all, in turn."""
    lesson = load_lesson(name)
    traces, state, expected = LessonRuns(lesson), LessonState(), []
    for step in lesson.steps:
        asked = question_of(step, traces)
        if asked is None:
            continue
        good = right_values(traces[step.run], asked)
        values = [choice.value for choice in asked.choices]
        wish = list(Result)[len(expected) % 3]
        right, wrong = (next(v for v in values if (v in good) is is_good) for is_good in (True, False))
        state.answers[step.number] = {Result.RIGHT: right, Result.WRONG: wrong, Result.SKIPPED: None}[wish]
        expected.append(wish)
    return state, expected


def test_the_score_counts_each_question_once():
    lesson = load_lesson("preemption")
    state, expected = answered("preemption")
    rows = answered_in(lesson, state, LessonRuns(lesson))
    assert [row.result for row in rows] == expected
    total = tally(rows)
    assert (total.right, total.wrong, total.skipped) == tuple(expected.count(result) for result in Result)
    for parts in (by_kind(rows), by_lesson(rows)):
        assert Tally(*(sum(getattr(t, n) for t in parts.values()) for n in ("right", "wrong", "skipped"))) == total
    assert total.words == f"{total.right} of {total.right + total.wrong} right"


def test_an_open_question_is_in_no_score():
    lesson = load_lesson("preemption")
    assert answered_in(lesson, LessonState(), LessonRuns(lesson)) == []


def test_the_spreadsheet_has_a_line_for_each_question():
    lesson = load_lesson("preemption")
    state, expected = answered("preemption")
    lines = list(csv.DictReader(io.StringIO(score_csv(answered_in(lesson, state, LessonRuns(lesson))))))
    assert [line["result"] for line in lines] == [result.value for result in expected]
    assert {line["lesson"] for line in lines} == {"Preemption"}
    assert all(line["did"] and line["question"] for line in lines)
    assert [bool(line["said"]) for line in lines] == [result is not Result.SKIPPED for result in expected]


def test_the_board_shows_the_visit_and_begins_anew():
    at = open_page("preemption", teach="on")
    state, expected = answered("preemption")
    at.session_state["lesson preemption"] = state
    at.session_state["teach_dialog"] = "score"
    at.run()
    assert not at.exception
    right, wrong = expected.count(Result.RIGHT), expected.count(Result.WRONG)
    assert f"<b>{right}</b> of {right + wrong} right" in at.get("html")[-1].proto.body
    assert "score_csv" in keys(at)
    at.button(key="score_reset").click().run()
    assert state.answers == {}
    assert "score_csv" not in keys(at)


def test_a_lesson_ends_with_its_result_in_the_teacher_view_only():
    for teach, is_there in (("on", True), ("off", False)):
        at = open_page("preemption", step="99", teach=teach)
        at.session_state["lesson preemption"].answers.update(answered("preemption")[0].answers)
        at.run()
        assert ("lesson_score_csv" in keys(at)) is is_there

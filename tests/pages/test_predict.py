"""Predict on the playground: the run as a quiz, from which nothing of the future leaks."""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from pages.components.imported import ImportedRun
from pages.components.own_requests import OwnRequest, pack
from pages.components.player_payload import payload
from pages.components.predict_state import Quiz
from pages.components.runs import recording, scenario_names
from pages.components.teach_score import KIND_WORDS
from scheduler_core.predictions import Question, right_values
from scheduler_core.trace import Trace
from tests.pages.helpers import (
    PLAYGROUND,
    assert_drawn,
    component,
    live_runs_of_made_up_tokens,
    open_home,
    open_playground,
    stage_data,
    state,
)


def quiz(at: AppTest) -> Quiz:
    found = at.session_state["quiz"]
    assert isinstance(found, Quiz)
    return found


def stand_at(at: AppTest, tick: int) -> AppTest:
    """As if the visitor had stepped there on the stage."""
    at.session_state["stage"] = {"view": {"tick": tick, "selected": None, "playing": False}}
    at.run()
    assert not at.exception, at.exception
    return at


def walk_on(at: AppTest) -> Question:
    """Go as far as the run is shown, and meet the question there."""
    asked = quiz(at).open
    assert asked is not None
    stand_at(at, 10_000)
    assert state(at).tick == asked.tick - 1
    return asked


def press(at: AppTest, key: str) -> AppTest:
    at.button(key=key).click().run()
    assert not at.exception, at.exception
    return at


def radio(at: AppTest) -> Any:
    (found,) = [each for each in at.radio if (each.key or "").startswith("predict_choice")]
    return found


def choose(at: AppTest, asked: Question, *, right: bool) -> str:
    """Answer the open question; gives the label of what was said."""
    good = right_values(quiz(at).trace, asked)
    place = next(i for i, choice in enumerate(asked.choices) if (choice.value in good) is right)
    radio(at).set_value(asked.choices[place].value).run()
    press(at, "lesson_reveal")
    return asked.choices[place].label


def text(at: AppTest) -> str:
    return "\n".join(element.value for element in at.markdown).replace("\\", "")


def until_tick(trace: Trace, end: int) -> dict[str, Any]:
    """What the stage would be sent if the run had stopped before `end`."""
    arrived = {spec.id for spec in trace.requests if spec.arrival_time <= trace.records[end - 1].start}
    records = trace.records[:end]
    return payload(replace(trace, records=records, requests=tuple(s for s in trace.requests if s.id in arrived)))


def test_a_quiz_begins_where_the_stage_says_in_the_same_breath_that_it_has_stopped() -> None:
    at = open_playground()
    at.session_state["stage"] = {"view": {"tick": 5, "selected": None, "playing": False, "seq": 1}}
    press(at, "predict")
    assert (quiz(at).start, state(at).tick) == (5, 5)


@pytest.mark.parametrize("name", scenario_names())
def test_before_an_answer_the_stage_is_sent_nothing_of_the_tick_or_later(name: str):
    at = open_playground(scenario=name, predict="on")
    assert_drawn(at)
    for _ in range(3):
        asked = walk_on(at)
        sent = dict(stage_data(at)["run"])
        sent.pop("digest")
        assert sent == until_tick(quiz(at).trace, asked.tick)
        assert stage_data(at)["options"]["spoilers"] is False
        assert radio(at).label.replace("\\", "") == asked.text
        choose(at, asked, right=True)
        assert stage_data(at)["command"]["tick"] == asked.tick
        assert stage_data(at)["run"]["ticks"] > asked.tick
        if quiz(at).open is None:
            break


@pytest.mark.parametrize("panel", ["Why?", "Tokens", "Blocks", "Charts", "Events", "Export"])
def test_no_panel_tells_of_a_tick_that_was_not_seen(panel: str):
    at = open_playground(predict="on", panel=panel)
    walk_on(at)
    choose(at, walk_on(at), right=False)
    tick = state(at).tick
    kept = at.session_state["quiz_panels"]
    assert kept[1] == tick + 1
    assert len(kept[2].records) == tick + 1
    if panel == "Events":
        assert max(at.dataframe[0].value["tick"]) <= tick


def sent_ticks(at: AppTest) -> int:
    return int(stage_data(at)["run"]["ticks"])


# --- answers and score ------------------------------------------------------------------------------------------------


def test_a_right_answer_a_wrong_one_and_none_are_told_with_the_reason_and_counted():
    at = open_playground(scenario="time_slices", predict="on")
    said = choose(at, walk_on(at), right=True)
    assert f"✓ Right.**] You said: **{said}**" in text(at)
    assert quiz(at).told[-1].grade.reason in text(at)
    said = choose(at, walk_on(at), right=False)
    assert f"× Not so.**] You said: **{said}** · It did: **{quiz(at).told[-1].grade.did}**" in text(at)
    walk_on(at)
    press(at, "lesson_skip")
    assert f"You skipped it. It did: **{quiz(at).told[-1].grade.did}**" in text(at)
    assert at.button(key="predict_score").label == "1 of 2 right · 1 skipped"
    press(at, "predict_score")
    shown = "".join(element.proto.body for element in at.get("html"))
    assert "<b>1</b> of 2 right<span>, 1 skipped</span>" in shown
    for told in quiz(at).told:
        assert KIND_WORDS[told.asked.kind] in shown


def test_a_screen_reader_hears_the_question_and_what_came_of_it():
    at = open_playground(predict="on")
    asked = walk_on(at)
    assert component(at, "tickscope_lesson")["text"].startswith(f"Question: {asked.text}")
    choose(at, asked, right=False)
    told = quiz(at).told[-1].grade
    assert component(at, "tickscope_lesson")["text"].startswith(f"Not so. You said {told.said}. It did {told.did}.")


def test_a_new_score_opens_the_questions_again_from_tick_0():
    at = open_playground(predict="on")
    first = walk_on(at)
    choose(at, first, right=True)
    press(at, "predict_score")
    press(at, "score_reset")
    assert quiz(at).told == []
    assert quiz(at).open == first
    assert stage_data(at)["command"]["tick"] == 0
    assert "predict_score" not in {button.key for button in at.button}


def test_questions_vary_and_leave_ticks_between_them():
    at = open_playground(scenario="time_slices", predict="on")
    asked = []
    while quiz(at).open is not None and len(asked) < 6:
        asked.append(walk_on(at))
        press(at, "lesson_skip")
    ticks = [question.tick for question in asked]
    assert all(after - before >= 2 for before, after in pairwise(ticks))
    assert len({question.kind for question in asked}) >= 5


def test_at_the_end_nothing_is_left_and_it_can_begin_again():
    at = open_playground(scenario="first_steps", predict="on", tick="34")
    assert quiz(at).open is None
    assert sent_ticks(at) == 35
    assert "No question is left" in text(at)
    press(at, "predict_again")
    assert stage_data(at)["command"]["tick"] == 0
    assert sent_ticks(at) == quiz(at).end < 35


def test_a_question_about_the_next_tick_hides_the_run_from_there_on():
    at = open_playground(scenario="time_slices", predict="on")
    walk_on(at)
    press(at, "lesson_skip")
    tick = next(t for t in range(state(at).tick, quiz(at).end - 1) if quiz(at).about(t + 1) is not None)
    stand_at(at, tick)
    press(at, "predict_ask")
    assert quiz(at).end == tick + 1 == sent_ticks(at)
    choose(at, walk_on(at), right=True)
    assert quiz(at).told[-1].asked.tick == tick + 1
    assert sent_ticks(at) > tick + 1


def test_a_step_back_shows_what_was_asked_there():
    at = open_playground(scenario="time_slices", predict="on")
    first = walk_on(at)
    press(at, "lesson_skip")
    walk_on(at)
    press(at, "lesson_skip")
    stand_at(at, first.tick)
    assert first.text in text(at)
    stand_at(at, first.tick - 1)
    assert first.text not in text(at)


# --- in and out -------------------------------------------------------------------------------------------------------


def test_the_quiz_is_off_until_it_is_asked_for_and_begins_where_one_stands():
    at = open_playground(scenario="time_slices", tick="20")
    assert sent_ticks(at) == 58
    assert stage_data(at)["options"]["spoilers"] is True
    press(at, "predict")
    assert stage_data(at)["command"]["tick"] == 20
    assert 20 < quiz(at).end == sent_ticks(at) < 58
    assert component(at, "tickscope_address")["query"].endswith("predict=on")


@pytest.mark.parametrize("way", ["predict", "predict_leave"])
def test_who_leaves_sees_the_whole_run_again_where_it_stood(way: str):
    at = open_playground(scenario="time_slices", predict="on")
    walk_on(at)
    press(at, "lesson_skip")
    tick = state(at).tick
    assert "ask_what_if" not in {button.key for button in at.button}
    press(at, way)
    assert sent_ticks(at) == 58
    assert stage_data(at)["options"]["spoilers"] is True
    assert stage_data(at)["options"]["room"] is None
    assert stage_data(at)["command"]["tick"] == tick
    assert "ask_what_if" in {button.key for button in at.button}
    assert "predict" not in component(at, "tickscope_address")["query"]
    assert not at.radio or not any((each.key or "").startswith("predict") for each in at.radio)


def test_what_is_known_of_the_whole_run_waits_until_the_quiz_is_left():
    names = {element.proto.component_name for element in open_playground().get("bidi_component")}
    at = open_playground(predict="on")
    hidden = names - {element.proto.component_name for element in at.get("bidi_component")}
    assert hidden == {"tickscope_sparkline"}


def test_other_settings_begin_the_quiz_of_the_new_run_and_the_score_goes_on():
    at = open_playground(scenario="time_slices", predict="on")
    walk_on(at)
    press(at, "lesson_skip")
    choose(at, walk_on(at), right=True)
    before = quiz(at).trace
    at.selectbox(key="set_policy").set_value("priority").run()
    assert quiz(at).trace is not before
    assert quiz(at).told == []
    assert stage_data(at)["command"]["tick"] == 0
    assert sent_ticks(at) == quiz(at).end
    assert at.button(key="predict_score").label == "1 of 1 right · 1 skipped"


def test_another_page_and_back_finds_the_quiz_as_it_was():
    at = open_playground(predict="on")
    walk_on(at)
    press(at, "lesson_skip")
    told, end = len(quiz(at).told), quiz(at).end
    at.query_params.clear()
    at.switch_page("pages/glossary.py").run()
    at.switch_page("pages/playground.py").run()
    assert (len(quiz(at).told), quiz(at).end) == (told, end)
    assert sent_ticks(at) == end


def test_in_the_teacher_view_the_quiz_can_be_turned_on_and_asks():
    at = open_playground(teach="on")
    press(at, "predict")
    asked = walk_on(at)
    assert radio(at).label.replace("\\", "") == asked.text
    assert stage_data(at)["options"]["teach"]["clicker"] == "run"


# --- runs of every origin ---------------------------------------------------------------------------------------------


def asks_and_grades(at: AppTest) -> None:
    assert_drawn(at)
    asked = walk_on(at)
    assert sent_ticks(at) == asked.tick
    choose(at, asked, right=True)
    assert "✓ Right." in text(at)


def test_own_requests_are_asked_about():
    mine = (
        OwnRequest("A", "Tell me a joke about caches. " * 8),
        OwnRequest("B", "<script>alert(1)</script> " * 9, 5, 1),
    )
    asks_and_grades(open_playground(scenario="own", requests=pack(mine), predict="on"))


def test_made_up_tokens_are_asked_about():
    asks_and_grades(open_playground(scenario="priorities", backend="synthetic", predict="on"))


def test_a_run_from_a_file_is_asked_about():
    trace = recording("memory_pressure")
    assert trace is not None
    at = open_home()
    at.session_state["imported"] = ImportedRun("a.json.gz", "0" * 16, trace)
    at.query_params["scenario"], at.query_params["predict"] = "imported", "on"
    at.switch_page(PLAYGROUND).run()
    asks_and_grades(at)


def test_a_live_run_is_asked_about_once_it_is_done(monkeypatch: pytest.MonkeyPatch):
    runs = live_runs_of_made_up_tokens(monkeypatch)
    at = open_playground(scenario="first_steps", backend="live", predict="on")
    at.button(key="live_start").click().run()
    for _ in range(200):
        if runs and not runs[0].has_work:
            break
        time.sleep(0.05)
    at.run()
    at.run()
    assert quiz(at).trace.records == runs[0].trace().records
    assert stage_data(at)["command"]["tick"] == 0
    asks_and_grades(at)

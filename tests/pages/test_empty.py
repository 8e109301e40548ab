"""Where there is nothing to show, the page says what to do next, and does it where a button is offered."""

from __future__ import annotations

import pytest
from streamlit.testing.v1 import AppTest

from pages.components.blame_charts import who_cost_whom
from pages.components.charts import first_and_next_tokens, nothing_in
from pages.components.link import to_query
from pages.components.own_requests import OwnRequest
from pages.components.play_state import OWN, PlayState
from pages.components.runs import DEFAULT_SCENARIO, recording
from scheduler_core.blame import blame
from scheduler_core.events import TokenSampled
from tests.helpers import create_engine, create_request, run
from tests.pages.helpers import assert_drawn, everything_said, open_page, open_playground, stage_data, state


def words(at: AppTest) -> str:
    return "\n".join([*(text.value for text in at.markdown), everything_said(at)]).replace("\\", "")


def press(at: AppTest, key: str) -> AppTest:
    at.button(key=key).click().run()
    assert not at.exception, at.exception
    return at


def first_token(name: str, request: str) -> int:
    trace = recording(name)
    assert trace is not None
    return next(
        record.tick
        for record in trace.records
        for event in record.events
        if isinstance(event, TokenSampled) and event.request_id == request
    )


def test_before_its_first_token_a_request_s_text_leads_to_it():
    at = open_playground(scenario="time_slices", panel="Tokens", selected="R6", tick="0")
    assert "R6 has no token yet." in words(at)
    press(at, "do_no_token")
    assert state(at).tick == first_token("time_slices", "R6")
    assert stage_data(at)["command"]["tick"] == state(at).tick
    assert "has no token yet" not in words(at)


def test_a_block_that_nobody_took_leads_to_one_with_a_life():
    at = open_playground(scenario="first_steps", panel="Blocks", block="63")
    assert "was never taken" in words(at)
    press(at, "do_no_block")
    assert "was never taken" not in words(at)
    assert state(at).block == 0


def test_a_tick_without_events_says_so():
    at = open_playground(scenario="time_slices", panel="Events", tick="7")
    at.button_group(key="event_view").set_value("this tick").run()
    trace = recording("time_slices")
    assert trace is not None
    assert bool(trace.records[7].events) is not ("Nothing happened in this tick. Step on" in words(at))


def test_without_a_selection_the_panel_tells_whom_it_is_about():
    at = open_playground(scenario="time_slices", tick="9")
    assert "Nobody is selected, so this is about" in words(at)
    at = open_playground(scenario="time_slices", tick="9", selected="R2")
    assert "Nobody is selected" not in words(at)


def test_a_run_of_one_request_has_nobody_to_blame_and_says_what_would():
    trace = run(create_engine(), create_request("R1", 40, 6))
    ledger = blame(trace)
    assert "Add a request" in nothing_in(who_cost_whom(trace, ledger), ledger)
    assert nothing_in(first_and_next_tokens(trace), ledger) == ""


@pytest.mark.parametrize("panel", ["Why?", "Tokens", "Blocks", "Charts", "Events", "Export"])
def test_one_request_of_one_s_own_is_drawn_in_every_panel(panel: str):
    mine = PlayState(OWN, "synthetic", requests=(OwnRequest("R1", "What is a cache?", 5),), panel=panel)
    at = open_playground(**to_query(mine, DEFAULT_SCENARIO))
    assert_drawn(at)
    if panel == "Charts":
        assert "Nobody waited for anybody." in words(at)


def test_where_nothing_was_written_the_dialog_is_offered():
    at = open_playground(scenario="own")
    assert "There is no run to show. Write what to ask" in words(at)
    press(at, "do_no_run")
    assert [button for button in at.button if button.key == "add_request"]


def test_equal_sides_say_how_to_make_them_differ():
    at = open_page("compare", pair="chunked")
    at.session_state["compare"].second.overrides.clear()
    at.run()
    assert not at.exception, at.exception
    assert "Change a setting on one side, or choose a pair." in words(at)


def test_what_was_not_run_from_scratch_says_what_to_press():
    at = open_page("from_scratch")
    assert "then press Run it" in words(at)
    assert "Press Run it with the mistake" in words(at)
    press(at, "scratch_go")
    assert "It has not run yet" not in words(at)
    press(at, "museum_on")
    assert "Nothing runs yet" not in words(at)


def test_a_lesson_without_an_answer_says_where_to_predict():
    at = open_page("preemption", step="99")
    assert "You answered none" in words(at)
    assert "Go back to a step that asks one" in words(at)

"""Predict on the playground: the run as a quiz, from which nothing of the future leaks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from pages.components.player_payload import payload
from pages.components.predict_state import Quiz
from pages.components.runs import scenario_names
from scheduler_core.predictions import NOBODY, Question, right_values
from scheduler_core.trace import Trace
from tests.pages.helpers import assert_drawn, component, everything_said, open_playground, stage_data, state


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

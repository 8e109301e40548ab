"""The page from scratch without a browser."""

from __future__ import annotations

import json
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from scheduler_core.faults import FAULTS
from scheduler_core.scratch.experiments import EXPERIMENTS
from scheduler_core.scratch.growth import STAGES, stage_run
from scheduler_core.scratch.museum import exhibit, law_break
from tests.pages.helpers import assert_drawn, open_page


@pytest.fixture
def at() -> AppTest:
    opened = open_page("from_scratch")
    assert_drawn(opened)
    return opened


def told(at: AppTest) -> str:
    """The Markdown of the page, as it is read."""
    return "\n".join(element.value for element in (*at.markdown, *at.caption)).replace("\\", "")


def stages(at: AppTest) -> list[dict[str, Any]]:
    """What the stages were sent, from top to bottom."""
    found = [each for each in at.get("bidi_component") if each.proto.component_name == "tickscope.stage"]
    return [json.loads(each.proto.json) for each in found]


def last_tick(at: AppTest, key: str, tick: int) -> None:
    """The stage has come to that tick."""
    at.session_state[key] = {"view": {"tick": tick, "selected": None, "playing": False}}
    at.run()


def museum_stage(at: AppTest) -> dict[str, Any]:
    return stages(at)[-1]


def test_every_experiment_runs_when_asked_and_not_before(at: AppTest) -> None:
    for experiment in EXPERIMENTS:
        found = experiment.run()
        assert at.subheader[0].value.replace("\\", "") == experiment.title
        assert found.happened not in told(at)
        at.button(key="scratch_go").click().run()
        assert not at.exception
        for words in (found.expected, found.happened, experiment.why, experiment.instead, f"`{experiment.path}`"):
            assert words in told(at)
        for figure in found.figures:
            assert f"| {figure.label} | {figure.expected} | **{figure.got}** |" in told(at)
        if experiment is not EXPERIMENTS[-1]:
            at.button(key="scratch_next").click().run()
    assert at.button(key="scratch_next").disabled


def test_back_shows_what_was_run(at: AppTest) -> None:
    assert at.button(key="scratch_back").disabled
    at.button(key="scratch_go").click().run()
    at.button(key="scratch_next").click().run()
    assert EXPERIMENTS[0].run().happened not in told(at)
    at.button(key="scratch_back").click().run()
    assert EXPERIMENTS[0].run().happened in told(at)


def test_the_code_on_the_page_is_what_runs(at: AppTest) -> None:
    whole, lines = (element.value for element in at.code)
    assert "class NaiveScheduler:" in whole
    for line in lines.splitlines():
        assert line in whole


@pytest.mark.parametrize("index", range(len(STAGES)))
def test_every_stage_of_growth_is_shown_with_its_figures(index: int, at: AppTest) -> None:
    before = stages(at)[0]["command"]["id"]
    at.segmented_control(key="scratch_stages").set_value(index).run()
    assert not at.exception
    assert stages(at)[0]["run"]["ticks"] == len(stage_run(index).records)
    assert STAGES[index].text in told(at)
    assert all(f"`{path}`: " in told(at) for path in STAGES[index].paths)
    assert stages(at)[0]["command"]["id"] >= before


@pytest.mark.parametrize("name", FAULTS)
def test_a_law_turns_red_when_the_stage_has_come_to_its_tick(name: str, at: AppTest) -> None:
    at.segmented_control(key="museum_choice").set_value(name).run()
    at.button(key="museum_on").click().run()
    assert not at.exception
    found = law_break(exhibit(name, is_on=True))
    assert found is not None
    assert museum_stage(at)["run"]["ticks"] == found.tick + 1
    assert museum_stage(at)["command"]["play"]
    assert "It holds so far" in told(at)
    assert "A law broke" not in told(at)
    last_tick(at, "museum_stage", found.tick)
    assert f"A law broke at tick {found.tick}" in told(at)
    assert FAULTS[name].law.text in told(at)
    assert f"But {found.detail}." in told(at)
    assert all(sentence in told(at) for _, sentence in found.led_to_it)


@pytest.mark.parametrize("name", FAULTS)
def test_without_the_mistake_the_law_holds(name: str, at: AppTest) -> None:
    at.segmented_control(key="museum_choice").set_value(name).run()
    assert at.button(key="museum_off").disabled
    at.button(key="museum_on").click().run()
    at.button(key="museum_off").click().run()
    ticks = len(exhibit(name, is_on=False).records)
    assert museum_stage(at)["run"]["ticks"] == ticks
    at.button(key="museum_end").click().run()
    assert museum_stage(at)["command"]["tick"] == ticks - 1
    assert f"The law held in all {ticks} ticks." in told(at)
    assert "A law broke" not in told(at)


def test_another_mistake_waits_to_be_started(at: AppTest) -> None:
    at.button(key="museum_on").click().run()
    assert len(stages(at)) == 2
    at.segmented_control(key="museum_choice").set_value(list(FAULTS)[1]).run()
    assert len(stages(at)) == 1
    assert at.button(key="museum_off").disabled


def test_what_was_run_outlives_a_visit_to_another_page(at: AppTest) -> None:
    at.button(key="scratch_go").click().run()
    at.button(key="museum_on").click().run()
    at.switch_page("pages/compare.py").run()
    at.switch_page("pages/from_scratch.py").run()
    assert not at.exception
    assert EXPERIMENTS[0].run().happened in told(at)
    assert len(stages(at)) == 1


def test_garbage_in_the_address_does_no_harm() -> None:
    assert_drawn(open_page("from_scratch", tick="-1e9", scenario="<b>", scratch_step="x"))

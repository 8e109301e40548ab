"""Every page with every scenario and every panel, stepped to the end and back as the stage in the browser does it."""

from __future__ import annotations

import pytest
from streamlit.testing.v1 import AppTest

from pages.components.compare import STAGES as COMPARE_STAGES
from pages.components.frame import PAGES
from pages.components.from_scratch_museum import STAGE as MUSEUM_STAGE
from pages.components.from_scratch_real import STAGE as GROWTH_STAGE
from pages.components.lesson import STAGE as LESSON_STAGE
from pages.components.play_state import PANELS
from pages.components.runs import scenario_names
from pages.components.scale_out import STAGES as SCALE_OUT_STAGES
from pages.components.visit import STAGE as PLAYGROUND_STAGE
from scheduler_core.faults import FAULTS
from scheduler_core.lesson import list_lessons
from tests.pages.helpers import ROOT, open_home, open_page, open_playground, stage_data

#: Each page with the keys of its stages; a new page has to be entered here, and is then walked.
STAGES: dict[str, tuple[str, ...]] = {
    "app.py": ("home_stage",),
    "pages/playground.py": (PLAYGROUND_STAGE,),
    **{f"pages/{name}.py": (LESSON_STAGE,) for name in list_lessons()},
    "pages/from_scratch.py": (GROWTH_STAGE, MUSEUM_STAGE),
    "pages/compare.py": COMPARE_STAGES,
    "pages/workloads.py": (),
    "pages/scale_out.py": SCALE_OUT_STAGES[:3],
    "pages/operations.py": (),
    "pages/glossary.py": (),
}


def ticks_of(at: AppTest, stops: int) -> list[int]:
    """So many ticks from the first to the last, evenly."""
    last = int(stage_data(at)["run"]["ticks"]) - 1
    return [round(last * stop / (stops - 1)) for stop in range(stops)]


def go(at: AppTest, key: str, tick: int, selected: str | None = None) -> None:
    """What the stage says when its user has come to a tick."""
    at.session_state[key] = {"view": {"tick": tick, "selected": selected, "playing": False}}
    at.run()
    assert_sound(at)


def assert_sound(at: AppTest) -> None:
    assert not at.exception, at.exception
    assert not at.error, [message.value for message in at.error]
    assert at.title


def told(at: AppTest) -> list[str]:
    """All text on the page, and how much stands in its tables."""
    texts = [element.value for kind in (at.title, at.header, at.subheader, at.markdown, at.caption) for element in kind]
    return [*texts, *(str(table.value.shape) for table in at.dataframe)]


def test_every_page_of_the_app_is_walked_here():
    assert set(STAGES) == {entry.path for entry in PAGES}
    assert {f"pages/{path.name}" for path in (ROOT / "pages").glob("*.py")} - {"pages/__init__.py"} <= set(STAGES)


@pytest.mark.parametrize("name", scenario_names())
def test_the_playground_shows_every_panel_forwards_and_back(name: str):
    at = open_playground(scenario=name)
    assert_sound(at)
    requests = [facts["id"] for facts in stage_data(at)["run"]["requests"]]
    stops = [
        (tick, PANELS[place % len(PANELS)], requests[place % len(requests)])
        for place, tick in enumerate(ticks_of(at, 2 * len(PANELS)))
    ]
    seen: list[list[str]] = []
    for tick, panel, request in stops:
        at.session_state["play"].panel = panel
        go(at, PLAYGROUND_STAGE, tick, request)
        assert (at.session_state["play"].tick, at.session_state["play"].selected) == (tick, request)
        seen.append(told(at))
    for (tick, panel, request), before in zip(reversed(stops), reversed(seen), strict=True):
        at.session_state["play"].panel = panel
        go(at, PLAYGROUND_STAGE, tick, request)
        assert told(at) == before, (tick, panel, request)


@pytest.mark.parametrize("name", scenario_names())
def test_a_comparison_shows_every_scenario_forwards_and_back(name: str):
    at = open_page("compare", scenario=name, r_quantum="2")
    assert_sound(at)
    ticks = ticks_of(at, 3)
    for tick in (*ticks, *reversed(ticks)):
        go(at, COMPARE_STAGES[tick % 2], tick)


@pytest.mark.parametrize("name", list_lessons())
def test_a_lesson_lets_its_stage_go_forwards_and_back(name: str):
    at = open_page(name, step="3")
    ticks = ticks_of(at, 4)
    texts = []
    for tick in (*ticks, *reversed(ticks)):
        go(at, LESSON_STAGE, tick)
        texts.append(told(at))
    assert all(text == texts[0] for text in texts), "the step's text does not hang on where the stage stands"


def test_home_goes_forwards_and_back():
    at = open_home()
    ticks = ticks_of(at, 5)
    for tick in (*ticks, *reversed(ticks)):
        go(at, "home_stage", tick)


def test_from_scratch_goes_forwards_and_back_with_every_mistake():
    at = open_page("from_scratch")
    for tick in (3, 0):
        go(at, GROWTH_STAGE, tick)
    for name in FAULTS:
        at.button_group(key="museum_choice").set_value(name).run()
        at.button(key="museum_on").click().run()
        for tick in (10_000, 0):
            go(at, MUSEUM_STAGE, tick)


def test_the_glossary_is_drawn():
    assert_sound(open_page("glossary"))

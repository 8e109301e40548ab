"""A link brings back all of an instant; a damaged one brings messages and a page that works."""

from __future__ import annotations

import json
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from streamlit.testing.v1 import AppTest

from pages.components.compare_pairs import PAIRS
from pages.components.compare_state import MAX_ADDED, CompareState, WhatIf, from_address
from pages.components.compare_state import to_query as compare_query
from pages.components.copy_link import MAX_LINK
from pages.components.fields import FIELDS, PAGE_BOUNDS
from pages.components.link import from_query, to_address
from pages.components.own_requests import MAX_ARRIVAL, MAX_CLASS, OwnRequest, pack
from pages.components.play_state import BACKENDS, CURVES, IMPORTED, OWN, PANELS, PlayState
from scheduler_core.config import CHOICES, FIELD_NAMES, FLAGS, PRESETS
from scheduler_core.cost_model import MACHINES
from scheduler_core.sensitivity import FIGURES
from scheduler_core.workload import list_scenarios
from tests.pages.helpers import assert_drawn, component, everything_said, open_page, open_playground, stage_data, state

SCENARIOS = list_scenarios()
DEFAULT = "time_slices"
SHARED = ("seed", "cost")

ids = st.from_regex(r"[A-Za-z0-9][\w.-]{0,15}", fullmatch=True)
texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40)
own_requests = st.lists(
    st.builds(
        OwnRequest, ids, texts, st.integers(1, 256), st.integers(0, MAX_CLASS), st.integers(0, MAX_ARRIVAL), texts
    ),
    min_size=1,
    max_size=4,
).map(tuple)


def value_of(name: str) -> st.SearchStrategy[object]:
    if name in FLAGS:
        return st.booleans()
    if name in CHOICES:
        return st.sampled_from(CHOICES[name])
    if name == "cost":
        return st.sampled_from(sorted(MACHINES))
    number = st.integers(*PAGE_BOUNDS[name])
    return number | st.none() if name in ("quantum", "chunk_size") else number


def overrides(names: tuple[str, ...] = FIELD_NAMES) -> st.SearchStrategy[dict[str, object]]:
    return st.fixed_dictionaries({}, optional={name: value_of(name) for name in names})


def curves() -> st.SearchStrategy[dict[str, str]]:
    others = {name: st.sampled_from([f for f in FIGURES if f != usual]) for name, usual in CURVES.items()}
    return st.fixed_dictionaries({}, optional=others)


@st.composite
def play_states(draw: st.DrawFn) -> PlayState:
    scenario = draw(st.sampled_from([*SCENARIOS, OWN]))
    return PlayState(
        scenario,
        draw(st.sampled_from(BACKENDS)),
        draw(st.sampled_from(["", *PRESETS])),
        draw(overrides()),
        draw(st.integers(0, 5_000)),
        draw(st.just("") | ids),
        draw(st.sampled_from(PANELS)),
        draw(st.integers(0, 1023)),
        draw(own_requests) if scenario == OWN else (),
        draw(curves()),
    )


@given(play_states())
def test_every_part_of_an_instant_survives_its_link(state: PlayState):
    address = to_address(state, DEFAULT)
    assert from_query(dict(parse_qsl(address)), SCENARIOS, DEFAULT) == (state, [])


@st.composite
def comparisons(draw: st.DrawFn) -> CompareState:
    scenario = draw(st.sampled_from([*SCENARIOS, OWN]))
    requests = draw(own_requests) if scenario == OWN else ()
    settable = tuple(name for name in FIELD_NAMES if name not in SHARED)

    def side() -> PlayState:
        preset = draw(st.sampled_from(["", *PRESETS]))
        return PlayState(scenario, preset=preset, overrides=draw(overrides(settable)), requests=requests)

    fork = st.builds(
        WhatIf,
        st.integers(0, 5_000),
        st.lists(own_requests.map(lambda made: made[0]), max_size=MAX_ADDED).map(tuple),
        st.lists(ids, max_size=3).map(tuple),
    )
    first, second = side(), side()
    first.backend = draw(st.sampled_from(BACKENDS[:2]))
    what_if = draw(st.none() | fork)
    selected, tick = draw(st.just("") | ids), draw(st.integers(0, 5_000))
    return CompareState(first, second, draw(st.booleans()), what_if, tick, selected)


@settings(max_examples=60)
@given(comparisons())
def test_both_sides_fork_and_tick_survive_their_link(state: CompareState):
    address = urlencode(compare_query(state) | {"tick": str(state.tick)})
    back, messages = from_address(dict(parse_qsl(address)), SCENARIOS)
    assert messages == []
    assert back == state


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("swapped", [False, True])
def test_a_pair_travels_by_its_name(pair: str, swapped: bool):
    state = CompareState(PlayState("first_steps"), PlayState("first_steps"))
    state.take(pair)
    state.swapped = swapped
    back, messages = from_address(compare_query(state), SCENARIOS)
    assert (back, messages) == (state, [])


def test_a_link_of_ordinary_requests_is_short():
    mine = tuple(OwnRequest(f"R{n}", f"Tell me about the {n} things that matter most.") for n in range(8))
    assert len(to_address(PlayState(OWN, requests=mine), DEFAULT)) < 400
    assert MAX_LINK > 2_000


PLAYGROUND_PARTS = (
    "scenario",
    "backend",
    "preset",
    "tick",
    "panel",
    "block",
    "requests",
    "curve_quantum",
    *FIELD_NAMES,
)


@pytest.mark.parametrize("part", PLAYGROUND_PARTS)
@pytest.mark.parametrize("value", ["<img src=x>", "-7", "9" * 60, "\x00\ud800", "%%%", ""])
def test_a_hostile_value_of_any_part_is_told_or_clamped(part: str, value: str):
    state, messages = from_query({part: value}, SCENARIOS, DEFAULT)
    usual, _ = from_query({}, SCENARIOS, DEFAULT)
    taken = state != usual
    assert messages or taken or value == ""
    assert all("\x00" not in message for message in messages)
    for name, chosen in state.overrides.items():
        if name in PAGE_BOUNDS and chosen is not None:
            assert PAGE_BOUNDS[name][0] <= chosen <= PAGE_BOUNDS[name][1]


COMPARE_PARTS = (
    "pair",
    "scenario",
    "backend",
    "requests",
    "swap",
    "tick",
    "at&add",
    "a_preset",
    "b_quantum",
    "a_policy",
)


@pytest.mark.parametrize("part", COMPARE_PARTS)
@pytest.mark.parametrize("value", ["<img src=x>", "-7", "9" * 120])
def test_a_hostile_value_of_any_part_of_a_comparison_is_told(part: str, value: str):
    _, messages = from_address(dict.fromkeys(part.split("&"), value), SCENARIOS)
    assert messages


def test_what_stands_beside_a_pair_is_told():
    _, messages = from_address({"pair": "chunked", "a_quantum": "3", "at": "4"}, SCENARIOS)
    assert len(messages) == 2
    assert all("names a pair" in message for message in messages)


def test_a_request_added_to_no_fork_is_told():
    _, messages = from_address({"scenario": "first_steps", "abort": "R1"}, SCENARIOS)
    assert "no fork" in messages[0]


def test_more_added_requests_than_a_fork_takes_are_told():
    crowd = pack([OwnRequest(f"A{n}", "hi") for n in range(MAX_ADDED + 3)])
    state, messages = from_address({"scenario": "first_steps", "at": "3", "add": crowd}, SCENARIOS)
    assert state.what_if is not None
    assert len(state.what_if.add) == MAX_ADDED
    assert f"first {MAX_ADDED} are taken" in messages[0]


def test_a_link_to_a_run_from_a_file_asks_for_the_file():
    at = open_playground(scenario=IMPORTED, tick="3")
    assert_drawn(at)
    assert "does not travel in a link" in at.warning[0].value
    assert state(at).scenario == DEFAULT


@pytest.mark.parametrize("name", sorted(FIELDS))
def test_the_page_stands_whatever_a_setting_says(name: str):
    at = open_playground(**{name: "-999999999999999999999"})
    assert_drawn(at)
    assert at.warning


def test_a_link_to_a_fork_opens_the_fork():
    added = pack([OwnRequest("X1", "Tell me a joke.", 8)])
    asked = {"scenario": "first_steps", "add": added}
    at = open_page("compare", **asked, at="7", abort="R2", b_quantum="1", tick="9")
    assert not at.exception
    fork = at.session_state["compare"].what_if
    assert (fork.at, [r.id for r in fork.add], fork.abort) == (7, ["X1"], ("R2",))
    assert at.session_state["compare"].tick == 9
    assert "X1" in [request["id"] for request in stage_data_of(at, 1)["requests"]]
    assert "X1" not in [request["id"] for request in stage_data(at)["run"]["requests"]]
    assert "damaged" not in everything_said(at)
    copied = dict(parse_qsl(urlsplit(component(at, "tickscope_copy")["text"]).query))
    assert copied == {**asked, "at": "7", "abort": "R2", "b_quantum": "1", "tick": "9"}


def stage_data_of(at: AppTest, place: int) -> dict[str, list[dict[str, str]]]:
    found = [e for e in at.get("bidi_component") if e.proto.component_name == "tickscope.stage"]
    run: dict[str, list[dict[str, str]]] = json.loads(found[place].proto.json)["run"]
    return run

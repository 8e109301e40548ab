"""The address of the playground."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pages.components.link import from_query, to_query
from pages.components.own_requests import OwnRequest, pack
from pages.components.play_state import OWN, PlayState
from scheduler_core.config import FIELD_NAMES, EngineConfig
from scheduler_core.errors import ConfigError

SCENARIOS = ("first_steps", "time_slices")
DEFAULT = "time_slices"


def read(**query: str) -> tuple[PlayState, list[str]]:
    return from_query(query, SCENARIOS, DEFAULT)


def test_the_default_state_has_an_empty_address():
    assert to_query(PlayState(DEFAULT), DEFAULT) == {}


def test_a_state_survives_its_address():
    state = PlayState(
        "first_steps",
        backend="synthetic",
        preset="vllm",
        overrides={"quantum": None, "chunk_size": 7, "enable_prefix_caching": False, "policy": "mlfq"},
        selected="R3",
        panel="Charts",
        predict=True,
    )
    assert from_query(to_query(state, DEFAULT), SCENARIOS, DEFAULT) == (state, [])


def test_own_requests_travel_in_the_address():
    mine = (OwnRequest("R1", 'Grüße, <b>\n"Welt"', 12, 1, 3), OwnRequest("B", "x" * 500, system="Be short."))
    state = PlayState(OWN, requests=mine)
    back, messages = from_query(to_query(state, DEFAULT), SCENARIOS, DEFAULT)
    assert back.requests == mine
    assert messages == []


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ({"quantum": "abc"}, "quantum"),
        ({"quantum": "0"}, "from 1 to 1000"),
        ({"max_num_seqs": "999999999999999999999"}, "from 1 to 64"),
        ({"chunk_size": "-5"}, "from 1 to 4096"),
        ({"policy": "<script>"}, "one of fcfs"),
        ({"enable_prefix_caching": "maybe"}, "true or false"),
        ({"cost": "moon"}, "cost"),
        ({"predict": "perhaps"}, "on or off"),
        ({"tick": "-3"}, "start at 0"),
        ({"tick": "1e9"}, "no tick"),
        ({"tick": "٣"}, "no tick"),
        ({"scenario": "../../etc/passwd"}, "first_steps"),
        ({"backend": "quantum computer"}, "recorded"),
        ({"preset": "nope"}, "tickscope"),
        ({"panel": "Nothing"}, "Why?"),
        ({"requests": "!!!"}, "damaged"),
        ({"requests": pack(())[:-3]}, "damaged"),
        ({"surprise": "1"}, "means nothing"),
    ],
)
def test_garbage_is_told_and_left_out(query: dict[str, str], said: str):
    state, messages = read(**query)
    assert len(messages) == 1
    assert said in messages[0]
    state.config(EngineConfig())


def test_a_number_past_its_bound_is_moved_to_the_bound():
    state, messages = read(num_blocks="5000000")
    assert state.overrides == {"num_blocks": 1024}
    assert "1024" in messages[0]


def test_off_switches_a_slice_off():
    assert read(quantum="off")[0].overrides == {"quantum": None}


def test_a_huge_tick_is_cut():
    assert read(tick="9" * 30)[0].tick == 10_000_000


def test_a_bomb_of_packed_requests_is_refused():
    bomb = pack([OwnRequest("R1", "a" * 5_000_000)])
    assert len(bomb) < 20_000
    state, messages = read(requests=bomb, scenario=OWN)
    assert state.requests == ()
    assert "damaged" in messages[0]


names = st.sampled_from(["scenario", "backend", "preset", "tick", "selected", "panel", "requests", *FIELD_NAMES])


@given(st.dictionaries(names, st.text(max_size=30) | st.integers().map(str) | st.sampled_from(["off", "on", "swap"])))
def test_no_address_breaks_the_page(query: dict[str, str]):
    state, messages = from_query(query, SCENARIOS, DEFAULT)
    assert all(isinstance(message, str) and message for message in messages)
    assert state.scenario in (*SCENARIOS, OWN)
    with contextlib.suppress(ConfigError):
        state.config(EngineConfig())

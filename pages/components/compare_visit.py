"""A visitor's comparison over pages and reloads, and the one playhead of its two stages."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from pages.components.compare_state import CompareState, default_state, from_address, to_query
from pages.components.play_state import PlayState
from pages.components.runs import known_scenarios
from pages.components.visit import show_address

PATH = "/compare"
#: The keys of the two stages, left and right as on screen.
STAGES = ("compare_left", "compare_right")


def enter(fresh: bool) -> CompareState:
    """The state of this visit. On entry (`fresh`) an address that says something wins over what was compared before."""
    query = st.query_params.to_dict() if fresh else {}
    if query:
        st.session_state["compare"], st.session_state["compare_messages"] = from_address(query, known_scenarios())
    state = st.session_state.setdefault("compare", default_state())
    assert isinstance(state, CompareState)
    if fresh:
        _bring_own_requests(state)
        seek(state)
    return state


def _bring_own_requests(state: CompareState) -> None:
    """What was written on the playground can be compared too."""
    play = st.session_state.get("play")
    if not state.first.requests and isinstance(play, PlayState):
        state.first.requests = play.requests


def messages() -> Sequence[str]:
    """What could not be taken from the address as it stood."""
    told: Sequence[str] = st.session_state.get("compare_messages", ())
    return told


def forget_messages() -> None:
    st.session_state["compare_messages"] = []


def tell(message: str) -> None:
    st.session_state["compare_messages"] = [*messages(), message]


def seek(state: CompareState) -> None:
    """Ask both stages to go to the state's tick and selection, once; call it before they are drawn."""
    st.session_state["compare_command"] = command() + 1
    # What they said before is out of date; without this it would be taken for an answer.
    view = {"tick": state.tick, "selected": state.selected or None, "playing": False}
    for key in STAGES:
        st.session_state[key] = {"view": view}


def command() -> int:
    """The number of the latest command to the stages; it only grows."""
    return int(st.session_state.get("compare_command", 0))


def hear(state: CompareState, key: str) -> None:
    """Take over where the stage that drives stands; the other one follows it in the browser and says nothing."""
    view = (st.session_state.get(key) or {}).get("view") or {}
    if isinstance(view.get("tick"), int):
        state.tick = max(0, view["tick"])
        state.selected = str(view.get("selected") or "")


def write_address(state: CompareState) -> None:
    show_address(to_query(state), PATH, state.tick, command())

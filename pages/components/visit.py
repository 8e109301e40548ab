"""A visitor's state over pages and reloads: from the address on entry, from the session afterwards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import urlencode

import streamlit as st

from pages.components.frame import asset
from pages.components.link import from_query, to_query
from pages.components.play_state import BACKENDS, IMPORTED, PlayState
from pages.components.player import forget_words, news
from pages.components.runs import DEFAULT_SCENARIO, known_scenarios
from pages.components.teach_state import teach_query

#: The key of the stage on the playground.
STAGE = "stage"

_address = st.components.v2.component("tickscope_address", js=asset("address.js"))


def enter(fresh: bool) -> PlayState:
    """The state of this visit. On entry (`fresh`) an address that says something wins over what was chosen before."""
    query = st.query_params.to_dict() if fresh else {}
    if "play" not in st.session_state or query:
        state, messages = from_query(query, known_scenarios(), DEFAULT_SCENARIO)
        if not state.requests and "play" in st.session_state:
            state.requests = st.session_state["play"].requests
        if state.scenario == IMPORTED:
            # The tokens are those of the file; no others are known for its requests.
            state.backend = BACKENDS[0]
        st.session_state["play"] = state
        st.session_state["link_messages"] = messages
        st.session_state["by_link"] = True
    state = st.session_state["play"]
    assert isinstance(state, PlayState)
    if fresh:
        forget_words(STAGE)
        seek(state)
    return state


def seek(state: PlayState, *, play: bool = False) -> None:
    """Ask the stage to go to the state's tick and selection, once; call it before the stage is drawn."""
    st.session_state["cmd_id"] = command() + 1
    st.session_state["cmd_play"] = play
    # What the stage said before is out of date; without this it would be taken for an answer.
    view = {"tick": state.tick, "selected": state.selected or None, "playing": False}
    st.session_state[STAGE] = {"view": view}


def hear(state: PlayState) -> None:
    """Take over the tick at which the stage says that it stands, before anything of the page is drawn."""
    if (view := news(STAGE)) is not None:
        state.tick = max(0, view["tick"])


def command() -> int:
    """The number of the latest command to the stage; it only grows."""
    return int(st.session_state.get("cmd_id", 0))


def wants_play() -> bool:
    """Whether the latest command to the stage is to play on from where it goes."""
    return bool(st.session_state.get("cmd_play"))


def link_messages() -> Sequence[str]:
    """What could not be taken from the address as it stood."""
    messages: Sequence[str] = st.session_state.get("link_messages", ())
    return messages


def forget_link_messages() -> None:
    st.session_state["link_messages"] = []


def write_address(state: PlayState, path: str) -> None:
    """Show the state in the address bar of the page at `path`."""
    show_address(to_query(state, DEFAULT_SCENARIO), path, state.tick, command())


def show_address(query: Mapping[str, str], path: str, tick: int, command_id: int) -> None:
    """Show a query in the address bar of the page at `path`; the tick only where a new command went to the stage."""
    # The number makes every run of the page a new message: a link to the page itself empties the address.
    st.session_state["runs"] = st.session_state.get("runs", 0) + 1
    data = {
        "query": urlencode(dict(query) | teach_query()),
        "path": path,
        "run": st.session_state["runs"],
        "tick": tick,
        "command": command_id,
    }
    _address(key="address", data=data)

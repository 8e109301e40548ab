"""The head of the playground: its title, and what runs where, as pills."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from pages.components.drop import drop_area
from pages.components.live import how_to_get_the_model
from pages.components.plain import plain
from pages.components.play_state import BACKENDS, IMPORTED, OWN, PlayState
from pages.components.predict_card import predict_pill
from pages.components.runs import OWN_TITLE, known_scenarios, recording_path, scenario_named
from pages.components.teach_bar import teach_messages, teach_pill
from pages.components.teach_state import is_shown, teach

BACKEND_WORDS: dict[str, str] = {
    "recorded": "Tokens of the real model, recorded. Every setting acts at once.",
    "synthetic": "Made-up tokens. No model is needed, and every setting acts at once.",
    "live": "The real model computes now, on this server.",
}
_FROM_FILE = "The tokens in the file. Every setting acts at once, as far as they reach."
_DOTS = {"recorded": ":green[●]", "synthetic": ":gray[●]", "live": ":blue[●]"}


def header(
    state: PlayState,
    made_by: str,
    num_requests: int,
    *,
    on_scenario: Callable[[], None],
    on_backend: Callable[[], None],
    on_requests: Callable[[], None],
) -> DeltaGenerator | None:
    """Draw title and pills; `made_by` says what made the tokens on the stage.

    Gives the place for the settings in the teacher view, where there is no sidebar; None where they stand in it.
    """
    place = None
    with st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center", key="head"):
        st.title(_title(state), anchor=False, width="content")
        with st.container(horizontal=True, horizontal_alignment="right", gap="small", width="content", key="pills"):
            if is_shown("choices"):
                _scenario(state, on_scenario, on_requests)
                _backend(state, made_by, on_backend)
                st.button(f"Requests  **{num_requests}**", key="edit_requests", on_click=on_requests)
            if teach() is not None:
                place = st.container(key="teach_settings", width="content")
            predict_pill(state)
            teach_pill()
    teach_messages()
    return place


def _title(state: PlayState) -> str:
    """The page's name; in the teacher view, where there is no subtitle, what runs."""
    if teach() is None:
        return "Playground"
    return _scenario_title(state.scenario)


def _scenario_title(name: str) -> str:
    return OWN_TITLE if name == OWN else plain(scenario_named(name).title)


def subtitle(state: PlayState) -> None:
    """What the scenario is about, and what to look for; not in the teacher view."""
    if teach() is not None:
        return
    if state.scenario == OWN:
        st.markdown(":gray[What you wrote, under the settings you choose.]")
        return
    scenario = scenario_named(state.scenario)
    hints = "\n".join(f"- {plain(hint)}" for hint in scenario.look_for)
    st.markdown(f":gray[{plain(scenario.description)}]", help=f"**Look for**\n\n{hints}" if hints else None)


def _scenario(state: PlayState, on_change: Callable[[], None], on_requests: Callable[[], None]) -> None:
    titles = {name: _scenario_title(name) for name in (*known_scenarios(), OWN)}

    def close() -> None:
        st.session_state["pop_scenario"] = False

    def choose() -> None:
        close()
        chosen = st.session_state["set_scenario"]
        if chosen == OWN and not state.requests:
            on_requests()
            return
        state.scenario = chosen
        on_change()

    if st.session_state.get("set_scenario") != state.scenario:
        st.session_state["set_scenario"] = state.scenario
    shown = "your own" if state.scenario == OWN else plain(state.scenario)
    with st.popover(f"Scenario  **{shown}**", key="pop_scenario", on_change="rerun"):
        st.radio(
            "Scenario",
            list(titles),
            format_func=lambda name: titles[name],
            captions=["" if name == OWN else plain(scenario_named(name).description) for name in titles],
            key="set_scenario",
            on_change=choose,
            label_visibility="collapsed",
        )
        drop_area(state, "scenario", on_taken=close)


def _backend(state: PlayState, made_by: str, on_change: Callable[[], None]) -> None:
    def choose() -> None:
        state.backend = st.session_state["set_backend"]
        st.session_state["pop_backend"] = False
        on_change()

    if st.session_state.get("set_backend") != state.backend:
        st.session_state["set_backend"] = state.backend
    choices = BACKENDS[:1] if state.scenario == IMPORTED else BACKENDS
    with st.popover(f"{_DOTS[state.backend]} {plain(made_by)}", key="pop_backend", on_change="rerun"):
        st.radio(
            "Tokens come from",
            choices,
            format_func=str.capitalize,
            captions=[BACKEND_WORDS[backend] if len(choices) > 1 else _FROM_FILE for backend in choices],
            key="set_backend",
            on_change=choose,
            label_visibility="collapsed",
        )
        if state.scenario == IMPORTED:
            return
        ready = how_to_get_the_model()
        st.caption(plain(ready.text))
        if ready.remedy:
            st.code(ready.remedy, language=None)
        if state.scenario != OWN and not recording_path(state.scenario).exists():
            st.caption("This scenario was not recorded here, so recorded shows made-up tokens.")

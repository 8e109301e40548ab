"""The head of the comparison: its title, the pair, the workload and the tokens as pills, and the swap."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from pages.components.compare_pairs import PAIRS
from pages.components.compare_state import COMPUTED, CompareState
from pages.components.header import BACKEND_WORDS
from pages.components.plain import plain
from pages.components.play_state import OWN
from pages.components.runs import OWN_TITLE, known_scenarios, scenario_named
from pages.components.teach_bar import teach_messages, teach_pill
from pages.components.teach_state import is_shown, teach

FREE = "free"


def head(state: CompareState, on_change: Callable[[], None]) -> None:
    """Draw title and pills; each choice is written to `state`, then `on_change` is called."""
    with st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center", key="head"):
        st.title("Compare", anchor=False, width="content")
        with st.container(horizontal=True, horizontal_alignment="right", gap="small", width="content", key="pills"):
            if is_shown("choices"):
                _pair(state, on_change)
                _scenario(state, on_change)
                _tokens(state, on_change)
                st.button("⇄ Swap sides", key="swap_sides", on_click=_swap, args=(state, on_change))
            teach_pill()
    teach_messages()
    if teach() is None:
        st.markdown(f":gray[{plain(_subtitle(state))}]")


def _subtitle(state: CompareState) -> str:
    if key := state.pair:
        return PAIRS[key].look_for
    if state.what_if is not None:
        return "The same run twice: as it was, and as it would be with a change made on the way."
    return "The same requests under two settings, with the same seed and the same clock."


def _swap(state: CompareState, on_change: Callable[[], None]) -> None:
    state.swapped = not state.swapped
    on_change()


def _pair(state: CompareState, on_change: Callable[[], None]) -> None:
    def choose() -> None:
        st.session_state["pop_pair"] = False
        if st.session_state["set_pair"] != FREE:
            state.take(st.session_state["set_pair"])
        on_change()

    shown = state.pair or FREE
    title = PAIRS[state.pair].title if state.pair else "free"
    with st.popover(f"Pair  **{plain(title)}**", key="pop_pair", on_change="rerun"):
        names = [*PAIRS, *([FREE] if shown == FREE else [])]
        if st.session_state.get("pop_pair"):
            _show("set_pair", shown)
            st.radio(
                "Pair",
                names,
                format_func=lambda key: "Your own settings" if key == FREE else plain(PAIRS[key].title),
                captions=["" if key == FREE else plain(PAIRS[key].look_for) for key in names],
                key="set_pair",
                on_change=choose,
                label_visibility="collapsed",
            )


def _scenario(state: CompareState, on_change: Callable[[], None]) -> None:
    def choose() -> None:
        st.session_state["pop_compare_scenario"] = False
        state.take_scenario(st.session_state["set_compare_scenario"])
        on_change()

    names = [*known_scenarios(), *([OWN] if state.first.requests else [])]
    shown = "your own" if state.first.scenario == OWN else plain(state.first.scenario)
    with st.popover(f"Scenario  **{shown}**", key="pop_compare_scenario", on_change="rerun"):
        if st.session_state.get("pop_compare_scenario"):
            titles = {name: OWN_TITLE if name == OWN else plain(scenario_named(name).title) for name in names}
            _show("set_compare_scenario", state.first.scenario)
            st.radio(
                "Scenario",
                names,
                format_func=lambda name: titles[name],
                captions=["" if name == OWN else plain(scenario_named(name).description) for name in names],
                key="set_compare_scenario",
                on_change=choose,
                label_visibility="collapsed",
            )


def _tokens(state: CompareState, on_change: Callable[[], None]) -> None:
    def choose() -> None:
        st.session_state["pop_compare_backend"] = False
        state.first.backend = st.session_state["set_compare_backend"]
        on_change()

    with st.popover(f"Tokens  **{state.first.backend}**", key="pop_compare_backend", on_change="rerun"):
        if st.session_state.get("pop_compare_backend"):
            _show("set_compare_backend", state.first.backend)
            st.radio(
                "Tokens come from",
                COMPUTED,
                format_func=str.capitalize,
                captions=[BACKEND_WORDS[backend] for backend in COMPUTED],
                key="set_compare_backend",
                on_change=choose,
                label_visibility="collapsed",
            )


def _show(key: str, value: str) -> None:
    """Let a widget show a value. Widgets of a popover are drawn only while it is open, and told their value then:
    what is mounted later than it is drawn shows its default.
    """
    if st.session_state.get(key) != value:
        st.session_state[key] = value

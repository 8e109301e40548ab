"""What if, from here: the second side forks the first at a tick, with other settings, a request more or one less."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import streamlit as st

from pages.components.compare_runs import Both
from pages.components.compare_sides import LONGEST_NAME
from pages.components.compare_state import COMPUTED, MAX_ADDED, CompareState, WhatIf, to_query
from pages.components.own_requests import OwnRequest, free_id, request_problems
from pages.components.plain import plain, visible
from pages.components.play_state import OWN, PlayState
from pages.components.runs import own_scenario, scenario_named
from pages.components.settings import limits
from scheduler_core.backends.patched_replay import made_up
from scheduler_core.trace import Trace
from scheduler_core.words import names
from scheduler_core.workload import Scenario

PAGE = "pages/compare.py"
OWN_WORDS = "Something else"


def ask(state: PlayState, *, is_ready: bool) -> None:
    """Offer on the playground to change the course of the run at the tick shown."""
    told = "Change a setting, add a request or abort one at this tick, and compare both futures."
    if state.backend not in COMPUTED:
        told += " A live run is repeated for that from its first tick, on recorded tokens if there are any."
    if st.button("What if…", key="ask_what_if", disabled=not is_ready, help=told):
        st.switch_page(PAGE, query_params=_fork_of(state))


def _fork_of(state: PlayState) -> dict[str, str]:
    first = replace(state, backend=state.backend if state.backend in COMPUTED else COMPUTED[0])
    fork = CompareState(first, PlayState(state.scenario), what_if=WhatIf(state.tick))
    return to_query(fork) | {"tick": str(state.tick)}


def what_if(state: CompareState, result: Both, on_change: Callable[[], None]) -> None:
    """Draw what is changed in a what-if; nothing in a plain comparison."""
    fork = state.what_if
    if fork is None:
        return
    with st.container(border=True, key="what_if"):
        st.markdown(
            f"**What if, from tick {fork.at} on?** Up to there both runs are one. "
            "For the other future change its settings below, add a request, or abort one."
        )
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            # Where the fork cannot run, what stands is another run: there is only a way back.
            if result.is_current and result.runs is not None:
                first = result.runs[0].trace
                _at(fork, first, on_change)
                _add(state, fork, first, on_change)
                _abort(fork, first, on_change)
            for place, request in enumerate(fork.add):
                label = f"{plain(request.id[:LONGEST_NAME])} added ×"
                st.button(label, key=f"drop_{place}", on_click=_drop, args=(fork, place))
            st.button("Leave what-if", key="leave_what_if", on_click=_leave, args=(state, on_change), type="tertiary")


def _at(fork: WhatIf, trace: Trace, on_change: Callable[[], None]) -> None:
    def choose() -> None:
        fork.at = int(st.session_state["set_fork_at"])
        on_change()

    if st.session_state.get("set_fork_at") != fork.at:
        st.session_state["set_fork_at"] = fork.at
    st.number_input("From tick", 0, max(0, len(trace.records) - 1), key="set_fork_at", on_change=choose, width=132)


def _abort(fork: WhatIf, trace: Trace, on_change: Callable[[], None]) -> None:
    def choose() -> None:
        fork.abort = tuple(st.session_state["set_fork_abort"])
        on_change()

    if st.session_state.get("set_fork_abort") != list(fork.abort):
        st.session_state["set_fork_abort"] = list(fork.abort)
    st.multiselect(
        "Abort",
        [spec.id for spec in trace.requests],
        key="set_fork_abort",
        format_func=visible,
        on_change=choose,
        placeholder="nobody",
        width=220,
    )


def _add(state: CompareState, fork: WhatIf, trace: Trace, on_change: Callable[[], None]) -> None:
    """A request that asks what another asks gets its recorded answer; other words get made-up ones."""
    name = state.first.scenario
    scenario = own_scenario(state.first.requests) if name == OWN else scenario_named(name)
    with st.popover("Add a request", key="pop_add", disabled=len(fork.add) >= MAX_ADDED):
        like = st.selectbox(
            "It asks",
            [draft.id for draft in scenario.requests] + [OWN_WORDS],
            format_func=lambda name: name if name == OWN_WORDS else f"the same as {visible(name)}",
            key="add_like",
            filter_mode=None,
        )
        words = st.text_area("Its prompt", key="add_words", height=72) if like == OWN_WORDS else ""
        most = st.number_input("Max tokens", 1, limits().max_output_tokens, 12, key="add_tokens")
        level = st.number_input("Class", 0, 1000, 0, key="add_class", help="Lower is better.")
        request = _request(scenario, like, words or "", int(most), int(level), [*_taken(trace), *_ids(fork)])
        problems = request_problems(request, limits())
        for message in problems if like != OWN_WORDS or words else []:
            st.error(plain(message))
        st.button(
            f"Add it at tick {fork.at}",
            key="add_it",
            disabled=bool(problems),
            on_click=_take,
            args=(fork, request, on_change),
            type="primary",
        )


def _taken(trace: Trace) -> list[str]:
    return [spec.id for spec in trace.requests]


def _ids(fork: WhatIf) -> list[str]:
    return [request.id for request in fork.add]


def _request(scenario: Scenario, like: str, words: str, most: int, level: int, taken: list[str]) -> OwnRequest:
    name = free_id(["R0", *taken])
    draft = next((draft for draft in scenario.requests if draft.id == like), None)
    if draft is None:
        return OwnRequest(name, words, most, level)
    return OwnRequest(name, draft.prompt.strip(), most, level, system=draft.system or "")


def _take(fork: WhatIf, request: OwnRequest, on_change: Callable[[], None]) -> None:
    fork.add = (*fork.add, request)
    on_change()


def _drop(fork: WhatIf, place: int) -> None:
    fork.add = fork.add[:place] + fork.add[place + 1 :]


def _leave(state: CompareState, on_change: Callable[[], None]) -> None:
    state.what_if = None
    on_change()


def made_up_note(left: Trace, right: Trace) -> str:
    """Which answers no model computed, where the others are recorded; "" where that needs no word."""
    found = [name for trace in (left, right) for name in made_up(trace)]
    if not found:
        return ""
    who = names(list(dict.fromkeys(found)))
    return f"{who}: this answer was not recorded, so its text is made up; all others are the model's own words."

"""The comparison put together: head, both sides' settings, two stages with one playhead, and what it comes to."""

from __future__ import annotations

from functools import partial

import streamlit as st

from pages.components.compare_head import head
from pages.components.compare_runs import Both, Run, both
from pages.components.compare_sides import LEFT, RIGHT, ordered, side_name, sides
from pages.components.compare_state import CompareState, to_query
from pages.components.compare_tables import tables
from pages.components.compare_visit import (
    STAGES,
    command,
    enter,
    forget_messages,
    hear,
    messages,
    seek,
    tell,
    write_address,
)
from pages.components.compare_what_if import made_up_note, what_if
from pages.components.copy_link import copy_link, here
from pages.components.link import tick_from
from pages.components.plain import plain
from pages.components.play_state import IMPORTED
from pages.components.player import stage
from pages.components.settings import SettingsError, limits
from pages.components.teach_bar import follow, teach_dialogs
from pages.components.teach_state import is_shown, stage_teach
from scheduler_core.comparison import FirstDifference, first_difference, settings_changed, verdict
from scheduler_core.difference import why_no_difference
from scheduler_core.trace import Trace

#: The name under which the two stages find each other in the browser.
LINK = "compare"


def compare(fresh: bool) -> None:
    """Draw everything; `fresh` tells that the visitor has just come to the page."""
    try:
        limits()
    except SettingsError as problem:
        st.error(plain(str(problem)))
        return
    state = enter(fresh)
    result = both(state)
    if result.runs is not None:
        _clamp(state, result.runs)
    head(state, lambda: seek(state))
    _messages(result)
    if is_shown("settings"):
        what_if(state, result, lambda: seek(state))
    if result.runs is None:
        sides(state, lambda: None)
        return
    left, right = (run.trace for run in (result.runs[::-1] if state.swapped else result.runs))
    first = first_difference(left, right)
    _banner(state, left, right, first)
    sides(state, lambda: None)
    with st.container(key="compare_stages"):
        mark = None if first is None else first.tick
        st.fragment(_stages)(state, left, right, result.backend, mark, _address(state))
    if is_shown("panels"):
        tables(left, right)
    teach_dialogs(_address(state))


def _address(state: CompareState) -> str:
    """The address of what is shown."""
    return here(to_query(state), state.tick)


def _clamp(state: CompareState, runs: tuple[Run, Run]) -> None:
    """Bring tick and selection into the runs that stand."""
    last = max(0, *(len(run.trace.records) - 1 for run in runs))
    asked = state.tick
    state.tick, told = tick_from({"tick": str(asked)}, last)
    if told:
        tell(told[0])
        seek(state)
    if state.selected and not any(state.selected == spec.id for run in runs for spec in run.trace.requests):
        tell("The request that was selected is in neither run; nothing is selected.")
        state.selected = ""
        seek(state)


def _messages(result: Both) -> None:
    for message in result.problems:
        st.error(plain(message))
    for message in result.notes:
        st.caption(plain(message))
    if messages():
        with st.container(key="link_messages"):
            st.warning("\n\n".join(plain(message) for message in messages()))
            st.button("Got it", key="got_it", on_click=forget_messages, type="tertiary")


def _stages(state: CompareState, left: Trace, right: Trace, backend: str, mark: int | None, drawn: str) -> None:
    """Both stages in one fragment: only the one that drives speaks, so one tick serves both.

    `drawn` is the address at which the rest of the page was drawn.
    """
    follow(drawn, _address(state))
    last = max(len(left.records), len(right.records)) - 1
    shown = zip(st.columns(2), (LEFT, RIGHT), STAGES, ordered(state), (left, right), strict=True)
    for column, place, key, side, trace in shown:
        with column:
            name = side_name(state, side)
            # Beside each other the stages stand under their names already.
            with st.container(key=f"compare_name_{place}"):
                st.caption(f"**{place}** · {plain(name)}")
            stage(
                trace,
                key=key,
                tick=state.tick,
                cmd_id=command(),
                selected=state.selected or None,
                status=backend,
                on_change=partial(hear, state, key),
                link=LINK,
                why=False,
                teach=stage_teach("run"),
                label=f"{place} stage: {name}. Press question mark for the keys.",
                mark=mark,
                last_tick=last,
            )
    write_address(state)
    if is_shown("panels") and state.first.scenario != IMPORTED:
        # A run from a file cannot travel in a link.
        copy_link(_address(state), key="compare_copy", is_shown=False)


def _banner(state: CompareState, left: Trace, right: Trace, first: FirstDifference | None) -> None:
    """Where the runs part, and what it comes to."""
    with st.container(border=True, key="compare_banner"):
        if first is None:
            st.markdown(plain(_equal(left, right)))
        else:
            _parting(state, left, right, first)
        if note := made_up_note(left, right):
            st.caption(plain(note))


def _parting(state: CompareState, left: Trace, right: Trace, first: FirstDifference) -> None:
    def go() -> None:
        state.tick = first.tick
        seek(state)

    told = f"**≠ Tick {first.tick} is the first that differs.** On the left: {plain(first.left)} On the right: "
    with st.container(horizontal=True, vertical_alignment="center"):
        with st.container(width="stretch", gap="small", key="compare_told"):
            st.markdown(told + plain(first.right))
            st.markdown(f":gray[{plain(verdict(left, right))}]")
        st.button(f"Go to tick {first.tick}", key="go_to_difference", on_click=go)


def _equal(left: Trace, right: Trace) -> str:
    if not settings_changed(left, right):
        return (
            "Both sides are equal: the same settings on the same requests give the same run, tick by tick. Change a "
            "setting on one side, or choose a pair."
        )
    why = why_no_difference(left, right)
    return f"The settings differ, but both runs are equal, tick by tick. {why}".strip()

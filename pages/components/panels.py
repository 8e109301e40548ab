"""What stands under the stage: why, tokens, blocks, charts, events, export. Only the open one is drawn."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd
import streamlit as st

from pages.components.block_life import block_life
from pages.components.charts import charts
from pages.components.empty import empty
from pages.components.export import export
from pages.components.plain import plain, visible
from pages.components.play_state import PANELS, PlayState
from pages.components.tokens import tokens
from pages.components.why import why
from scheduler_core.biography import biography
from scheduler_core.events import TokenSampled
from scheduler_core.metrics import events_table
from scheduler_core.trace import Trace

#: Up to so many requests are offered as pills, more as a list.
MAX_PILLS = 12

EVENT_VIEWS = ("this tick", "up to this tick", "all")


def panels(
    state: PlayState, trace: Trace, *, calm: bool, address: Callable[[], str], on_select: Callable[[], None]
) -> None:
    """Draw the tabs as of the state's tick; charts wait until the stage is `calm`, neither playing nor computing."""
    if st.session_state.get("panel") != state.panel:
        st.session_state["panel"] = state.panel

    def opened() -> None:
        state.panel = st.session_state["panel"]

    tabs = dict(zip(PANELS, st.tabs(PANELS, key="panel", on_change=opened), strict=True))
    with tabs[state.panel]:
        if not trace.records:
            empty("Nothing has happened yet. This fills with the first tick that is computed.", key="no_tick")
            return
        match state.panel:
            case "Why?":
                why(trace, request_picker(state, trace, on_select), state.tick)
            case "Tokens":
                _tokens(state, trace, on_select)
            case "Blocks":
                _block(state, trace)
            case "Charts":
                _charts(trace, calm)
            case "Events":
                _events(trace, state)
            case _:
                export(trace, state, address(), calm=calm)


def request_picker(state: PlayState, trace: Trace, on_select: Callable[[], None]) -> str:
    """Let the visitor choose a request here too; the stage and this follow each other."""
    ids = [spec.id for spec in trace.requests]
    chosen = state.selected if state.selected in ids else default_request(trace, state.tick)
    # A key for each choice: an answer that the browser gave to an earlier one is not taken for a click.
    key = f"pick_request {chosen}"

    def pick() -> None:
        picked = st.session_state[key] or chosen
        if picked != chosen:
            state.selected = picked
            on_select()

    if len(ids) <= MAX_PILLS:
        st.pills(
            "Request", ids, key=key, default=chosen, on_change=pick, required=True, label_visibility="collapsed",
            format_func=plain,
        )  # fmt: skip
    else:
        st.selectbox(
            "Request", ids, ids.index(chosen), key=key, on_change=pick, width=200, format_func=visible,
        )  # fmt: skip
    if not state.selected:
        st.caption(f"Nobody is selected, so this is about {plain(chosen)}. Click a request, here or on the stage.")
    return chosen


def _tokens(state: PlayState, trace: Trace, on_select: Callable[[], None]) -> None:
    """The text of the chosen request, and before its first token the way to it."""
    request = request_picker(state, trace, on_select)
    first = _first_token(trace, request)
    if first is None:
        empty(f"{request} gets no token in this run. Choose another request.", key="no_token")
    elif first > state.tick:

        def go() -> None:
            state.tick = first
            on_select()

        empty(f"{request} has no token yet.", key="no_token", button=f"Go to its first, tick {first:,}", on_click=go)
    tokens(trace, request, state.tick)


def _first_token(trace: Trace, request: str) -> int | None:
    return next(
        (
            record.tick
            for record in trace.records
            for event in record.events
            if isinstance(event, TokenSampled) and event.request_id == request
        ),
        None,
    )


def _block(state: PlayState, trace: Trace) -> None:
    """The life of the chosen block; for one that nobody took, the way to one that has a life."""
    chosen = _block_picker(state, trace)
    block_life(trace, chosen)
    if biography(trace, chosen):
        return
    taken = _first_taken(trace)
    if taken is None:
        empty("No request took a block in this run. Take requests that fit into it.", key="no_block")
        return

    def go() -> None:
        state.block = taken

    empty("Choose a block that is coloured on the stage.", key="no_block", button=f"Show block {taken}", on_click=go)


def _first_taken(trace: Trace) -> int | None:
    """The first block that anybody held, by time and then by number."""
    for record in trace.records:
        held = [block for request in record.snapshot.requests for block in request.block_ids] if record.snapshot else []
        if held:
            return min(held)
    return None


def _block_picker(state: PlayState, trace: Trace) -> int:
    """Let the visitor choose a block here too; a click on one on the stage does the same."""
    last = trace.config.num_blocks - 1
    chosen = min(state.block, last)
    # A key for each choice, as with requests.
    key = f"pick_block {chosen} of {last}"

    def pick() -> None:
        state.block = int(st.session_state[key])

    with st.container(horizontal=True, vertical_alignment="bottom"):
        st.number_input("Block", 0, last, chosen, key=key, on_change=pick, width=160)
        st.caption("Or click a block on the stage.")
    return chosen


def default_request(trace: Trace, tick: int) -> str:
    """The request that a tick is most about: the first that waits, else the first in the batch, else the first."""
    record = trace.records[min(tick, len(trace.records) - 1)]
    if record.snapshot is not None and record.snapshot.waiting:
        return record.snapshot.waiting[0]
    if record.output.scheduled:
        return record.output.scheduled[0].request_id
    return trace.requests[0].id


def _charts(trace: Trace, calm: bool) -> None:
    """A figure that changes is mounted anew, so while ticks keep coming the last calm one stays."""
    if calm or "charted" not in st.session_state:
        st.session_state["charted"] = trace
    charts(st.session_state["charted"])


def _events(trace: Trace, state: PlayState) -> None:
    view = st.segmented_control(
        "Which events",
        EVENT_VIEWS,
        default=EVENT_VIEWS[-1],
        key="event_view",
        required=True,
        label_visibility="collapsed",
    )
    rows = events_table(trace)
    if view == EVENT_VIEWS[0]:
        rows = [row for row in rows if row.tick == state.tick]
    elif view == EVENT_VIEWS[1]:
        rows = [row for row in rows if row.tick <= state.tick]
    if not rows:
        where = "in this tick" if view == EVENT_VIEWS[0] else view
        empty(f"Nothing happened {where}. Step on, or choose “{EVENT_VIEWS[-1]}”.", key="no_event")
        return
    table = pd.DataFrame(
        {
            "tick": [row.tick for row in rows],
            "time (s)": [row.time for row in rows],
            "request": [visible(row.request) for row in rows],
            "event": [row.event for row in rows],
            "what happened": [visible(row.text) for row in rows],
        }
    )
    widths = {"what happened": st.column_config.TextColumn(width="large")}
    st.dataframe(table, hide_index=True, key="events", height=420 if len(rows) > 10 else "auto", column_config=widths)
    st.caption(f"{len(rows):,} events")

"""The operations page put together: which gateway, how it is, and a panel of it."""

from __future__ import annotations

import streamlit as st

from pages.components.frame import asset
from pages.components.operations.caches import caches
from pages.components.operations.client import Gateway, GatewayError, gateways
from pages.components.operations.faults import faults
from pages.components.operations.figures import figures
from pages.components.operations.head import how_to_start, status_line, tiles
from pages.components.operations.letters import letters
from pages.components.operations.live_runs import live_runs
from pages.components.operations.state import PANELS, OperationsState, from_query, to_query
from pages.components.operations.watch import Seen, watch
from pages.components.plain import plain
from pages.components.visit import show_address

PATH = "/operations"
#: Seconds between two looks at the gateway.
LOOK_EVERY = 2.0


def operations(fresh: bool) -> None:
    """Draw everything; `fresh` tells that the visitor has just come to the page."""
    st.html(f"<style>{asset('operations.css')}</style>")
    st.title("Operations", anchor=False)
    st.markdown(
        ":gray[A gateway at work: who runs and who waits, what failed and what is cached; and faults to switch on.]"
    )
    try:
        found = gateways()
    except GatewayError as problem:
        st.error(plain(f"{problem}."))
        return
    state = _enter(fresh, len(found))
    for message in st.session_state.get("op_messages", ()):
        st.warning(plain(message))
    if len(found) > 1:
        _choose(state, found)
    st.fragment(_look, run_every=LOOK_EVERY)(state, found[state.gateway])


def _enter(fresh: bool, num_gateways: int) -> OperationsState:
    """The state of this visit; on entry an address that says something wins."""
    query = st.query_params.to_dict() if fresh else {}
    if "operations" not in st.session_state or query:
        state, messages = from_query(query, num_gateways)
        st.session_state["operations"], st.session_state["op_messages"] = state, messages
        st.session_state.pop("op_panel", None)
        st.session_state.pop("op_gateway", None)
    state = st.session_state["operations"]
    assert isinstance(state, OperationsState)
    return state


def _choose(state: OperationsState, found: tuple[Gateway, ...]) -> None:
    def chosen() -> None:
        st.session_state["operations"] = OperationsState(state.panel, st.session_state["op_gateway"])

    if "op_gateway" not in st.session_state:
        st.session_state["op_gateway"] = state.gateway
    st.selectbox(
        "Gateway",
        range(len(found)),
        key="op_gateway",
        format_func=lambda number: found[number].url,
        on_change=chosen,
        width=420,
    )


def _look(state: OperationsState, gateway: Gateway) -> None:
    """One look: all that changes by itself is in here."""
    watched = watch(gateway)
    seen = watched.look()
    status_line(gateway, seen)
    if seen.last is None:
        how_to_start(gateway, seen)
        live_runs(alone=True)
    else:
        tiles(seen)
        _panel(state, gateway, seen)
    show_address(to_query(state), PATH, 0, 0)


def _panel(state: OperationsState, gateway: Gateway, seen: Seen) -> None:
    if st.session_state.get("op_panel") != state.panel:
        st.session_state["op_panel"] = state.panel

    def opened() -> None:
        state.panel, state.asks, state.said = st.session_state["op_panel"], "", ""

    tabs = dict(zip(PANELS, st.tabs(PANELS, key="op_panel", on_change=opened), strict=True))
    with tabs[state.panel]:
        if state.said:
            (st.success if state.is_well else st.warning)(plain(state.said))
        match state.panel:
            case "Caches":
                caches(state, gateway, seen)
            case "Dead letters":
                letters(state, gateway, seen)
            case "Planned faults":
                faults(state, gateway, seen)
            case "Live runs":
                live_runs()
            case _:
                figures(seen)

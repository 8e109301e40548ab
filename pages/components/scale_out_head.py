"""The head of the page: its title, what is simulated, and the choices."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from pages.components.plain import plain
from pages.components.scale_out_loads import EXAMPLES, load_names, load_text, load_title
from pages.components.scale_out_runs import is_bounded
from pages.components.scale_out_state import (
    BOUNDS,
    MAX_KILL_TICK,
    MAX_SEED,
    REPLICAS,
    RESTARTS,
    START_TICKS,
    ScaleOutState,
)
from pages.components.workloads.widgets import begin
from scheduler_core.replicas.config import ROUTERS
from scheduler_core.replicas.words import ROUTER_NAMES, ROUTER_TEXTS

_WIDTHS = (1.5, 0.7, 1.35, 1.2, 0.85, 1.05, 0.75, 1.0, 0.75)
_BOUND_WORDS = {name: f"{name} × mean" if name != "none" else "no bound" for name in BOUNDS}
_RESTART_WORDS = {name: f"{name} ticks" for name in RESTARTS} | {"never": "never"}


def head(state: ScaleOutState, on_change: Callable[[], None]) -> None:
    """Draw title and choices; each is written to `state` before anything runs."""
    st.title("Scale out", anchor=False)
    st.markdown(
        ":gray[Several replicas of one server, each with its own KV blocks and its own prefix cache. A router sends "
        "every request to one of them.]"
    )
    with st.container(border=True, key="so_choices"):
        draws = (_load, _replicas, _router, _bound, _shared, _kill, _kill_at, _restart, _seed)
        for column, draw in zip(st.columns(_WIDTHS, gap="small"), draws, strict=True):
            with column:
                draw(state, on_change)
        st.caption(plain(f"{load_text(state.load)} {ROUTER_TEXTS[state.router]}"))


def _take(state: ScaleOutState, field: str, key: str, on_change: Callable[[], None]) -> Callable[[], None]:
    def take() -> None:
        setattr(state, field, st.session_state[key])
        on_change()

    return take


def _load(state: ScaleOutState, on_change: Callable[[], None]) -> None:
    st.selectbox(
        "Load",
        load_names(),
        key=begin("so_load", state.load),
        format_func=load_title,
        on_change=_take(state, "load", "so_load", on_change),
    )


def _replicas(state: ScaleOutState, on_change: Callable[[], None]) -> None:
    def take() -> None:
        state.replicas = st.session_state["so_replicas"]
        # Who is killed or shown may not be there any more.
        if state.kill > state.replicas:
            state.kill = st.session_state["so_kill"] = 0
        state.open = 0
        on_change()

    st.selectbox("Replicas", REPLICAS, key=begin("so_replicas", state.replicas), on_change=take)


def _router(state: ScaleOutState, on_change: Callable[[], None]) -> None:
    st.selectbox(
        "Router",
        ROUTERS,
        key=begin("so_router", state.router),
        format_func=ROUTER_NAMES.__getitem__,
        on_change=_take(state, "router", "so_router", on_change),
    )


def _bound(state: ScaleOutState, on_change: Callable[[], None]) -> None:
    st.selectbox(
        "Load bound",
        [*BOUNDS],
        key=begin("so_bound", state.bound),
        format_func=_BOUND_WORDS.__getitem__,
        on_change=_take(state, "bound", "so_bound", on_change),
        disabled=not is_bounded(state.router),
        help="A home takes no request while it owes more tokens than this, over the mean of all living replicas.",
    )


def _shared(state: ScaleOutState, on_change: Callable[[], None]) -> None:
    st.selectbox(
        "Shared tier",
        ("off", "on"),
        key=begin("so_shared", state.shared),
        on_change=_take(state, "shared", "so_shared", on_change),
        help="KV blocks are written behind to a store that all replicas can load from.",
    )


def _kill(state: ScaleOutState, on_change: Callable[[], None]) -> None:
    st.selectbox(
        "Kill",
        range(state.replicas + 1),
        key=begin("so_kill", state.kill),
        format_func=lambda number: f"replica {number}" if number else "nobody",
        on_change=_take(state, "kill", "so_kill", on_change),
        help="Its memory is gone at once; its requests go on elsewhere.",
    )


def _kill_at(state: ScaleOutState, on_change: Callable[[], None]) -> None:
    st.number_input(
        "at tick",
        1,
        MAX_KILL_TICK,
        key=begin("so_kill_at", state.kill_at),
        on_change=_take(state, "kill_at", "so_kill_at", on_change),
        disabled=not state.kill,
    )


def _restart(state: ScaleOutState, on_change: Callable[[], None]) -> None:
    st.selectbox(
        "Restart after",
        RESTARTS,
        key=begin("so_restart", state.restart),
        format_func=_RESTART_WORDS.__getitem__,
        on_change=_take(state, "restart", "so_restart", on_change),
        disabled=not state.kill,
        help=f"A new process starts so long after the kill, loads the weights for {START_TICKS} ticks, and then takes "
        "requests again, with an empty cache.",
    )


def _seed(state: ScaleOutState, on_change: Callable[[], None]) -> None:
    st.number_input(
        "Seed",
        0,
        MAX_SEED,
        key=begin("so_seed", state.seed),
        on_change=_take(state, "seed", "so_seed", on_change),
        disabled=state.load not in EXAMPLES,
        help="Another seed draws another load of this kind.",
    )

"""Step 2 of the workloads page: the machine, one to four configurations on it, and what counts as good."""

from __future__ import annotations

from typing import Any

import streamlit as st

from pages.components.plain import plain
from pages.components.workloads.gpu import gpu_utilisation
from pages.components.workloads.state import (
    MAX_OWN,
    MAX_SERVERS,
    PRESET_LABELS,
    OwnServer,
    WorkloadState,
    parse_own,
)
from pages.components.workloads.widgets import begin, forget
from pages.components.workloads.work import Server
from scheduler_core.cost_model import MACHINES
from scheduler_core.errors import TickscopeError
from scheduler_core.roofline import REAL
from scheduler_core.serving_config import serving_config
from scheduler_core.summary import Targets

_TARGETS = (
    ("ttft_ms", "TTFT (ms)", "Time to first token, from the arrival."),
    ("itl_ms", "Longest gap (ms)", "The longest gap between two tokens of one answer (ITL)."),
    ("e2el_ms", "E2E (ms)", "From the arrival to the end of the answer."),
)


def server_step(state: WorkloadState) -> list[Server]:
    """Draw the step; the servers to run on, none while there is no valid one."""
    st.header("2 · The server", anchor=False)
    state.machine = st.selectbox(
        "Machine (simulated)",
        REAL,
        key=begin("wl_machine", state.machine),
        format_func=lambda name: MACHINES[name].title,
        on_change=forget,
        args=(["wl_target_ttft_ms", "wl_target_itl_ms", "wl_target_e2el_ms"],),
    )
    base = serving_config(state.machine)
    st.caption(
        f"{base.max_num_seqs:,} lanes, {base.max_num_batched_tokens:,} tokens a tick, {base.num_blocks:,} KV blocks of "
        f"{base.block_size} tokens. Ticks last as long as a roofline of its data sheet says, so all times are virtual. "
        f"A real GPU in this machine (NVML): {plain(gpu_utilisation())}."
    )
    labels = state.labels()
    chosen = st.pills(
        f"Configurations, one to {MAX_SERVERS}",
        [*labels],
        selection_mode="multi",
        key=begin("wl_servers", [key for key in state.chosen if key in labels]),
        format_func=lambda key: plain(labels[key]),
    )
    state.chosen = tuple(chosen or ())[:MAX_SERVERS]
    if len(chosen or ()) > MAX_SERVERS:
        st.warning(f"{len(chosen or ())} configurations are chosen; the first {MAX_SERVERS} run.")
    _own(state)
    _targets(state)
    if not state.chosen:
        st.info("Choose a configuration to run the load on.")
        return []
    try:
        return state.servers()
    except TickscopeError as problem:
        st.error(plain(f"{problem}."))
        return []


def _own(state: WorkloadState) -> None:
    with st.popover("Make your own", key="wl_own"):
        with st.form("wl_own_form", border=False):
            preset = st.selectbox("Begin with", [*PRESET_LABELS], key="wl_own_preset", format_func=PRESET_LABELS.get)
            settings = st.text_input(
                "Change",
                key="wl_own_settings",
                max_chars=300,
                placeholder="chunk_size=512, num_blocks=2000",
                help="Settings as on the command line, with commas between: max_num_seqs=64, "
                "enable_prefix_caching=off, policy=priority, admission=first_chunk, batch_order=prefill_first, "
                "enable_chunked_prefill=off.",
            )
            if st.form_submit_button("Add"):
                _add(state, str(preset), settings)
        if problem := st.session_state.get("wl_own_problem"):
            st.error(plain(problem))


def _add(state: WorkloadState, preset: str, settings: str) -> None:
    try:
        own = parse_own(f"{preset}:{settings.replace(' ', '')}", state.machine)
    except TickscopeError as problem:
        st.session_state["wl_own_problem"] = f"{problem}."
        return
    if not own.changes:
        st.session_state["wl_own_problem"] = "Nothing is changed; write a setting, such as chunk_size=512."
        return
    st.session_state.pop("wl_own_problem", None)
    add_own(state, own)
    st.rerun()


def add_own(state: WorkloadState, own: OwnServer) -> None:
    """Offer a configuration of one's own, and choose it in place of the last if there are too many."""
    state.own = (*(each for each in state.own if each.key != own.key), own)[-MAX_OWN:]
    labels = state.labels()
    kept = [key for key in state.chosen if key != own.key and key in labels][: MAX_SERVERS - 1]
    state.chosen = (*kept, own.key)
    forget(["wl_servers"])


def _targets(state: WorkloadState) -> None:
    goals = state.goals
    with st.container(key="wl_targets"):
        st.caption("Good is a request that keeps these targets; an empty one asks nothing.")
        values: dict[str, Any] = {}
        for column, (name, title, told) in zip(st.columns(len(_TARGETS)), _TARGETS, strict=True):
            with column:
                key = begin(f"wl_target_{name}", getattr(goals, name))
                values[name] = st.number_input(
                    title, 0.001, 1e9, value=None, key=key, help=told, format="%g", placeholder="none"
                )
    asked = Targets(**values)
    usual = WorkloadState(machine=state.machine).goals
    state.targets = None if asked == usual else asked

"""The workloads page put together: the load, the server, the run, and what came of it."""

from __future__ import annotations

from typing import Any

import streamlit as st

from pages.components.copy_link import here
from pages.components.frame import asset
from pages.components.plain import plain
from pages.components.settings import SettingsError, limits
from pages.components.visit import show_address
from pages.components.workloads.cache import CACHE, cache
from pages.components.workloads.export import export
from pages.components.workloads.latency import latency
from pages.components.workloads.load_step import ChosenLoad, load_step
from pages.components.workloads.over_time import WINDOW, over_time
from pages.components.workloads.run_step import RUN, elsewhere, run_key, run_step
from pages.components.workloads.server_step import server_step
from pages.components.workloads.state import PANELS, WorkloadState, from_query, to_query
from pages.components.workloads.sweep import SWEEP, sweep
from pages.components.workloads.tenants import tenants
from pages.components.workloads.two_by_two import TWO_BY_TWO, two_by_two
from pages.components.workloads.visit import load_visit
from pages.components.workloads.work import Outcome, Server

PATH = "/workloads"
_OWN_PROGRESS = {"Sweep": SWEEP, "Cache": CACHE, "Over time": WINDOW, "Chunking × mixing": TWO_BY_TWO}


def workloads(fresh: bool) -> None:
    """Draw everything; `fresh` tells that the visitor has just come to the page."""
    st.html(f"<style>{asset('workloads.css')}</style>")
    st.title("Workloads", anchor=False)
    st.markdown(":gray[Send many requests to a simulated server, and see who waited, how long, and where it gives in.]")
    try:
        limits()
    except SettingsError as problem:
        st.error(plain(str(problem)))
        return
    state, messages = _enter(fresh)
    for message in messages:
        st.warning(plain(message))
    left, right = st.columns([1.35, 1], gap="medium")
    with left, st.container(border=True, key="wl_step_load", height="stretch"):
        load = load_step(state)
    with right, st.container(border=True, key="wl_step_server", height="stretch"):
        servers = server_step(state)
    with st.container(border=True, key="wl_step_run"):
        run_step(load, servers)
        elsewhere(load_visit(), _OWN_PROGRESS.get(state.panel, ""))
    _panels(state, load, servers)
    show_address(to_query(state), PATH, 0, 0)


def _enter(fresh: bool) -> tuple[WorkloadState, list[str]]:
    """The state of this visit; on entry an address that says something wins."""
    query = st.query_params.to_dict() if fresh else {}
    if "workloads" not in st.session_state or query:
        state, messages = from_query(query, limits().max_load_requests)
        st.session_state["workloads"], st.session_state["wl_messages"] = state, messages
        for key in [key for key in map(str, st.session_state) if key.startswith("wl_") and key in _OF_LINK]:
            del st.session_state[key]
    return st.session_state["workloads"], st.session_state.get("wl_messages", [])


#: Fields that a link sets.
_OF_LINK = ("wl_source", "wl_example", "wl_seed", "wl_machine", "wl_servers", "wl_panel")


def _panels(state: WorkloadState, load: ChosenLoad | None, servers: list[Server]) -> None:
    if st.session_state.get("wl_panel") != state.panel:
        st.session_state["wl_panel"] = state.panel

    def opened() -> None:
        state.panel = st.session_state["wl_panel"]

    tabs = dict(zip(PANELS, st.tabs(PANELS, key="wl_panel", on_change=opened), strict=True))
    with tabs[state.panel]:
        match state.panel:
            case "Sweep":
                sweep(load, servers, state.goals, _usual_rate(state))
            case "Cache":
                cache(load)
            case "Chunking × mixing":
                two_by_two(state.machine, state.seed)
            case _:
                _of_run(state, load, servers)


def _usual_rate(state: WorkloadState) -> float:
    return state.config().rate if state.source != "upload" else 1.0


def _of_run(state: WorkloadState, load: ChosenLoad | None, servers: list[Server]) -> None:
    job = load_visit().jobs.get(RUN)
    outcomes: list[Outcome] = [*job.results] if job is not None else []
    if not outcomes:
        st.markdown(
            "The run has not got that far yet." if job is not None and job.is_going else
            "Nothing has run yet. Press **Run the load**; figures and charts stand here then."
        )  # fmt: skip
        return
    if load is not None and load_visit().keys.get(RUN) != run_key(load, servers):
        st.info(
            "These figures are of an earlier choice of load and configurations. Run the load again for the new one."
        )
    match state.panel:
        case "Latency":
            latency(outcomes, state.goals)
        case "Over time":
            over_time(outcomes)
        case "Tenants":
            tenants(outcomes, state.goals)
        case _:
            export(outcomes, state.goals, _source(load), here(to_query(state), 0))


def _source(load: ChosenLoad | None) -> dict[str, Any]:
    return {} if load is None else {**load.make().facts, "attribution": load.attribution}

"""The line above the stage while a live run is chosen: start, progress, place in the queue, stop, send."""

from __future__ import annotations

import streamlit as st

from pages.components.live import LiveVisit, apply, how_to_get_the_model, send, start
from pages.components.own_requests import OwnRequest, free_id
from pages.components.plain import plain
from pages.components.play_state import PlayState
from pages.components.runs import Workload
from scheduler_core.config import EngineConfig
from scheduler_core.live import LiveRun, LiveState


def live_bar(state: PlayState, visit: LiveVisit, chosen: Workload, config: EngineConfig | None) -> None:
    """Draw the line that suits the state of the run."""
    run = visit.run if visit.belongs_to(chosen) else None
    with st.container(border=True, key="live_bar"):
        if run is None:
            _offer(visit, chosen, config)
            return
        match run.state:
            case LiveState.QUEUED:
                _line(f"Waiting for a place on the model: number {run.queue_position} in the queue.", stop=run)
            case LiveState.LOADING:
                _line(f"Loading the model: {run.progress_text}", stop=run)
                st.progress(min(max(run.progress, 0.0), 1.0))
            case LiveState.RUNNING:
                trace = run.trace()
                _line(f"The model computes tick {len(trace.records) if trace else 0}.", stop=run)
            case LiveState.FAILED:
                _failed(state, visit, chosen, config, run)
            case _:
                words = "The run is done." if run.state is LiveState.DONE else "The run was stopped."
                _over(words, visit, chosen, config)
        if config is not None:
            _settings(visit, chosen, config)
        if run.state in (LiveState.RUNNING, LiveState.DONE):
            _send(visit, run)
        for message in run.messages:
            st.warning(plain(message))


def _line(words: str, stop: LiveRun) -> None:
    with st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"):
        st.markdown(plain(words), width="content")
        if st.button("Stop", key="live_stop"):
            stop.stop()
            st.rerun()


def _offer(visit: LiveVisit, chosen: Workload, config: EngineConfig | None) -> None:
    ready = how_to_get_the_model()
    with st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"):
        if ready.ready:
            st.markdown(
                f"{plain(ready.text)} :gray[Until it runs, the stage shows the run without it.]", width="content"
            )
            _start_button("Run on the model", visit, chosen, config)
        else:
            st.markdown(plain(ready.text))
    if ready.remedy:
        st.caption("To run it live, install the model and start the app again:")
        st.code(ready.remedy, language=None)


def _start_button(label: str, visit: LiveVisit, chosen: Workload, config: EngineConfig | None) -> None:
    if st.button(label, key="live_start", type="primary", disabled=config is None) and config is not None:
        start(visit, chosen, config)
        st.rerun()


def _over(words: str, visit: LiveVisit, chosen: Workload, config: EngineConfig | None) -> None:
    with st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"):
        st.markdown(plain(words), width="content")
        _start_button("Run again from tick 0", visit, chosen, config)


def _failed(state: PlayState, visit: LiveVisit, chosen: Workload, config: EngineConfig | None, run: LiveRun) -> None:
    st.error(plain(f"The model could not run: {run.error}"))
    with st.container(horizontal=True):
        _start_button("Try again", visit, chosen, config)
        if st.button("Go on with made-up tokens", key="live_give_up"):
            state.backend = "synthetic"
            st.rerun()


def _settings(visit: LiveVisit, chosen: Workload, config: EngineConfig) -> None:
    """Hand changed settings to the run, and say which of them it cannot take."""
    run = visit.run
    if run is None or visit.config is None:
        return
    fixed = apply(visit, config)
    if fixed and run.is_computing:
        names = ", ".join(name.replace("_", " ") for name in fixed)
        st.caption(f"{names} cannot change during a run; it is taken when you run again from tick 0.")
    elif not run.is_computing and config != visit.config:
        st.caption("The settings have changed since; run again, or choose recorded to try them on these tokens.")


def _send(visit: LiveVisit, run: LiveRun) -> None:
    with st.form("send_now", border=False), st.container(horizontal=True, vertical_alignment="bottom"):
        prompt = st.text_input("Send a prompt now", key="send_prompt", placeholder="It arrives in the next tick.")
        tokens = st.number_input("Max tokens", value=24, step=1, key="send_tokens", width=130)
        sent = st.form_submit_button("Send", key="send_button")
    if sent:
        trace = run.trace()
        taken = [spec.id for spec in trace.requests] if trace else []
        visit.refused = send(visit, OwnRequest(free_id(taken), prompt or "", int(tokens)))
        if not visit.refused:
            st.rerun()
    # The line is drawn anew at every look at the run; what was said must stand until it is answered.
    for message in visit.refused:
        st.error(plain(message))

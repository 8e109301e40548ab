"""The playground put together: head, settings, stage and panels, all of one state."""

from __future__ import annotations

from dataclasses import replace

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from pages.components.compare_what_if import ask
from pages.components.controls import Dial, controls
from pages.components.copy_link import here
from pages.components.drop import drop_anywhere
from pages.components.empty import empty
from pages.components.header import header, subtitle
from pages.components.lesson_runs import until
from pages.components.link import tick_from, to_query
from pages.components.live import LOOK_EVERY, live_visit
from pages.components.live_bar import live_bar
from pages.components.panels import panels
from pages.components.plain import plain
from pages.components.play_state import OWN, PlayState
from pages.components.player import stage
from pages.components.predict_card import SUMMARY, WAITING, no_quiz, predict_card
from pages.components.predict_state import Quiz, quiz_of
from pages.components.requests_dialog import forget_rows, open_requests, requests_dialog
from pages.components.runs import DEFAULT_SCENARIO, base_config
from pages.components.settings import SettingsError, limits
from pages.components.shown import Shown, difference, shown
from pages.components.strip import strips
from pages.components.teach_bar import follow, teach_dialogs
from pages.components.teach_state import is_shown, stage_teach, teach
from pages.components.visit import (
    STAGE,
    command,
    enter,
    forget_link_messages,
    hear,
    link_messages,
    seek,
    wants_play,
    write_address,
)
from scheduler_core.config import EngineConfig
from scheduler_core.trace import Trace

PATH = "/playground"


def workbench(fresh: bool) -> None:
    """Draw everything; `fresh` tells that the visitor has just come to the page."""
    try:
        limits()
    except SettingsError as problem:
        st.error(plain(str(problem)))
        return
    state = enter(fresh)
    base = base_config(state)
    now = shown(state)
    _clamp(state, now)
    if now.backend == "live" and live_visit().has_just_begun():
        state.tick, state.selected = 0, ""
        seek(state, play=True)
    place = header(
        state,
        now.made_by,
        len(now.trace.requests) if now.trace else 0,
        on_scenario=lambda: _other_run(state),
        on_backend=lambda: _other_run(state),
        on_requests=open_requests,
    )
    subtitle(state)
    _messages(now)
    dials, note = _settings(state, base, place)
    if now.trace is not None:
        told = difference(now.trace)
        if told and not state.predict and note is not None:
            note.info(plain(told))
        _stage_and_panels(state, now)
    else:
        _no_run(state)
    requests_dialog(state, now.config or base, lambda: _other_run(state))
    if is_shown("choices"):
        drop_anywhere(state)
    teach_dialogs(_address(state))
    if dials is not None and not state.predict:
        # Their curves are of the whole run, and of others like it, so a quiz goes without.
        # Last, though nobody waits for it: what stands above comes first.
        strips(state, now, dials)


def _address(state: PlayState) -> str:
    """The address of what is shown."""
    return here(to_query(state, DEFAULT_SCENARIO), state.tick)


def _no_run(state: PlayState) -> None:
    """What to do where not even an earlier run stands."""

    def start_over() -> None:
        state.scenario, state.preset, state.overrides = DEFAULT_SCENARIO, "", {}
        _other_run(state)

    if state.scenario == OWN:
        told = "There is no run to show. Write what to ask, or choose a scenario above."
        empty(told, key="no_run", button="Write requests", on_click=open_requests)
        return
    told = "There is no run to show. Mend what the message above names, or start with a scenario as it is."
    empty(told, key="no_run", button="Start with a scenario", on_click=start_over)


def _settings(
    state: PlayState, base: EngineConfig, place: DeltaGenerator | None
) -> tuple[tuple[Dial, Dial] | None, DeltaGenerator | None]:
    """Draw the settings in the sidebar, with a place for a note; in the teacher view behind a pill, if at all."""
    if place is None:
        with st.sidebar:
            st.divider()
            return controls(state, base, lambda: None), st.empty()
    if not is_shown("settings"):
        return None, None
    with place, st.popover("Settings", key="pop_settings", on_change="rerun"):
        # Drawn only while open: what is mounted later than it is drawn shows its default.
        if not st.session_state.get("pop_settings"):
            return None, None
        return controls(state, base, lambda: None), st.empty()


def _other_run(state: PlayState) -> None:
    """Another run starts from its beginning."""
    state.tick, state.selected = 0, ""
    if state.scenario != OWN:
        forget_rows()
    seek(state)


def _clamp(state: PlayState, now: Shown) -> None:
    """Bring tick and selection into the run that stands."""
    if now.trace is None:
        return
    last = max(len(now.trace.records) - 1, 0)
    state.tick, told = tick_from({"tick": str(state.tick)}, last)
    if told and _asked_by_link():
        _tell(told[0])
    if state.selected and state.selected not in [spec.id for spec in now.trace.requests]:
        if _asked_by_link():
            _tell("The link selects a request that is not in this run; nothing is selected.")
        state.selected = ""
    st.session_state["by_link"] = False


def _asked_by_link() -> bool:
    return bool(st.session_state.get("by_link"))


def _tell(message: str) -> None:
    st.session_state["link_messages"] = [*link_messages(), message]


def _messages(now: Shown) -> None:
    for message in now.problems:
        st.error(plain(message))
    for message in now.notes:
        st.caption(plain(message))
    if link_messages():
        with st.container(key="link_messages"):
            st.warning("\n\n".join(plain(message) for message in link_messages()))
            st.button("Got it", key="got_it", on_click=forget_link_messages, type="tertiary")


def _stage_and_panels(state: PlayState, now: Shown) -> None:
    visit = live_visit()
    run = visit.run if state.backend == "live" and now.chosen and visit.belongs_to(now.chosen) else None
    computing = run is not None and run.is_computing
    # The one clock of the page, and only while the model computes.
    st.fragment(_moving_part, run_every=LOOK_EVERY if computing else None)(state, now, computing, replace(state))


def _moving_part(state: PlayState, now: Shown, computing: bool, drawn: PlayState) -> None:
    """Stage and panels; `drawn` is the state in which the rest of the page was drawn."""
    if state.predict is not drawn.predict:
        # The quiz was left: the rest of the page has to know.
        st.rerun()
    visit = live_visit()
    trace = now.trace
    assert trace is not None
    run = None
    if state.backend == "live" and now.chosen is not None:
        live_bar(state, visit, now.chosen, now.config)
        run = visit.run if visit.belongs_to(now.chosen) else None
        so_far = run.trace() if run is not None else None
        if run is not None and (run.is_computing != computing or (so_far is not None and now.backend != "live")):
            # It began or ended: the rest of the page has to know.
            st.rerun()
        trace = so_far or trace
    busy = computing and now.backend == "live"
    quiz = None if busy or not _can_ask(trace) else quiz_of(state, trace)
    place = st.container(key="predict_place" if teach() is None else "teach_predict")
    view = stage(
        trace if quiz is None else until(trace, quiz.end, "quiz_stage"),
        key=STAGE,
        tick=state.tick,
        cmd_id=command(),
        selected=state.selected or None,
        play=wants_play(),
        computing=busy,
        status=now.backend,
        on_change=lambda: hear(state),
        clock="measured" if trace.backend.kind == "model" else "virtual",
        why=is_shown("panels"),
        teach=stage_teach("run"),
        tour=not computing,
        spoilers=quiz is None,
        room=len(trace.records) if quiz else None,
    )
    if view.is_news:
        state.tick, state.selected = view.tick, view.selected or ""
    with place:
        _quiz(state, quiz, busy, playing=view.playing and view.is_news)
    if view.stop_clicked and run is not None:
        run.stop()
        st.rerun()
    if view.why_clicked:
        state.panel, state.selected = "Why?", view.action_request or state.selected
    if view.block is not None:
        state.panel, state.block = "Blocks", view.block
    if is_shown("settings") and quiz is None:
        ask(state, is_ready=bool(trace.records) and not computing)
    if is_shown("panels"):
        panels(
            state,
            trace if quiz is None else until(trace, state.tick + 1, "quiz_panels"),
            calm=not (view.playing or computing),
            address=lambda: _address(state),
            on_select=lambda: seek(state),
        )
    write_address(state, PATH)
    follow(_address(drawn), _address(state))


def _can_ask(trace: Trace) -> bool:
    return bool(trace.records) and all(record.snapshot is not None for record in trace.records)


def _quiz(state: PlayState, quiz: Quiz | None, busy: bool, *, playing: bool) -> None:
    """The card of the quiz, or why there is none."""
    if quiz is not None:
        predict_card(state, quiz, playing=playing)
    elif state.predict:
        no_quiz(WAITING if busy else SUMMARY)

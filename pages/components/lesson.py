"""A lesson put together: the band with the step, and the stage at the tick that the step is about."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlencode

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from pages.components.copy_link import copy_link, here
from pages.components.frame import asset
from pages.components.lesson_band import announce, band, closing, head, shown_run
from pages.components.lesson_question import open_tick, question_of
from pages.components.lesson_runs import LessonRuns, shipped_lesson, until
from pages.components.lesson_state import LessonState, enter
from pages.components.link import to_query
from pages.components.plain import plain
from pages.components.play_state import PlayState
from pages.components.player import stage
from pages.components.runs import DEFAULT_SCENARIO
from pages.components.teach_bar import teach_dialogs, teach_messages, teach_pill
from pages.components.teach_state import is_shown, stage_teach, teach, teach_query
from scheduler_core.errors import TickscopeError
from scheduler_core.lesson import Lesson, Step
from scheduler_core.trace import Trace

STAGE = "lesson_stage"
#: The share of the width that the band and the stage have beside each other.
TEACH_COLUMNS = (1, 2)

_address = st.components.v2.component("tickscope_lesson_address", js=asset("address.js"))


def lesson(name: str, fresh: bool) -> None:
    """Draw the lesson of that name; `fresh` tells that the visitor has just come to the page."""
    try:
        shown = shipped_lesson(name)
        _draw(shown, fresh)
    except TickscopeError as problem:
        st.error(plain(str(problem)))


def _draw(shown: Lesson, fresh: bool) -> None:
    state, message = enter(shown, fresh)
    traces = LessonRuns(shown)
    _head(shown, state)
    if message:
        st.warning(plain(message))
    band_place, stage_place = _places()
    if state.step > len(shown.steps):
        with band_place:
            words = closing(shown, state, traces)
        step, tick, run, end, is_open = shown.steps[-1], None, shown.steps[-1].run, None, False
    else:
        step = shown.steps[state.step - 1]
        asked = question_of(step, traces)
        with band_place:
            grade, words = band(shown, state, step, asked, traces)
        run = shown_run(step, state)
        is_open = asked is not None and grade is None
        tick = grade.reveal_tick if grade else step.stop.find(traces[run])
        end = open_tick(shown, state, traces, run, state.step)
        if not is_open and end is not None:
            end = max(end, tick + 1)
        tick -= is_open
    trace = traces[run] if end is None else until(traces[run], end)
    _seek(shown, state, run, trace, tick, step.request, fresh)
    with stage_place:
        st.fragment(_stage)(shown, step, run, trace, room=len(traces[run].records), why=not is_open)
    announce(words)
    _write_address(shown, state)
    teach_dialogs(here(_step_query(state), tick=0))


def _head(shown: Lesson, state: LessonState) -> None:
    """Title and progress, with the way into the teacher view."""
    with st.container(
        horizontal=True, horizontal_alignment="distribute", vertical_alignment="center", key="lesson_head"
    ):
        with st.container(key="lesson_title"):
            head(shown, state)
        with st.container(horizontal=True, horizontal_alignment="right", gap="small", width="content", key="pills"):
            if teach() is None:
                copy_link(here(_step_query(state), tick=0), key="lesson_copy", is_shown=False)
            teach_pill()
    teach_messages()


def _places() -> tuple[DeltaGenerator, DeltaGenerator]:
    """Where the band and the stage stand: under each other, in the teacher view side by side."""
    if teach() is None:
        return st.container(), st.container()
    with st.container(key="teach_lesson"):
        left, right = st.columns(TEACH_COLUMNS, gap="small")
    return left, right


def _seek(
    shown: Lesson, state: LessonState, run: str, trace: Trace, tick: int | None, request: str, fresh: bool
) -> None:
    """Send the stage to the step's tick whenever something else is to be shown than before; else it stays."""
    wanted = (shown.name, state.step, run, tick, len(trace.records))
    if not fresh and st.session_state.get("lesson_shown") == wanted:
        return
    st.session_state["lesson_shown"] = wanted
    st.session_state["lesson_cmd"] = st.session_state.get("lesson_cmd", 0) + 1
    tick = len(trace.records) - 1 if tick is None else tick
    # What the stage said before is out of date; without this it would be taken for an answer.
    st.session_state[STAGE] = {"view": {"tick": tick, "selected": request or None, "playing": False}}
    st.session_state["lesson_asked"] = (tick, request or None)


def _stage(shown: Lesson, step: Step, run: str, trace: Trace, *, room: int, why: bool) -> None:
    """The stage; the reasons are on the playground, where nothing is hidden, so they have to wait for an answer."""
    tick, request = st.session_state["lesson_asked"]
    is_real = "model" in (trace.backend.kind, trace.backend.recorded_kind)
    view = stage(
        trace,
        key=STAGE,
        tick=tick,
        cmd_id=st.session_state["lesson_cmd"],
        selected=request,
        panel=step.panel,
        room=room,
        why=why and is_shown("panels"),
        teach=stage_teach("lesson"),
        without=shown.without,
        status="recorded" if is_real else "synthetic",
        url=None,
    )
    if view.why_clicked:
        st.switch_page(
            "pages/playground.py", query_params=_instant(shown, run, view.tick, view.action_request or view.selected)
        )


def _instant(shown: Lesson, run: str, tick: int, request_id: str | None) -> Mapping[str, str]:
    """The same instant as an address of the playground."""
    chosen = shown.run(run)
    state = PlayState(chosen.scenario, overrides=dict(chosen.settings), selected=request_id or "")
    return to_query(state, DEFAULT_SCENARIO) | {"tick": str(tick)}


def _step_query(state: LessonState) -> dict[str, str]:
    return {"step": str(state.step)} if state.step > 1 else {}


def _write_address(shown: Lesson, state: LessonState) -> None:
    """Show the step in the address bar, without an entry in the history."""
    # The number makes every run of the page a new message: a link to the page itself empties the address.
    st.session_state["runs"] = st.session_state.get("runs", 0) + 1
    query = urlencode(_step_query(state) | teach_query())
    data = {"query": query, "path": f"/{shown.name}", "run": st.session_state["runs"], "tick": 0, "command": 0}
    _address(key="lesson_address", data=data)

"""The home page put together: one sentence, the best recorded run, and cards to what exists."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from pages.components.frame import PAGES
from pages.components.lesson_runs import shipped_lesson
from pages.components.link import tick_from
from pages.components.plain import plain
from pages.components.player import stage
from pages.components.runs import DEFAULT_SCENARIO, Workload, compute, recording, scenario_names, shipped
from scheduler_core.errors import TickscopeError
from scheduler_core.lesson import list_lessons
from scheduler_core.trace import Trace

SENTENCE = "See how a language model server decides who runs next."
RECORDED = (
    "A real small model answers six people at once. All you see is read from its recorded run: press play, or step."
)
CARDS_ABREAST = 3
MADE_UP = "Six people ask at once. Nothing was recorded here yet, so the tokens are made up: press play, or step."


def welcome() -> None:
    """Draw the home page."""
    st.title(SENTENCE, anchor=False)
    trace = _trace()
    if trace is None:
        return
    st.markdown(f":gray[{RECORDED if trace.backend.kind == 'model' else MADE_UP}]")
    tick, messages = tick_from(st.query_params.to_dict(), len(trace.records) - 1)
    for message in messages:
        st.warning(plain(message))
    st.fragment(_stage)(trace, tick)
    st.subheader("Learn it in three lessons", anchor=False)
    _lessons()
    st.subheader("Try it yourself", anchor=False)
    _cards()


def _trace() -> Trace | None:
    """The recorded run, or the same requests with made-up tokens where nothing was recorded."""
    try:
        recorded = recording(DEFAULT_SCENARIO)
        return recorded or compute(
            Workload(shipped(DEFAULT_SCENARIO), None), shipped(DEFAULT_SCENARIO).config, "synthetic"
        )
    except TickscopeError as problem:
        st.error(plain(str(problem)))
        return None


def _stage(trace: Trace, tick: int) -> None:
    is_real = trace.backend.kind == "model"
    view = stage(
        trace,
        key="home_stage",
        tick=tick,
        status="recorded" if is_real else "synthetic",
        clock="measured" if is_real else "virtual",
        tour=True,
    )
    if view.why_clicked:
        st.switch_page("pages/playground.py", query_params=_instant(view.tick, view.action_request))


def _instant(tick: int, request_id: str | None) -> dict[str, str]:
    return {"tick": str(tick), **({"selected": request_id} if request_id else {})}


def _lessons() -> None:
    """A card for each lesson."""
    names = list_lessons()
    with st.container(key="lesson_cards"):
        for column, name in zip(st.columns(CARDS_ABREAST), names, strict=False):
            with column.container(border=True, height="stretch", key=f"card_lesson_{name}"):
                lesson = shipped_lesson(name)
                st.markdown(f"**{lesson.number}. {plain(lesson.title)}**")
                st.caption(f"{plain(lesson.summary)} About {lesson.minutes} minutes.")
                st.page_link(f"pages/{name}.py", label=":blue[Start the lesson ›]")


def _cards() -> None:
    """One card for each scenario, and a link to each page that has no card."""
    names = scenario_names()
    with st.container(key="cards"):
        for start in range(0, len(names), CARDS_ABREAST):
            for column, name in zip(st.columns(CARDS_ABREAST), names[start : start + CARDS_ABREAST], strict=False):
                with column.container(border=True, height="stretch", key=f"card_{name}"):
                    _card(name)
        with st.container(horizontal=True, gap="medium"):
            for entry in PAGES:
                if entry.group and Path(entry.path).stem not in list_lessons():
                    st.page_link(entry.path, label=f":blue[{entry.label} ›]", width="content")


def _card(name: str) -> None:
    scenario = shipped(name)
    st.markdown(f"**{plain(scenario.title)}**")
    st.caption(plain(scenario.description))
    st.page_link("pages/playground.py", label=":blue[Open on the playground ›]", query_params={"scenario": name})

"""The home page put together: one sentence, the best recorded run, and cards to what exists."""

from __future__ import annotations

import streamlit as st

from pages.components.frame import PAGES, PageEntry
from pages.components.plain import plain
from pages.components.player import stage
from pages.components.runs import DEFAULT_SCENARIO, Workload, compute, recording, scenario_names, shipped
from scheduler_core.errors import TickscopeError
from scheduler_core.trace import Trace

SENTENCE = "See how a language model server decides who runs next."
RECORDED = (
    "A real small model answers six people at once. All you see is read from its recorded run: press play, or step."
)
MADE_UP = "Six people ask at once. Nothing was recorded here yet, so the tokens are made up: press play, or step."


def welcome(fresh: bool) -> None:
    """Draw the home page."""
    del fresh
    st.title(SENTENCE, anchor=False)
    trace = _trace()
    st.markdown(f":gray[{RECORDED if trace is not None and trace.backend.kind == 'model' else MADE_UP}]")
    if trace is not None:
        st.fragment(_stage)(trace)
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


def _stage(trace: Trace) -> None:
    is_real = trace.backend.kind == "model"
    view = stage(
        trace,
        key="home_stage",
        tick=_tick_asked(),
        status="recorded" if is_real else "synthetic",
        clock="measured" if is_real else "virtual",
    )
    if view.why_clicked:
        st.switch_page("pages/playground.py", query_params=_instant(view.tick, view.action_request))


def _tick_asked() -> int:
    """The tick in the address, 0 where there is none that makes sense."""
    text = st.query_params.get("tick", "0")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 8 else 0


def _instant(tick: int, request_id: str | None) -> dict[str, str]:
    return {"tick": str(tick), **({"selected": request_id} if request_id else {})}


def _cards() -> None:
    """One card for each scenario of the playground, and one for each further page."""
    columns = st.columns(3)
    for place, name in enumerate(scenario_names()):
        scenario = shipped(name)
        with columns[place % 3].container(border=True, height="stretch", key=f"card_{name}"):
            st.markdown(f"**{plain(scenario.title)}**")
            st.caption(plain(scenario.description))
            st.page_link("pages/playground.py", label="Open on the playground", query_params={"scenario": name})
    for entry in _further_pages():
        st.page_link(entry.path, label=entry.label)


def _further_pages() -> list[PageEntry]:
    return [entry for entry in PAGES if entry.group]

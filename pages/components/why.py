"""Why the chosen request did what it did in a tick, rule by rule."""

from __future__ import annotations

import streamlit as st

from pages.components.plain import plain
from pages.components.terms import mark
from scheduler_core.explain import explain
from scheduler_core.explanation import Check
from scheduler_core.trace import Trace

#: A mark for each rule that was met or not, so that it does not hang on colour.
_MARKS = {True: ":green[**✓**]", False: ":orange[**×**]", None: ":gray[·]"}


def why(trace: Trace, request_id: str, tick: int) -> None:
    """Draw the explanation of one request in one tick."""
    told = explain(trace, min(tick, len(trace.records) - 1), request_id)
    with st.container(key="why"):
        st.subheader(plain(told.headline), anchor=False)
        seen: set[str] = set()
        for check in told.checks:
            _rule(check, seen)
        if told.remedy:
            st.markdown(f":gray[{mark(plain(told.remedy), seen)}]")


def _rule(check: Check, seen: set[str]) -> None:
    with st.container(horizontal=True, gap="xsmall", wrap=False):
        st.markdown(_MARKS[check.ok], width=18)
        st.markdown(mark(plain(check.text), seen))

"""What a visitor can take away: the run, its events, a picture, and a link to this instant."""

from __future__ import annotations

import csv
import io
from dataclasses import astuple, fields

import streamlit as st

from pages.components.plain import visible
from pages.components.timeline_svg import timeline_svg
from scheduler_core.metrics import EventRow, events_table
from scheduler_core.perfetto import to_perfetto
from scheduler_core.trace import Trace

MAX_LINK = 8_000


def export(trace: Trace, address: str) -> None:
    """Offer the files and the link; each file is made when it is asked for."""
    name = trace.scenario or "run"
    with st.container(horizontal=True):
        st.download_button(
            "Trace (JSON, gzipped)",
            trace.to_bytes,
            f"{name}.json.gz",
            "application/gzip",
            key="export_trace",
            on_click="ignore",
        )
        st.download_button(
            "Events (CSV)",
            lambda: events_csv(trace),
            f"{name}-events.csv",
            "text/csv",
            key="export_csv",
            on_click="ignore",
        )
        st.download_button(
            "Timeline (SVG)",
            lambda: timeline_svg(trace),
            f"{name}.svg",
            "image/svg+xml",
            key="export_svg",
            on_click="ignore",
        )
        st.download_button(
            "Perfetto trace",
            lambda: to_perfetto(trace),
            f"{name}-perfetto.json",
            "application/json",
            key="export_perfetto",
            on_click="ignore",
        )
    st.caption("The trace replays with: python -m scheduler_core replay FILE")
    st.caption("The Perfetto trace opens at ui.perfetto.dev or chrome://tracing; each request is a track.")
    st.markdown("**Link to this instant**")
    if len(address) > MAX_LINK:
        st.caption("Your requests are too long for a link; take the trace instead.")
    else:
        st.code(address, language=None, wrap_lines=True)


def events_csv(trace: Trace) -> str:
    """All events as a spreadsheet."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow([field.name for field in fields(EventRow)])
    for row in events_table(trace):
        writer.writerow([_cell(value) for value in astuple(row)])
    return text.getvalue()


def _cell(value: object) -> object:
    """A spreadsheet takes text that begins with one of these marks for a formula."""
    if not isinstance(value, str):
        return value
    return f"'{visible(value)}" if value.startswith(("=", "+", "-", "@", "\t")) else visible(value)

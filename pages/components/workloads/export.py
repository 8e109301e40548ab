"""What can be taken away: the figures as JSON, as `bench load` writes them, and tables as CSV."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Sequence
from typing import Any

import streamlit as st

from pages.components.copy_link import copy_link
from pages.components.plain import visible
from pages.components.workloads.work import Outcome
from scheduler_core.bench.load import report
from scheduler_core.bench.load.plan import Workload
from scheduler_core.load.request import Load
from scheduler_core.summary import Targets


def export(outcomes: Sequence[Outcome], targets: Targets, source: dict[str, Any], address: str) -> None:
    """Draw the tab; each file is made when it is asked for."""
    st.subheader("The figures", anchor=False)
    with st.container(horizontal=True):
        st.download_button(
            "Figures (JSON)",
            lambda: figures_json(outcomes, targets, source),
            "load.json",
            "application/json",
            key="wl_json",
            on_click="ignore",
        )
        st.download_button(
            "Requests (CSV)",
            lambda: requests_csv(outcomes),
            "requests.csv",
            "text/csv",
            key="wl_csv",
            on_click="ignore",
        )
    st.caption(
        "One document for each configuration, with vLLM's result keys, as `python -m scheduler_core bench load` writes "
        "it. The CSV has a line for each request on each configuration."
    )
    st.subheader("Link to these settings", anchor=False)
    copy_link(address, key="wl_copy")
    if source.get("kind") == "file":
        st.caption("A file does not travel in a link: whoever opens it has to bring the same file.")


def figures_json(outcomes: Sequence[Outcome], targets: Targets, source: dict[str, Any]) -> str:
    """The documents in a list."""
    workload = Workload(_nothing, source, str(source.get("attribution", "")))
    documents = [
        {
            "configuration": outcome.server.name,
            **report.document(
                workload,
                outcome.server.config,
                targets,
                [report.run_figures(outcome.result, targets, None, details=True)],
            ),
        }
        for outcome in outcomes
    ]
    return json.dumps(documents, indent=1) + "\n"


def _nothing(rate: float | None) -> Load:
    """A document tells where a load comes from; it does not send it."""
    raise AssertionError(f"no load is made at rate {rate}")


COLUMNS = (
    "configuration",
    "id",
    "tenant",
    "arrival_s",
    "input_tokens",
    "cached_tokens",
    "output_tokens",
    "reason",
    "ttft_s",
    "tpot_s",
    "e2el_s",
    "preemptions",
)


def requests_csv(outcomes: Sequence[Outcome]) -> str:
    """All requests as a spreadsheet."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(COLUMNS)
    for outcome in outcomes:
        for facts in outcome.result.facts:
            row = {"configuration": outcome.server.name, **report.request_row(facts)}
            writer.writerow(cells(row[name] for name in COLUMNS))
    return text.getvalue()


def cells(values: Iterable[Any]) -> list[Any]:
    """A spreadsheet takes text that begins with one of these marks for a formula."""
    return [_cell(value) for value in values]


def _cell(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    return f"'{visible(value)}" if value.startswith(("=", "+", "-", "@", "\t")) else visible(value)

"""Charts of a whole run in Plotly, each with its table. They do not follow the playhead, so a zoom stays."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import plotly.graph_objects as go
import streamlit as st
from plotly.subplots import make_subplots

from pages.components.blame_charts import where_time_went, who_cost_whom
from pages.components.chart import BARE, BLUE, GREEN, GREY, PURPLE, VERMILLION, Chart, clock, look
from pages.components.empty import empty
from pages.components.roofline_chart import roofline_chart
from pages.components.steering_chart import steering_chart
from pages.components.terms import mark
from scheduler_core.blame import Blame, blame, cost_matrix
from scheduler_core.metrics import Series, request_metrics, series
from scheduler_core.trace import Trace


def charts(trace: Trace) -> None:
    """Draw every chart of the run with its table."""
    if not trace.records:
        empty("There is no tick to draw yet. Charts appear with the first one.", key="no_tick")
        return
    ledger = _ledger(trace)
    steered = steering_chart(trace)
    drawn = (queue_and_memory(trace), *([steered] if steered else []), first_and_next_tokens(trace))
    ledgers = (where_time_went(trace, ledger), who_cost_whom(trace, ledger))
    told: set[str] = set()
    for chart in (*drawn, *ledgers, roofline_chart(trace.config.cost)):
        st.subheader(chart.title, anchor=False)
        if text := nothing_in(chart, ledger):
            empty(text, key=f"no_{chart.key}")
            continue
        st.caption(mark(chart.note, told))
        st.plotly_chart(
            chart.figure,
            key=f"chart_{chart.key}",
            alt=chart.alt,
            config=BARE,
        )
        with st.expander("As a table", key=f"table_{chart.key}", type="compact"):
            st.dataframe(chart.table, hide_index=True, key=f"data_{chart.key}")


def nothing_in(chart: Chart, ledger: Sequence[Blame]) -> str:
    """What to do where a chart would have nothing in it, "" where it has."""
    if chart.key == "tokens" and not chart.table["TTFT (s)"].notna().any():
        return "No request has a token yet. Play on, or give the requests more room."
    if chart.key == "blame" and not cost_matrix(ledger):
        return "Nobody waited for anybody. Add a request, or take fewer lanes, to see who costs whom."
    return ""


def _ledger(trace: Trace) -> tuple[Blame, ...]:
    """The ledger, kept with the very trace that it was made from: a step must not reckon it again."""
    kept = st.session_state.get("_ledger")
    if kept is None or kept[0] is not trace:
        st.session_state["_ledger"] = kept = (trace, blame(trace))
    ledger: tuple[Blame, ...] = kept[1]
    return ledger


def queue_and_memory(trace: Trace) -> Chart:
    """Waiting and running requests, and blocks in use and kept, over virtual time."""
    line = series(trace)
    times = [*line.start_s, line.end_s[-1]]
    figure = make_subplots(rows=2, cols=1, shared_xaxes=True, vertical_spacing=0.12)
    figure.add_trace(_steps(times, line.waiting, "waiting", GREY, "dot"), row=1, col=1)
    figure.add_trace(_steps(times, line.running, "running", BLUE, "solid"), row=1, col=1)
    figure.add_trace(_steps(times, line.used_blocks, "blocks in use", GREEN, "solid", fill=True), row=2, col=1)
    figure.add_trace(_steps(times, line.cached_blocks, "blocks findable", PURPLE, "dash"), row=2, col=1)
    look(figure, height=340, x_title=clock(trace))
    figure.update_xaxes(title_text="", row=1, col=1)
    figure.update_yaxes(title_text="requests", rangemode="tozero", row=1, col=1)
    figure.update_yaxes(title_text="KV blocks", range=[0, trace.config.num_blocks * 1.04], row=2, col=1)
    alt = (
        f"Over {len(line.tick)} ticks, up to {max(line.waiting)} requests wait and up to {max(line.running)} run; "
        f"up to {max(line.used_blocks)} of {trace.config.num_blocks} blocks of memory are in use."
    )
    note = "The queue and the memory, tick by tick. Findable blocks hold a beginning that a later prompt can reuse."
    return Chart("queue", "Queue and memory", note, alt, figure, _series_table(line))


def first_and_next_tokens(trace: Trace) -> Chart:
    """Time to the first token, and gaps between the next ones, for each request."""
    figures = request_metrics(trace)
    ids = [m.id for m in figures]
    figure = go.Figure()
    figure.add_bar(
        x=ids,
        y=[m.ttft_s for m in figures],
        name="first token (TTFT)",
        marker={"color": BLUE},
        hovertemplate="%{x}: %{y:.3g} s<extra>TTFT</extra>",
    )
    figure.add_bar(
        x=ids,
        y=[m.mean_itl_s for m in figures],
        name="mean gap (ITL)",
        marker={"color": GREEN},
        hovertemplate="%{x}: %{y:.3g} s<extra>mean ITL</extra>",
    )
    figure.add_scatter(
        x=ids,
        y=[m.worst_gap_s for m in figures],
        name="worst gap",
        mode="markers",
        marker={"color": VERMILLION, "symbol": "diamond", "size": 10},
        hovertemplate="%{x}: %{y:.3g} s<extra>worst gap</extra>",
    )
    look(figure, height=300, x_title="", y_title="seconds")
    figure.update_layout(barmode="group", bargap=0.35)
    table = pd.DataFrame(
        {
            "request": ids,
            "TTFT (s)": [m.ttft_s for m in figures],
            "mean ITL (s)": [m.mean_itl_s for m in figures],
            "worst gap (s)": [m.worst_gap_s for m in figures],
            "TPOT (s)": [m.tpot_s for m in figures],
            "E2E (s)": [m.e2e_s for m in figures],
            "prompt tokens": [m.num_prompt_tokens for m in figures],
            "cached tokens": [m.num_cached_tokens for m in figures],
            "output tokens": [m.num_output_tokens for m in figures],
            "preemptions": [m.num_preemptions for m in figures],
        }
    )
    waits = [m for m in figures if m.ttft_s is not None]
    slowest = max(waits, key=lambda m: m.ttft_s or 0.0, default=None)
    alt = "No request has a token yet."
    if slowest is not None:
        alt = f"{slowest.id} waits longest for its first token: {slowest.ttft_s:.3g} seconds."
    note = (
        "TTFT is the first token less the arrival; ITL the gaps between tokens of one answer. "
        f"Times are {clock(trace)}."
    )
    return Chart("tokens", "First token and gaps", note, alt, figure, table)


def _steps(
    times: Sequence[float], values: Sequence[int], name: str, color: str, dash: str, *, fill: bool = False
) -> go.Scatter:
    """A line that stands still within a tick; the last value is drawn to the end."""
    return go.Scatter(
        x=times,
        y=[*values, values[-1]],
        name=name,
        mode="lines",
        line={"color": color, "dash": dash, "shape": "hv", "width": 2},
        fill="tozeroy" if fill else None,
        fillcolor="rgba(0, 158, 115, 0.16)" if fill else None,
        hovertemplate=f"%{{x:.3g}} s: %{{y}}<extra>{name}</extra>",
    )


def _series_table(line: Series) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "tick": line.tick,
            "start (s)": line.start_s,
            "end (s)": line.end_s,
            "waiting": line.waiting,
            "running": line.running,
            "blocks in use": line.used_blocks,
            "blocks findable": line.cached_blocks,
            "tokens": line.scheduled_tokens,
            "budget": line.token_budget,
            "measured (s)": line.wall_s,
        }
    )

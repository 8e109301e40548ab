"""The tab of a load sweep: the same load faster and faster, until the server gives in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd
import plotly.graph_objects as go
import streamlit as st
from plotly.subplots import make_subplots

from pages.components.chart import GREY, Chart, label, look
from pages.components.plain import plain, visible
from pages.components.settings import limits
from pages.components.workloads.drawn import COLORS, DASHES, NOTHING, amount, draw
from pages.components.workloads.job import JobState
from pages.components.workloads.latency import few, good_share
from pages.components.workloads.load_step import ChosenLoad
from pages.components.workloads.run_step import progress, run_key
from pages.components.workloads.visit import load_visit
from pages.components.workloads.widgets import begin
from pages.components.workloads.work import Server, sweep_rates
from scheduler_core.bench.load.knee import knee
from scheduler_core.bench.load.plan import parse_rates
from scheduler_core.errors import TickscopeError
from scheduler_core.summary import Targets

SWEEP = "sweep"
MAX_RATES = 12

_Found = Sequence[tuple[Server, dict[str, Any]]]


def sweep(load: ChosenLoad | None, servers: Sequence[Server], targets: Targets, usual_rate: float) -> None:
    """Draw the tab."""
    visit = load_visit()
    st.caption(
        "The same requests, sent at several rates. Goodput grows with the rate until the server gives in; the knee is "
        "the highest rate that it still serves well."
    )
    usual = ", ".join(f"{usual_rate * factor:.3g}" for factor in (0.5, 1, 2, 3, 4, 6))
    with st.container(horizontal=True, vertical_alignment="bottom"):
        text = st.text_input("Requests per second, with commas", key=begin("wl_rates", usual), max_chars=200, width=360)
        ready = load is not None and bool(servers) and not visit.is_computing
        clicked = st.button("Run the sweep", key="wl_sweep", disabled=not ready)
    if clicked and load is not None:
        try:
            rates = parse_rates(text)
            if len(rates) > MAX_RATES:
                raise_too_many(len(rates))
        except TickscopeError as problem:
            st.error(plain(f"{problem}."))
        else:
            key = run_key(load, [*servers])
            visit.start(SWEEP, key, sweep_rates(load.make, servers, targets, rates, limits()))
            st.rerun()
    job = visit.jobs.get(SWEEP)
    if job is None:
        return
    if job.is_going:
        progress(SWEEP)
    if job.state is JobState.FAILED:
        st.error(plain(f"{job.problem}."))
    if job.state is JobState.CANCELLED:
        st.warning("Cancelled: only the rates that were done are shown.")
    for note in job.notes:
        st.warning(plain(note))
    if job.results:
        _show([*job.results])


def raise_too_many(count: int) -> None:
    """Refuse a sweep that is too long for this page."""
    raise TickscopeError(f"there are {count} rates; this page runs at most {MAX_RATES}")


def _show(found: _Found) -> None:
    draw(sweep_chart(found))
    for server, runs in _by_server(found):
        st.markdown(f"**{plain(server.name)}**: {plain(knee_words(knee(runs)))}")


def knee_words(found: dict[str, Any]) -> str:
    """Where the knee is, in words."""
    if found["rate"] is None:
        return f"the knee is below the lowest rate; it is {found['rule']}."
    more = " It is the highest rate here, so the knee may lie above." if found["is_highest"] else ""
    return f"the knee is at {found['rate']:g} requests per second, {found['rule']}.{more}"


def _by_server(found: _Found) -> list[tuple[Server, list[dict[str, Any]]]]:
    servers = list({server.name: server for server, _ in found}.values())
    return [(server, [figures for each, figures in found if each.name == server.name]) for server in servers]


def sweep_chart(found: _Found) -> Chart:
    """Goodput (or throughput) above, TTFT p99 below, by rate, with the knee of each configuration."""
    has_targets = any(figures["request_goodput"] is not None for _, figures in found)
    figure = make_subplots(rows=2, cols=1, shared_xaxes=True, vertical_spacing=0.08)
    rows = []
    for number, (server, runs) in enumerate(_by_server(found)):
        name, rates = label(server.name), [run["request_rate"] for run in runs]
        served = "request_goodput" if has_targets else "request_throughput"
        for row, key in ((1, served), (2, "p99_ttft_ms")):
            figure.add_trace(
                go.Scatter(
                    x=rates,
                    y=[run[key] for run in runs],
                    name=name,
                    mode="lines+markers",
                    line={"color": COLORS[number], "dash": DASHES[number], "width": 2},
                    showlegend=row == 1,
                    hovertemplate=f"%{{x:.4g}} a second: %{{y:,.4g}}<extra>{name}</extra>",
                ),
                row=row,
                col=1,
            )
        at = knee(runs)["rate"]
        if at is not None:
            _mark(figure, at, next(run[served] for run in runs if run["request_rate"] == at), COLORS[number])
        rows += [_row(server, run, is_knee=run["request_rate"] == at) for run in runs]
    look(figure, height=440, x_title="")
    figure.update_xaxes(title_text="requests sent per second", row=2, col=1)
    figure.update_yaxes(title_text="good/s" if has_targets else "requests/s", rangemode="tozero", row=1, col=1)
    figure.update_yaxes(title_text="TTFT p99, ms", type="log", row=2, col=1)
    knees = [f"{server.name}: {knee_words(knee(runs))}" for server, runs in _by_server(found)]
    title = "Goodput and tail by rate" if has_targets else "Throughput and tail by rate"
    return Chart("sweep", title, "", " ".join(knees), figure, pd.DataFrame(rows))


def _mark(figure: go.Figure, rate: float, height: float, color: str) -> None:
    figure.add_trace(
        go.Scatter(
            x=[rate],
            y=[height],
            mode="markers+text",
            text=["knee"],
            textposition="top center",
            marker={"color": color, "symbol": "diamond", "size": 13, "line": {"color": GREY, "width": 1}},
            showlegend=False,
            hovertemplate="knee at %{x:.4g} a second<extra></extra>",
        ),
        row=1,
        col=1,
    )


def _row(server: Server, run: dict[str, Any], *, is_knee: bool) -> dict[str, str]:
    good = good_share(run)
    return {
        "configuration": visible(server.name),
        "rate (1/s)": amount(run["request_rate"]),
        "requests/s": amount(run["request_throughput"]),
        "good/s": amount(run["request_goodput"]),
        "good": NOTHING if good is None else f"{100 * good:.1f} %",
        "TTFT p50 (ms)": amount(run["median_ttft_ms"]),
        "TTFT p99 (ms)": amount(run["p99_ttft_ms"]) + ("*" if few(run, "ttft") else ""),
        "ITL p99 (ms)": amount(run["p99_itl_ms"]) + ("*" if few(run, "itl") else ""),
        "n": f"{run['num_samples']['ttft']:,}",
        "knee": "knee" if is_knee else "",
    }

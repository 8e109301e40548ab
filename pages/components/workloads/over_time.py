"""The tab of a run over time: an overview in buckets, any stretch of it nearer, and ticks of it on the stage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import plotly.graph_objects as go
import streamlit as st
from plotly.subplots import make_subplots

from pages.components.chart import BARE, BLUE, GREEN, GREY, PURPLE, VERMILLION, look
from pages.components.plain import plain
from pages.components.player import stage
from pages.components.workloads.drawn import twin
from pages.components.workloads.job import JobState
from pages.components.workloads.run_step import progress
from pages.components.workloads.visit import load_visit
from pages.components.workloads.work import Outcome, open_window
from scheduler_core.big_run.tick_series import Overview, TickSeries
from scheduler_core.trace import Trace

WINDOW = "window"
STAGE = "workloads_stage"
#: Buckets of time that are sent to the browser; each is drawn in five lines, so these are all the marks.
BUCKETS = 500
#: A window on the stage is no longer than this; the stage could take more, the browser should not have to.
MAX_STAGE_TICKS = 400


def over_time(outcomes: Sequence[Outcome]) -> None:
    """Draw the tab."""
    names = [outcome.server.name for outcome in outcomes]
    place = 0
    if len(outcomes) > 1:
        chosen = st.segmented_control(
            "Configuration", range(len(names)), default=0, key="wl_over", required=True,
            format_func=lambda number: plain(names[number]),
        )  # fmt: skip
        place = min(chosen or 0, len(names) - 1)
    outcome = outcomes[place]
    series = outcome.result.series
    if not len(series):
        st.markdown("No tick was computed.")
        return
    start, end = _stretch(outcome, place)
    view = series.overview(BUCKETS, start, end)
    st.caption(
        "Drawn in buckets of equal time: lines are means over a bucket. Drag over the figure, or move the ends of the "
        "slider, to come nearer; all figures are of virtual time."
    )
    st.plotly_chart(
        overview_figure(view, outcome.server.config.num_blocks),
        key=f"wl_overview {place}",
        alt=_alt(view, outcome),
        config=BARE,
        on_select=lambda: _selected(place),
        selection_mode="box",
    )
    twin("overview", overview_table(view))
    _to_stage(outcome, series, start, end)


def _stretch(outcome: Outcome, place: int) -> tuple[float, float]:
    """The seconds that are looked at."""
    last = float(outcome.result.series.end_s[-1])
    key = f"wl_stretch {place} {id(outcome)}"
    if key not in st.session_state:
        st.session_state[key] = (0.0, last)
    low, high = st.slider("From, to (s)", 0.0, last, key=key, step=max(last / 2_000, 1e-4), format="%.4g")
    st.session_state["wl_stretch_key"] = (key, last)
    return (low, high) if high > low else (0.0, last)


def _selected(place: int) -> None:
    """Come nearer to what was dragged over."""
    event: Mapping[str, Any] = st.session_state.get(f"wl_overview {place}") or {}
    boxes = (event.get("selection") or {}).get("box") or ()
    found = sorted(float(x) for box in boxes[:1] for x in box.get("x", ())[:2])
    key, last = st.session_state["wl_stretch_key"]
    if len(found) == 2 and found[1] > found[0]:
        st.session_state[key] = (max(0.0, found[0]), min(last, found[1]))


def overview_figure(view: Overview, num_blocks: int) -> go.Figure:
    """Queue and running, KV, and tokens a second, over the same time."""
    middles = [(a + b) / 2 for a, b in zip(view.edges_s, view.edges_s[1:], strict=False)]
    figure = make_subplots(rows=3, cols=1, shared_xaxes=True, vertical_spacing=0.06, row_heights=[0.4, 0.35, 0.25])
    kv = "KV blocks"
    _line(figure, middles, view.mean["waiting"], "waiting", GREY, "dot", 1)
    _line(figure, middles, view.mean["running"], "running", BLUE, "solid", 1)
    _line(figure, middles, view.mean["used_blocks"], "blocks in use", GREEN, "solid", 2)
    _line(figure, middles, view.mean["cached_blocks"], "blocks findable", PURPLE, "dash", 2)
    _line(figure, middles, view.tokens_per_s, "tokens computed a second", VERMILLION, "solid", 3)
    look(figure, height=440, x_title="")
    figure.update_layout(dragmode="select")
    figure.update_xaxes(title_text="seconds (virtual)", row=3, col=1)
    figure.update_yaxes(title_text="requests", rangemode="tozero", row=1, col=1)
    most = max((*view.most["used_blocks"], *view.most["cached_blocks"], 1))
    figure.update_yaxes(title_text=kv, range=[0, min(num_blocks, most) * 1.05], row=2, col=1)
    figure.update_yaxes(title_text="tokens/s", rangemode="tozero", row=3, col=1)
    return figure


def _line(
    figure: go.Figure, x: Sequence[float], y: Sequence[float], name: str, color: str, dash: str, row: int
) -> None:
    figure.add_trace(
        go.Scatter(
            x=x,
            y=y,
            name=name,
            # Without markers that can be picked a box selects nothing and is not told.
            mode="lines+markers",
            marker={"size": 1, "color": color},
            line={"color": color, "dash": dash, "width": 1.5},
            hovertemplate=f"%{{x:.4g}} s: %{{y:,.4g}}<extra>{name}</extra>",
        ),
        row=row,
        col=1,
    )


def overview_table(view: Overview) -> pd.DataFrame:
    """The buckets, a line each."""
    return pd.DataFrame(
        {
            "from (s)": view.edges_s[:-1],
            "to (s)": view.edges_s[1:],
            "first tick": view.first_tick,
            "last tick": view.last_tick,
            "waiting": view.mean["waiting"],
            "most waiting": view.most["waiting"],
            "running": view.mean["running"],
            "blocks in use": view.mean["used_blocks"],
            "blocks findable": view.mean["cached_blocks"],
            "tokens/s": view.tokens_per_s,
            "preemptions": view.preemptions,
            "longest tick (s)": view.longest_tick_s,
        }
    )


def _alt(view: Overview, outcome: Outcome) -> str:
    return (
        f"{outcome.server.name}, from {view.edges_s[0]:.4g} to {view.edges_s[-1]:.4g} seconds: up to "
        f"{max(view.most['waiting'], default=0):,} requests wait and up to {max(view.most['running'], default=0):,} "
        f"run; up to {max(view.most['used_blocks'], default=0):,} of {outcome.server.config.num_blocks:,} blocks are "
        "in use."
    )


# The stage


def _to_stage(outcome: Outcome, series: TickSeries, start: float, end: float) -> None:
    visit = load_visit()
    first, last = series.tick_at(start), series.tick_at(end)
    most = min(outcome.run.most_window_ticks, MAX_STAGE_TICKS)
    shown = min(last, first + most - 1)
    with st.container(horizontal=True, vertical_alignment="center"):
        clicked = st.button(
            "Open this window on the stage", key="wl_open_window", type="primary", disabled=visit.is_computing
        )
        ticks = f"ticks {first:,} to {last:,}"
        more = "" if shown == last else f"; the stage takes {most:,} at once, so it shows the first, to {shown:,}"
        st.markdown(f":gray[This window has {ticks}{more}.]", width="content")
    if clicked:
        st.session_state["wl_window_name"] = outcome.server.name
        # A new window is a new run for the stage, which then begins at its first tick.
        st.session_state["wl_windows"] = st.session_state.get("wl_windows", 0) + 1
        visit.start(WINDOW, f"{first} {shown}", open_window(outcome.run, first, shown))
        st.rerun()
    job = visit.jobs.get(WINDOW)
    if job is None:
        return
    if job.is_going:
        progress(WINDOW)
    elif job.state is JobState.FAILED:
        st.error(plain(f"{job.problem}."))
    elif job.results:
        first_shown = int(visit.keys[WINDOW].split()[0])
        _stage(job.results[0], first_shown, int(st.session_state.get("wl_windows", 0)))


@st.fragment
def _stage(trace: Trace, first: int, command: int) -> None:
    st.markdown(
        f"**Ticks {first:,} to {first + len(trace.records) - 1:,} of "
        f"{plain(st.session_state.get('wl_window_name', ''))}.** Tick 0 on the stage is tick {first:,} of the run."
    )
    stage(
        trace,
        key=STAGE,
        cmd_id=command,
        tick=0,
        status="simulated",
        url=None,
        why=False,
        label=f"Stage: ticks from {first:,} of the run",
    )

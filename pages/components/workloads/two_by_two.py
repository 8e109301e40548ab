"""The tab of chunking and mixing: each alone, both together, neither."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from pages.components.chart import BARE, BLUE, GREEN, GREY, VERMILLION, Chart, look
from pages.components.plain import plain
from pages.components.settings import limits
from pages.components.workloads.drawn import amount
from pages.components.workloads.job import JobState
from pages.components.workloads.latency import few
from pages.components.workloads.run_step import progress
from pages.components.workloads.visit import load_visit
from pages.components.workloads.work import Outcome, Server, run_on_servers
from scheduler_core.bench.load.plan import generated
from scheduler_core.bench.load.two_by_two import CORNERS, corner_config, directions, usual_load
from scheduler_core.cost_model import MACHINES
from scheduler_core.summary import Targets

TWO_BY_TWO = "two_by_two"
SHAPE = "Shape, not the paper's numbers"
_LOOKS = dict(
    zip(
        (corner.key for corner in CORNERS),
        (("circle-open", GREY), ("square", BLUE), ("diamond", VERMILLION), ("star", GREEN)),
        strict=True,
    )
)


def two_by_two(cost: str, seed: int) -> None:
    """Draw the tab."""
    visit = load_visit()
    load = usual_load(cost, min(300, limits().max_load_requests), seed)
    st.markdown(
        "A prompt can be cut into **chunks**, and it can share its tick with the answers of others (**mixed** "
        "batches). Sarathi-Serve (OSDI 2024) takes the two apart: chunking alone shortens the gaps and delays first "
        "tokens, mixing alone does the reverse, both together are good at both."
    )
    st.caption(
        f"{load.num_requests:,} generated requests, {load.rate:g} a second, prompts of about {load.prompt.mean:,.0f} "
        f"tokens, answers of {load.output.mean:,.0f}, seed {seed}, on {MACHINES[cost].title}, simulated, with "
        f"{corner_config(CORNERS[0], cost).max_num_batched_tokens} tokens a tick; uncut prompts go past that. Where "
        "batches are not mixed, prompts and answers take ticks in turn."
    )
    if st.button("Run the four", key="wl_two_by_two", disabled=visit.is_computing):
        servers = [Server(corner.name, corner_config(corner, cost)) for corner in CORNERS]
        visit.start(TWO_BY_TWO, cost, run_on_servers(lambda: generated(load), servers, limits()))
        st.rerun()
    job = visit.jobs.get(TWO_BY_TWO)
    if job is None:
        return
    if job.is_going:
        progress(TWO_BY_TWO)
        return
    if job.state is JobState.FAILED:
        st.error(plain(f"{job.problem}."))
    if job.state is JobState.CANCELLED or any(not outcome.result.is_complete for outcome in job.results):
        st.warning("It was ended early, so the four cannot be compared. Run them again.")
        return
    if visit.keys[TWO_BY_TWO] != cost:
        st.info(
            f"These figures are of {MACHINES[visit.keys[TWO_BY_TWO]].title}. Run the four again for the new machine."
        )
    _show(job.results)


def _show(outcomes: Sequence[Outcome]) -> None:
    runs = {corner.key: outcome.figures(Targets()) for corner, outcome in zip(CORNERS, outcomes, strict=True)}
    chart = four_chart(runs)
    st.subheader(chart.title, anchor=False)
    st.plotly_chart(chart.figure, key="wl_chart_four", alt=chart.alt, config=BARE)
    st.dataframe(chart.table, hide_index=True, key="wl_four", height="content")
    for words, holds in directions(runs).items():
        st.markdown(f"{'✓' if holds else '✗'} {words[:1].upper()}{words[1:]}.")


def four_chart(runs: dict[str, dict[str, Any]]) -> Chart:
    """First tokens to the right are late, gaps further up are long: down and left is good."""
    figure = go.Figure()
    for corner in CORNERS:
        run, (symbol, color) = runs[corner.key], _LOOKS[corner.key]
        figure.add_scatter(
            x=[run["median_ttft_ms"]],
            y=[run["p99_itl_ms"]],
            mode="markers+text",
            name=corner.name,
            text=[corner.name],
            textposition="top center",
            marker={"symbol": symbol, "color": color, "size": 14, "line": {"width": 2, "color": color}},
            hovertemplate=f"{corner.name}: TTFT p50 %{{x:,.4g}} ms, ITL p99 %{{y:,.4g}} ms<extra></extra>",
            showlegend=False,
        )
    look(figure, height=340, x_title="TTFT p50, ms (left is good)", y_title="ITL p99, ms (down is good)")
    for axis, key in (("xaxis", "median_ttft_ms"), ("yaxis", "p99_itl_ms")):
        values = [run[key] for run in runs.values()]
        figure.update_layout({axis: {"range": [0, max(values) * 1.2]}})
    alt = "; ".join(
        f"{corner.name}: TTFT p50 {amount(runs[corner.key]['median_ttft_ms'])} ms, ITL p99 "
        f"{amount(runs[corner.key]['p99_itl_ms'])} ms"
        for corner in CORNERS
    )
    return Chart("four", f"Chunking and mixing: {SHAPE.lower()}", "", f"{alt}.", figure, four_table(runs))


def four_table(runs: dict[str, dict[str, Any]]) -> pd.DataFrame:
    """A line for each of the four."""
    rows = []
    for corner in CORNERS:
        run = runs[corner.key]
        rows.append(
            {
                "": corner.name,
                "chunked": "yes" if corner.chunked else "no",
                "mixed": "yes" if corner.mixed else "no",
                "TTFT p50 (ms)": amount(run["median_ttft_ms"]),
                "TTFT p99 (ms)": amount(run["p99_ttft_ms"]) + ("*" if few(run, "ttft") else ""),
                "ITL p50 (ms)": amount(run["median_itl_ms"]),
                "ITL p99 (ms)": amount(run["p99_itl_ms"]) + ("*" if few(run, "itl") else ""),
                "n (TTFT)": f"{run['num_samples']['ttft']:,}",
                "n (ITL)": f"{run['num_samples']['itl']:,}",
            }
        )
    return pd.DataFrame(rows)

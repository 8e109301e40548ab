"""The latency tab: figures of every configuration beside each other, distributions, percentiles with their samples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from pages.components.chart import GREY, Chart, label, look
from pages.components.plain import plain, visible
from pages.components.workloads.drawn import COLORS, DASHES, amount, draw, share
from pages.components.workloads.work import Outcome
from scheduler_core.request_facts import RequestFacts
from scheduler_core.summary import FEWEST_FOR_P99, RANKS, Targets

METRICS = {
    "ttft": ("TTFT", "Time to first token: from the arrival to the first token."),
    "itl": ("ITL", "Inter-token latency: the gaps between the tokens of an answer, all requests pooled."),
    "tpot": (
        "TPOT",
        "Time per output token after the first: (E2E - TTFT) / (output tokens - 1), one for each request.",
    ),
    "e2el": ("E2E", "End-to-end latency: from the arrival to the last token."),
}
#: Points of a curve that are sent to the browser.
MAX_POINTS = 400


def latency(outcomes: Sequence[Outcome], targets: Targets) -> None:
    """Draw the tab."""
    figures = [(outcome, outcome.figures(targets)) for outcome in outcomes]
    glance(figures)
    metric = st.segmented_control(
        "Latency", [*METRICS], default="ttft", key="wl_metric", required=True, format_func=lambda m: METRICS[m][0]
    )
    name = metric or "ttft"
    draw(distribution(outcomes, name, targets))
    st.subheader("Percentiles", anchor=False)
    st.dataframe(percentile_table(figures), hide_index=True, key="wl_percentiles", height="content")
    few = [
        f"{outcome.server.name}: {METRICS[each][0]} {found['num_samples'][each]:,}"
        for outcome, found in figures
        for each in METRICS
        if found["num_samples"][each] < FEWEST_FOR_P99
    ]
    if few:
        st.warning(
            plain(
                f"A p99 from fewer than {FEWEST_FOR_P99} samples says little more than the largest value, so it is "
                f"marked with *. Samples: {'; '.join(few)}."
            )
        )
    st.caption(
        "Milliseconds of virtual time. Percentiles are linear between ranks, over completed requests; n is the number "
        "of samples. Goodput is completed requests that keep all targets, per second."
    )


def glance(figures: Sequence[tuple[Outcome, dict[str, Any]]]) -> None:
    """One line for each configuration."""
    rows = [
        {
            "configuration": visible(outcome.server.name),
            "completed": f"{found['completed']:,} of {found['num_prompts']:,}",
            "failed": f"{found['failed']:,}",
            "requests/s": amount(found["request_throughput"]),
            "good/s": amount(found["request_goodput"]),
            "good": share(good_share(found)),
            "tokens out/s": amount(found["output_throughput"]),
            "TTFT p50": amount(found["median_ttft_ms"], "ms"),
            "ITL p99": amount(found["p99_itl_ms"], "ms") + ("*" if few(found, "itl") else ""),
            "most running": f"{found['max_concurrent_requests']:,}",
            "preemptions": f"{found['num_preemptions']:,}",
            "prefix hits": share(found["prefix_hit_rate"]),
        }
        for outcome, found in figures
    ]
    st.dataframe(pd.DataFrame(rows), hide_index=True, key="wl_glance", height="content")
    partial = [(o, f) for o, f in figures if not f["is_complete"]]
    for outcome, found in partial:
        st.warning(
            plain(
                f"{outcome.server.name}: partial figures. {found['completed'] + found['failed']:,} of "
                f"{found['num_prompts']:,} requests have ended, {found['unfinished']:,} were under way."
            )
        )


def few(found: dict[str, Any], metric: str) -> bool:
    """Whether a p99 of that figure needs a warning."""
    return bool(found["num_samples"][metric] < FEWEST_FOR_P99)


def good_share(found: dict[str, Any]) -> float | None:
    """Of the requests that were sent, those that kept the targets."""
    sent = found["completed"] + found["failed"] + found["unfinished"]
    if found["request_goodput"] is None or not sent:
        return None
    return float(round(found["request_goodput"] * found["duration"]) / sent)


def samples(facts: Sequence[RequestFacts], metric: str) -> np.ndarray:
    """Milliseconds of completed requests, ascending."""
    done = [each for each in facts if each.is_completed]
    if metric == "itl":
        gaps = [np.diff(np.asarray(each.token_times, dtype=np.float64)) for each in done]
        return np.sort(np.concatenate(gaps)) * 1e3 if gaps else np.empty(0)
    of = {"ttft": RequestFacts.ttft_s, "tpot": RequestFacts.tpot_s, "e2el": RequestFacts.e2e_s}[metric]
    values = (of.fget(each) for each in done)  # type: ignore[attr-defined]
    return np.sort(np.array([value for value in values if value is not None], dtype=np.float64)) * 1e3


def distribution(outcomes: Sequence[Outcome], metric: str, targets: Targets) -> Chart:
    """The share of samples up to each value."""
    title, meaning = METRICS[metric]
    figure, rows = go.Figure(), []
    for number, outcome in enumerate(outcomes):
        values = samples(outcome.result.facts, metric)
        if not len(values):
            continue
        shares = np.linspace(0, 100, min(MAX_POINTS, max(2, len(values))))
        points = np.percentile(values, shares)
        name = label(outcome.server.name)
        figure.add_scatter(
            x=points,
            y=shares,
            name=name,
            mode="lines",
            line={"color": COLORS[number], "dash": DASHES[number], "width": 2},
            hovertemplate=f"%{{y:.0f}} % within %{{x:.4g}} ms<extra>{name}</extra>",
        )
        rows += [
            {"configuration": visible(outcome.server.name), "share (%)": rank, "within (ms)": float(value)}
            for rank, value in zip(range(0, 101, 5), np.percentile(values, range(0, 101, 5)), strict=True)
        ]
    look(figure, height=320, x_title="milliseconds", y_title="% of samples")
    figure.update_xaxes(type="log", tickformat=",")
    goal = targets.given.get(f"{metric}_ms")
    if goal is not None:
        figure.add_scatter(
            x=[goal, goal],
            y=[0, 100],
            name="target",
            mode="lines",
            line={"color": GREY, "dash": "dot", "width": 1.5},
            hovertemplate="target: %{x:,.4g} ms<extra></extra>",
        )
    worst = max(rows, key=lambda row: row["within (ms)"], default=None)
    alt = "No request has completed." if worst is None else (
        f"{title} of {len(outcomes)} configurations; the longest is {worst['within (ms)']:,.4g} ms, with "
        f"{worst['configuration']}."
    )  # fmt: skip
    return Chart(f"latency_{metric}", f"{title}: how many within how long", meaning, alt, figure, pd.DataFrame(rows))


def percentile_table(figures: Sequence[tuple[Outcome, dict[str, Any]]]) -> pd.DataFrame:
    """A line for each configuration and latency."""
    rows = []
    for outcome, found in figures:
        for metric, (title, _) in METRICS.items():
            row = {"configuration": visible(outcome.server.name), "latency": title}
            row |= {"n": f"{found['num_samples'][metric]:,}", "mean": amount(found[f"mean_{metric}_ms"])}
            for rank in RANKS:
                mark = "*" if rank == 99 and few(found, metric) else ""
                row[f"p{rank}"] = amount(found[f"p{rank}_{metric}_ms"]) + mark
            rows.append(row)
    return pd.DataFrame(rows)

"""The blame ledger drawn: where the latency of each request went, and which request cost which how much."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import plotly.graph_objects as go

from pages.components.chart import BLUE, GREEN, GREY, ORANGE, PURPLE, SKY, VERMILLION, Chart, clock, look
from pages.components.plain import visible
from scheduler_core.blame import Blame, Cause, cost_matrix
from scheduler_core.trace import Trace

#: Words, colour, and a pattern for those who do not tell colours apart.
CAUSES: dict[Cause, tuple[str, str, str]] = {
    Cause.QUEUED: ("waits for its first lane", GREY, "/"),
    Cause.PREFILL: ("reads its prompt", BLUE, ""),
    Cause.DECODE: ("writes its answer", GREEN, ""),
    Cause.OTHERS: ("slowed down by others", ORANGE, "."),
    Cause.SKIPPED: ("in a lane, left out", PURPLE, "x"),
    Cause.PREEMPTED: ("preempted", VERMILLION, "\\"),
    Cause.RESTORE: ("copied back from the host", SKY, ""),
    Cause.LOAD: ("loaded from a cache below memory", SKY, "/"),
    Cause.RECOMPUTE: ("computes again what was lost", BLUE, "x"),
    Cause.IDLE: ("nothing runs", GREY, "."),
}

#: Up to so many requests the seconds stand in the squares.
MAX_NUMBERED = 12


def where_time_went(trace: Trace, ledger: Sequence[Blame]) -> Chart:
    """The latency of each request, split by cause."""
    figure = go.Figure()
    ids = [visible(entry.request_id) for entry in ledger]
    split = [entry.by_cause() for entry in ledger]
    for cause, (words, color, pattern) in CAUSES.items():
        seconds = [float(parts[cause]) for parts in split]
        if not any(seconds):
            continue
        stripes = {"shape": pattern, "fillmode": "overlay", "fgcolor": "#ffffff", "size": 7, "solidity": 0.22}
        figure.add_bar(
            y=ids,
            x=seconds,
            name=words,
            orientation="h",
            marker={"color": color, "pattern": stripes},
            hovertemplate=f"%{{y}}: %{{x:.3g}} s<extra>{words}</extra>",
        )
    look(figure, height=max(220, 90 + 30 * len(ledger)), x_title=clock(trace))
    figure.update_layout(barmode="stack", bargap=0.35, legend_traceorder="normal")
    figure.update_yaxes(autorange="reversed", showgrid=False, type="category")
    longest = max(ledger, key=lambda entry: entry.latency, default=None)
    alt = "No request has arrived yet."
    if longest is not None:
        told = [(CAUSES[cause][0], float(seconds)) for cause, seconds in longest.by_cause().items() if seconds]
        parts = ", ".join(f"{seconds:.3g} {words}" for words, seconds in told)
        alt = f"{longest.request_id} takes longest: {float(longest.latency):.3g} seconds, of which {parts}."
    note = (
        "From arrival to the last token; the parts add up to the latency. “Slowed down by others” is what ticks lasted "
        "longer than they would have with this request alone in them."
    )
    return Chart("waiting", "Where the time went", note, alt, figure, _cause_table(ledger))


def who_cost_whom(trace: Trace, ledger: Sequence[Blame]) -> Chart:
    """A square for each pair: how long the one waited while the server worked on the other."""
    ids = [entry.request_id for entry in ledger]
    matrix = {pair: float(seconds) for pair, seconds in cost_matrix(ledger).items()}
    cells = [[matrix.get((who, whom)) for who in ids] for whom in ids]
    shown = [visible(request_id) for request_id in ids]
    figure = go.Figure(
        go.Heatmap(
            x=shown,
            y=shown,
            z=cells,
            zmin=0,
            colorscale=[[0, "#FFF1E6"], [1, VERMILLION]],
            xgap=2,
            ygap=2,
            texttemplate="%{z:.3g}" if len(ids) <= MAX_NUMBERED else None,
            colorbar={"title": {"text": "s"}, "thickness": 10, "outlinewidth": 0},
            hovertemplate="%{y} waited %{z:.3g} s<br>while the server worked on %{x}<extra></extra>",
            hoverongaps=False,
        )
    )
    look(figure, height=max(260, 110 + 30 * len(ids)), x_title="the server worked on", y_title="waited")
    figure.update_yaxes(autorange="reversed", showgrid=False, type="category")
    figure.update_xaxes(showgrid=False, type="category")
    alt = "Nobody waited for anybody."
    if matrix:
        (who, whom), seconds = max(matrix.items(), key=lambda pair: pair[1])
        alt = f"{who} cost {whom} most: {seconds:.3g} seconds."
    note = (
        f"Seconds ({clock(trace)}) that the request of the row waited while the server worked on that of the column. "
        "A wait in the queue counts against all in the batch alike, a preemption against whom it was for, being left "
        "out against those who used up the budget, a longer tick against those who made it longer."
    )
    return Chart("blame", "Who cost whom how much", note, alt, figure, _pair_table(ids, cells))


def _cause_table(ledger: Sequence[Blame]) -> pd.DataFrame:
    columns: dict[str, list[object]] = {"request": [visible(entry.request_id) for entry in ledger]}
    split = [entry.by_cause() for entry in ledger]
    for cause, (words, _, _) in CAUSES.items():
        columns[f"{words} (s)"] = [float(parts[cause]) for parts in split]
    columns["all (s)"] = [float(entry.latency) for entry in ledger]
    return pd.DataFrame(columns)


def _pair_table(ids: Sequence[str], cells: Sequence[Sequence[float | None]]) -> pd.DataFrame:
    """Who waited by row, for whom by column, with the sums of both."""
    rows = [[seconds or 0.0 for seconds in row] for row in cells]
    rows.append([sum(column) for column in zip(*rows, strict=True)])
    columns: dict[str, list[object]] = {"waited": [*(visible(request_id) for request_id in ids), "all together"]}
    for place, request_id in enumerate(ids):
        columns[f"for {visible(request_id)} (s)"] = [row[place] for row in rows]
    columns["for all others (s)"] = [sum(row) for row in rows]
    return pd.DataFrame(columns)

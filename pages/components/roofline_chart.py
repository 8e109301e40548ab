"""The chart of the machines: what a tick takes by the tokens in it, with the knee of each."""

from __future__ import annotations

import pandas as pd
import plotly.graph_objects as go

from pages.components.chart import BLUE, GREEN, GREY, PURPLE, VERMILLION, Chart, look
from scheduler_core.cost_model import MACHINES
from scheduler_core.roofline import CONTEXT, LARGEST, REAL, SIZES, cost, decodes, knee, prefill

_COLORS = {"smollm2-cpu": BLUE, "llama-3.1-8b-a100": PURPLE, "llama-3.1-8b-h100": GREEN}


def roofline_chart(chosen: str) -> Chart:
    """All machines, the chosen one drawn strongly and with its decodes; none is where every tick lasts one second."""
    figure = go.Figure()
    for number, name in enumerate(REAL):
        # By turns below and above, as knees can lie close together.
        label = "top left" if number % 2 else "bottom center"
        _draw(figure, name, label, strong=name == chosen or chosen not in REAL)
    if chosen in REAL:
        costs = [cost(decodes(size), MACHINES[chosen]) for size in SIZES[:10]]
        figure.add_scatter(
            x=[c.tokens for c in costs],
            y=[1e3 * c.seconds for c in costs],
            name="decodes only",
            mode="lines",
            line={"color": _COLORS.get(chosen, GREY), "dash": "dot", "width": 2},
            hovertemplate="%{x} decodes: %{y:.3g} ms<extra></extra>",
        )
    look(figure, height=360, x_title="tokens in the tick", y_title="milliseconds")
    ticks = [1, 4, 16, 64, 256, 1024, 4096]
    figure.update_xaxes(type="log", tickvals=ticks, ticktext=[f"{t:,}" for t in ticks])
    figure.update_yaxes(
        type="log", tickvals=[5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000], tickformat=",", range=[0.45, 4.0]
    )
    note = (
        "What the cost model says of one chunk of a prompt. Left of the knee a tick takes as long as it takes to fetch "
        "the weights from memory, so more tokens cost almost nothing: decodes are there. Right of it arithmetic bounds "
        "the tick, and twice the tokens take twice as long: prefill is there. "
        f"Dotted: decodes with {CONTEXT} tokens before each."
    )
    found = ", ".join(f"{knee(MACHINES[name])} tokens on {MACHINES[name].title}" for name in REAL)
    return Chart("roofline", "Where the knee is", note, f"The knee is at {found}.", figure, _table())


def _draw(figure: go.Figure, name: str, label: str, *, strong: bool) -> None:
    machine, color = MACHINES[name], _COLORS.get(name, GREY)
    sizes = sorted({*SIZES, knee(machine)})
    costs = [cost(prefill(size), machine) for size in sizes]
    figure.add_scatter(
        x=[c.tokens for c in costs],
        y=[1e3 * c.seconds for c in costs],
        name=machine.title,
        mode="lines",
        opacity=1.0 if strong else 0.75,
        line={"color": color, "width": 3 if strong else 1.5},
        customdata=[c.bound_by for c in costs],
        hovertemplate="%{x} tokens: %{y:.3g} ms, bound by %{customdata}<extra></extra>",
    )
    turn = cost(prefill(knee(machine)), machine)
    if turn.tokens == LARGEST:
        return
    figure.add_scatter(
        x=[turn.tokens],
        y=[1e3 * turn.seconds],
        mode="markers+text",
        text=[f"knee: {turn.tokens}"],
        textposition=label,
        marker={"color": VERMILLION, "symbol": "diamond", "size": 11},
        hovertemplate=f"knee of {machine.title}: %{{x}} tokens, %{{y:.3g}} ms<extra></extra>",
        showlegend=False,
    )


def _table() -> pd.DataFrame:
    rows = [
        {
            "machine": MACHINES[name].title,
            "tokens": size,
            "a chunk (ms)": 1e3 * cost(prefill(size), MACHINES[name]).seconds,
            "bound by": cost(prefill(size), MACHINES[name]).bound_by,
            "decodes (ms)": 1e3 * cost(decodes(size), MACHINES[name]).seconds,
            "decodes bound by": cost(decodes(size), MACHINES[name]).bound_by,
            "knee at": knee(MACHINES[name]),
        }
        for name in REAL
        for size in SIZES
    ]
    return pd.DataFrame(rows)

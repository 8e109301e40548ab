"""`Chart`: a figure with its words and its table, and the looks that all figures share."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

import pandas as pd
import plotly.graph_objects as go

from pages.components.plain import visible
from scheduler_core.trace import Trace

GREY, BLUE, GREEN, VERMILLION, PURPLE = "#777777", "#0072B2", "#009E73", "#D55E00", "#CC79A7"
ORANGE, SKY = "#E69F00", "#56B4E9"
GRID = "rgba(128, 140, 155, 0.22)"

BARE = {"displaylogo": False, "displayModeBar": False}


@dataclass(frozen=True, slots=True)
class Chart:
    """A figure with its title, what it says for those who cannot see it, and its numbers."""

    key: str
    title: str
    note: str
    alt: str
    figure: go.Figure
    table: pd.DataFrame


def look(figure: go.Figure, *, height: int, x_title: str, y_title: str = "") -> None:
    """Give a figure its size, its grid and the titles of its axes."""
    figure.update_layout(
        height=height,
        margin={"l": 8, "r": 8, "t": 8, "b": 8},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        legend={
            "orientation": "h",
            "yanchor": "bottom",
            "y": 1.02,
            "x": 0,
            "itemclick": False,
            "itemdoubleclick": False,
        },
        hoverlabel={"font": {"family": "Inter Variable, Inter, sans-serif"}},
        dragmode="zoom",
    )
    figure.update_xaxes(title_text=x_title, gridcolor=GRID, zeroline=False, automargin=True)
    figure.update_yaxes(title_text=y_title, gridcolor=GRID, zeroline=False, automargin=True)


def label(text: str, limit: int = 60) -> str:
    """A user's text inside a figure, where Plotly would read tags: they are shown as they stand, and long ones cut."""
    shown = visible(text)
    shown = shown if len(shown) <= limit else shown[: limit - 1] + "…"
    return escape(shown, quote=False)


def clock(trace: Trace) -> str:
    """What the seconds of a run are."""
    if trace.config.cost == "unit":
        return "virtual seconds, one a tick"
    return f"virtual seconds on {trace.config.cost}"

"""A load at a glance before it runs: when its requests arrive, and how long they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from pages.components.chart import BLUE, GREEN, GREY, look
from scheduler_core.load.config import LoadConfig
from scheduler_core.load.generator import GeneratedLoad
from scheduler_core.sources.shape import ShapedWorkload
from scheduler_core.words import count

_BUCKETS = 48
_BINS = 28


@dataclass(frozen=True, slots=True)
class Preview:
    """Arrivals in seconds, lengths in tokens as far as they are known."""

    arrivals: tuple[float, ...]
    prompts: tuple[int, ...]
    outputs: tuple[int, ...]

    @property
    def words(self) -> str:
        """In one line."""
        span = self.arrivals[-1] - self.arrivals[0]
        pace = f", {(len(self.arrivals) - 1) / span:.3g} a second" if span else ", all at once"
        over = f" over {span:,.1f} s" if span else ""
        parts = [f"{count(len(self.arrivals), 'request')}{over}{pace}"]
        for name, lengths in (("prompts", self.prompts), ("outputs", self.outputs)):
            if lengths:
                parts.append(f"{name} of {np.mean(lengths):,.0f} tokens on average, {max(lengths):,} at most")
        return "; ".join(parts)


def of_config(config: LoadConfig) -> Preview:
    """What the generator will send; the tokens themselves are not made."""
    requests = [*GeneratedLoad(config)]
    return Preview(
        tuple(request.arrival_time for request in requests),
        tuple(request.num_prompt_tokens for request in requests),
        tuple(request.max_tokens for request in requests),
    )


def of_shaped(workload: ShapedWorkload) -> Preview:
    """What a file will send."""
    requests = workload.requests
    return Preview(
        tuple(request.arrival for request in requests),
        tuple(request.prompt_tokens for request in requests if request.prompt_tokens is not None),
        tuple(request.output_tokens for request in requests if request.output_tokens is not None),
    )


def preview_figure(preview: Preview) -> go.Figure:
    """Arrivals on the left, lengths on the right; at most a hundred marks."""
    figure = make_subplots(rows=1, cols=2, horizontal_spacing=0.1, subplot_titles=("arrivals", ""))
    counts, edges = np.histogram(preview.arrivals, bins=_BUCKETS)
    figure.add_bar(
        x=(edges[:-1] + edges[1:]) / 2,
        y=counts,
        marker={"color": GREY},
        hovertemplate="about %{x:.3g} s: %{y} requests<extra></extra>",
        showlegend=False,
        row=1,
        col=1,
    )
    longest = max((*preview.prompts, *preview.outputs, 2))
    bins = np.geomspace(1, longest + 1, _BINS)
    for name, lengths, color in (("prompt tokens", preview.prompts, BLUE), ("output tokens", preview.outputs, GREEN)):
        if lengths:
            _add_lengths(figure, name, lengths, bins, color)
    look(figure, height=190, x_title="")
    figure.update_layout(
        margin={"l": 8, "r": 8, "t": 26, "b": 8},
        bargap=0.08,
        legend={"x": 1, "xanchor": "right", "y": 1.0},
    )
    figure.update_annotations(font={"size": 12})
    figure.update_xaxes(title_text="", ticksuffix=" s", row=1, col=1, nticks=5)
    ticks = [10**power for power in range(6)]
    figure.update_xaxes(
        type="log", tickvals=ticks, ticktext=["1", "10", "100", "1k", "10k", "100k"], tickangle=0, row=1, col=2
    )
    figure.update_yaxes(nticks=4)
    return figure


def _add_lengths(figure: go.Figure, name: str, lengths: Sequence[int], bins: np.ndarray, color: str) -> None:
    counts, _ = np.histogram(lengths, bins=bins)
    figure.add_scatter(
        x=np.sqrt(bins[:-1] * bins[1:]),
        y=counts,
        name=name,
        mode="lines",
        line={"color": color, "width": 2, "shape": "hvh", "dash": "solid" if color == BLUE else "dot"},
        fill="tozeroy",
        fillcolor=f"rgba{(*(int(color[i : i + 2], 16) for i in (1, 3, 5)), 0.16)}",
        hovertemplate=f"about %{{x:,.0f}} {name}: %{{y}} requests<extra></extra>",
        row=1,
        col=2,
    )

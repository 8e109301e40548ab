"""The chart of chunk control: what it set, what it measured, the target, and the error."""

from __future__ import annotations

import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from pages.components.chart import BLUE, GREEN, GREY, ORANGE, PURPLE, VERMILLION, Chart, clock, look
from scheduler_core.chunk_range import ChunkRange, is_steered
from scheduler_core.events import ChunkSteered, SteerReason
from scheduler_core.steering_story import NAMES
from scheduler_core.trace import TickRecord, Trace

_MEASURED = {"tick": "tick", "itl_p99": "ITL p99", "measured_tick": "tick, measured"}
_WORDS = {
    SteerReason.TOO_SLOW: "too slow",
    SteerReason.FASTER_THAN_NEEDED: "faster than needed",
    SteerReason.ON_TARGET: "on target",
    SteerReason.AT_LOWEST: "target cannot be kept",
    SteerReason.AT_HIGHEST: "as large as allowed",
    SteerReason.NOTHING_TO_CUT: "size made no difference",
    SteerReason.NOT_MEASURED: "not measured",
    SteerReason.RAMP: "ramp",
}


def steering_chart(trace: Trace) -> Chart | None:
    """The last controller of the run at work; None where nothing was steered."""
    rows = _rows(trace)
    if not rows:
        return None
    config = trace.settings_at(rows[-1][0].tick)
    name, measured = NAMES[rows[-1][1].setting], _MEASURED[config.chunk_signal]
    has_target = is_steered(config) and config.chunk_control == "pid"
    figure = make_subplots(rows=3 if has_target else 2, cols=1, shared_xaxes=True, vertical_spacing=0.07)
    times = [record.start for record, _ in rows]
    limits = ChunkRange.of(config)
    figure.add_trace(_steps(times, [event.old for _, event in rows], name, BLUE, "solid"), row=1, col=1)
    for bound, words in ((limits.high, "largest"), (limits.low, "smallest")):
        figure.add_trace(_steps([times[0], times[-1]], [bound, bound], words, GREY, "dot"), row=1, col=1)
    seen = [(record.start, 1e3 * event.measured_s) for record, event in rows if event.measured_s]
    marks = {"size": 5}
    figure.add_trace(
        go.Scatter(
            x=[at for at, _ in seen],
            y=[value for _, value in seen],
            name=measured,
            mode="lines+markers",
            line={"color": GREEN, "width": 1.5},
            marker=marks,
            hovertemplate=f"%{{x:.3g}} s: %{{y:.3g}} ms<extra>{measured}</extra>",
        ),
        row=2,
        col=1,
    )
    if has_target:
        targets = [1e3 * event.target_s for _, event in rows]
        figure.add_trace(_steps(times, targets, "target", ORANGE, "dash"), row=2, col=1)
        figure.add_trace(_errors(rows), row=3, col=1)
    look(figure, height=460 if has_target else 340, x_title="")
    figure.update_xaxes(title_text=clock(trace), row=3 if has_target else 2, col=1)
    figure.update_yaxes(title_text="tokens", rangemode="tozero", row=1, col=1)
    figure.update_yaxes(title_text="ms", rangemode="tozero", row=2, col=1)
    if has_target:
        figure.update_yaxes(title_text="error, ms", row=3, col=1)
    title = f"{name.capitalize()}, target and time"
    return Chart("steering", title, _note(config.chunk_control, name), _alt(rows, name), figure, _table(rows))


def _rows(trace: Trace) -> list[tuple[TickRecord, ChunkSteered]]:
    found = [(r, e) for r in trace.records for e in r.events if isinstance(e, ChunkSteered)]
    return [(record, event) for record, event in found if event.setting == found[-1][1].setting]


def _steps(x: list[float], y: list[float] | list[int], name: str, color: str, dash: str) -> go.Scatter:
    return go.Scatter(
        x=x,
        y=y,
        name=name,
        mode="lines",
        line={"color": color, "dash": dash, "shape": "hv", "width": 2},
        hovertemplate=f"%{{x:.3g}} s: %{{y:.4g}}<extra>{name}</extra>",
    )


def _errors(rows: list[tuple[TickRecord, ChunkSteered]]) -> go.Bar:
    """Only where it was acted upon or could have been: elsewhere another size would have changed nothing."""
    acting = [(r, e) for r, e in rows if e.reason not in (SteerReason.NOTHING_TO_CUT, SteerReason.NOT_MEASURED)]
    return go.Bar(
        x=[(record.start + record.end) / 2 for record, _ in acting],
        y=[1e3 * event.error_s for _, event in acting],
        width=[(record.end - record.start) * 0.8 for record, _ in acting],
        name="error (target less time)",
        marker={"color": [VERMILLION if event.error_s < 0 else PURPLE for _, event in acting]},
        hovertemplate="%{x:.3g} s: %{y:.3g} ms<extra>error</extra>",
        showlegend=False,
    )


def _note(control: str, name: str) -> str:
    if control == "ramp":
        return f"A ramp raises the {name} by a block in every tick that reads a prompt, whatever the ticks take."
    return (
        f"After each tick a PID compares the time with the target (its setpoint); the error moves the {name} of the "
        "next tick. An error below zero is "
        "a tick that took too long; errors are drawn only where another size would have changed the tick."
    )


def _alt(rows: list[tuple[TickRecord, ChunkSteered]], name: str) -> str:
    sizes = [event.new for _, event in rows]
    helpless = sum(event.reason is SteerReason.AT_LOWEST for _, event in rows)
    told = f"The {name} moves between {min(sizes)} and {max(sizes)} tokens over {len(rows)} ticks."
    return told + (f" In {helpless} of them the target cannot be kept." if helpless else "")


def _table(rows: list[tuple[TickRecord, ChunkSteered]]) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "tick": [record.tick for record, _ in rows],
            "start (s)": [record.start for record, _ in rows],
            "tokens in this tick": [event.old for _, event in rows],
            "target (ms)": [1e3 * event.target_s for _, event in rows],
            "time (ms)": [1e3 * event.measured_s for _, event in rows],
            "error (ms)": [1e3 * event.error_s for _, event in rows],
            "tokens from the next": [event.new for _, event in rows],
            "because": [_WORDS[event.reason] for _, event in rows],
        }
    )


assert set(_WORDS) == set(SteerReason)

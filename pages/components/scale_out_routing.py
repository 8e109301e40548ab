"""The router's strip: where each request went and why, as a figure, as a table, and in words for the tick shown."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from pages.components.chart import BARE, BLUE, GREEN, GREY, ORANGE, PURPLE, SKY, VERMILLION, label, look
from pages.components.plain import plain, visible
from scheduler_core.replicas.events import (
    ReplicaKilled,
    ReplicaReady,
    ReplicaStarting,
    RequestRouted,
    RouteReason,
)
from scheduler_core.replicas.fleet_trace import FleetTrace
from scheduler_core.replicas.words import REASON_NAMES, why

#: Lines that are told of a tick; the rest is in the table.
MOST_TOLD = 3
_CHANGES = (ReplicaKilled, ReplicaStarting, ReplicaReady)
#: Colour and mark of a reason: never colour alone.
_LOOKS = {
    RouteReason.IN_TURN: (GREY, "circle"),
    RouteReason.LEAST_LOADED: (BLUE, "square"),
    RouteReason.LESS_OF_TWO: (SKY, "diamond"),
    RouteReason.HOME: (GREEN, "circle"),
    RouteReason.STAND_IN: (VERMILLION, "pentagon"),
    RouteReason.HOME_AGAIN: (GREEN, "star"),
    RouteReason.NEXT_ON_RING: (PURPLE, "triangle-up"),
    RouteReason.OVER_BOUND: (ORANGE, "triangle-down"),
}


def strip(fleet: FleetTrace, last_tick: int) -> None:
    """Draw the figure with its table."""
    st.markdown("**Where the router sent each request**")
    st.plotly_chart(routing_figure(fleet, last_tick), key="so_routing", alt=routing_words(fleet), config=BARE)
    with st.expander("As a table", key="so_routing_table", type="compact"):
        st.dataframe(routing_table(fleet), hide_index=True, key="so_routing_data")


def routing_figure(fleet: FleetTrace, last_tick: int) -> go.Figure:
    """A row a replica, a mark a decision; those that moved after a kill stand on a ring."""
    figure = go.Figure()
    for reason, (color, symbol) in _LOOKS.items():
        events = [event for event in fleet.routed if event.reason is reason]
        if not events:
            continue
        figure.add_scatter(
            x=[event.time for event in events],
            y=[_row(event.replica) for event in events],
            mode="markers",
            name=REASON_NAMES[reason],
            marker={
                "color": color,
                "symbol": [symbol if event.attempt == 1 else f"{symbol}-open" for event in events],
                "size": 11,
                "line": {"width": [1 if event.attempt == 1 else 2.5 for event in events]},
            },
            text=[label(_decision(event)) for event in events],
            hovertemplate="%{text}<extra></extra>",
        )
    _draw_changes(figure, fleet, last_tick)
    count = fleet.config.num_replicas
    look(figure, height=96 + (34 if count <= 4 else 20 if count <= 16 else 11) * count, x_title="tick")
    rows = [_row(number) for number in range(fleet.config.num_replicas)]
    figure.update_yaxes(categoryorder="array", categoryarray=rows[::-1], range=[-0.6, len(rows) - 0.4])
    figure.update_xaxes(range=[-1, max(last_tick, *(event.time for event in fleet.routed)) + 1])
    return figure


def _draw_changes(figure: go.Figure, fleet: FleetTrace, last_tick: int) -> None:
    """When a replica is killed, and until when it is gone or starting."""
    for kill in fleet.kills:
        starts = [event for event in fleet.starts if event.replica == kill.replica and event.time >= kill.time]
        gone_until = starts[0].time if starts else last_tick
        ready = min(starts[0].ready_at, last_tick) if starts else last_tick
        spans = (("gone", kill.time, gone_until, VERMILLION, "dot"), ("starting", gone_until, ready, GREY, "dash"))
        for name, start, end, color, dash in spans:
            if start < end:
                figure.add_scatter(
                    x=[start, end],
                    y=[_row(kill.replica)] * 2,
                    mode="lines",
                    name=name,
                    line={"color": color, "dash": dash, "width": 4},
                    hovertemplate=f"%{{y}} is {name} from tick {start:g} to {end:g}<extra></extra>",
                )
    _draw_marks(figure, fleet.kills, "killed", "x", VERMILLION)
    _draw_marks(figure, fleet.comebacks, "back", "triangle-right", GREEN)


def _draw_marks(
    figure: go.Figure, events: Sequence[ReplicaKilled | ReplicaReady], name: str, symbol: str, color: str
) -> None:
    if events:
        figure.add_scatter(
            x=[event.time for event in events],
            y=[_row(event.replica) for event in events],
            mode="markers",
            name=name,
            marker={"color": color, "symbol": symbol, "size": 13},
            hovertemplate=f"Tick %{{x}}: %{{y}} is {name}<extra></extra>",
        )


def routing_words(fleet: FleetTrace) -> str:
    """What the figure says."""
    got = [sum(event.replica == number for event in fleet.routed) for number in range(fleet.config.num_replicas)]
    shares = ", ".join(f"{_row(number)} {amount}" for number, amount in enumerate(got[:8]))
    more = ", …" if len(got) > 8 else ""
    return f"Decisions of the router over time, one row a replica. Requests sent: {shares}{more}."


def routing_table(fleet: FleetTrace) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "tick": [int(event.time) for event in fleet.routed],
            "request": [visible(event.request_id) for event in fleet.routed],
            "to": [_row(event.replica) for event in fleet.routed],
            "attempt": [event.attempt for event in fleet.routed],
            "reason": [REASON_NAMES[event.reason] for event in fleet.routed],
            "in numbers": [why(event) for event in fleet.routed],
        }
    )


def told_at(fleet: FleetTrace, tick: int) -> list[str]:
    """What happened between replicas in this tick, or the last decision before it."""
    told = [_change(event) for event in fleet.events if isinstance(event, _CHANGES) and int(event.time) == tick]
    now = [event for event in fleet.routed if int(event.time) == tick]
    if not now and not told:
        before = [event for event in fleet.routed if event.time < tick]
        now = before[-1:]
    lines = told + [_sentence(event) for event in now]
    if len(lines) <= MOST_TOLD:
        return lines
    return [
        *lines[: MOST_TOLD - 1],
        f"{len(lines) - MOST_TOLD + 1} more decisions of this tick are in the table below.",
    ]


def _change(event: ReplicaKilled | ReplicaStarting | ReplicaReady) -> str:
    lead = f"Tick {int(event.time)}: {_row(event.replica)}"
    match event:
        case ReplicaKilled():
            return f"**{lead} is killed.** Requests that go on elsewhere: {event.num_requests}."
        case ReplicaStarting():
            return f"**{lead} starts anew.** It loads the weights until tick {event.ready_at:g}."
        case ReplicaReady():
            return f"**{lead} is back.** It was gone for {event.down_seconds:g} ticks; its memory is empty."


def _sentence(event: RequestRouted) -> str:
    again = f", attempt {event.attempt}" if event.attempt > 1 else ""
    lead = f"Tick {int(event.time)}: {plain(event.request_id)} → replica {event.replica + 1}{again}."
    return f"**{lead}** {plain(_capital(why(event)))}\\."


def _decision(event: RequestRouted) -> str:
    again = f" (attempt {event.attempt})" if event.attempt > 1 else ""
    where = f"{event.request_id} to replica {event.replica + 1}{again}"
    return f"Tick {int(event.time)}: {where}, {REASON_NAMES[event.reason]}"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _row(replica: int) -> str:
    return f"replica {replica + 1}"

"""What it comes to: tiles for the fleet, a row for each replica, and every router on the same load."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from pages.components.scale_out_runs import all_routers
from pages.components.scale_out_state import ScaleOutState
from pages.components.workloads.drawn import NOTHING, amount, share
from scheduler_core.replicas.events import RouteReason
from scheduler_core.replicas.fleet_trace import FleetTrace
from scheduler_core.replicas.replica import ReplicaFigures
from scheduler_core.replicas.words import ROUTER_NAMES
from scheduler_core.words import count


def tiles(fleet: FleetTrace) -> None:
    """The fleet in five figures."""
    figures = fleet.figures()
    shown = (
        ("Hit rate", share(figures["prefix_hit_rate"]), "Prompt tokens found in a prefix cache, of those looked up."),
        (
            "Busiest / mean",
            amount(figures["max_over_mean_load"]),
            "Tokens computed by the busiest replica over the mean, those left out that were killed; 1 is even.",
        ),
        (
            "Jain's index",
            amount(figures["jain_load"]),
            "(Σx)² / (n·Σx²) over the tokens that replicas computed: 1 if all are equal, 1/n if one does everything.",
        ),
        ("Mean TTFT", _ticks(figures["mean_ttft_ms"]), "Time to first token, in ticks: every tick lasts one second."),
        ("Mean E2E", _ticks(figures["mean_e2el_ms"]), "End-to-end latency: from the arrival to the last token."),
    )
    with st.container(key="so_tiles"):
        for column, (name, value, told) in zip(st.columns(len(shown)), shown, strict=True):
            column.metric(name, value, help=told)


def kill_cost(fleet: FleetTrace) -> str:
    """What a kill has cost, "" without one."""
    if not fleet.kills:
        return ""
    kill, figures = fleet.kills[0], fleet.figures()
    lost = figures["moved_tokens"] - figures["moved_hit_tokens"]
    return (
        f"Replica {kill.replica + 1} was killed at tick {int(kill.time)}. Requests that went on elsewhere, each once: "
        f"{kill.num_requests}. Of their {figures['moved_tokens']:,} tokens of prompt and answer so far the new "
        f"replicas had {figures['moved_hit_tokens']:,} in their caches and computed {lost:,} again. The answers are "
        "the same, as a token is drawn by its request and its place alone."
    )


def restart_story(fleet: FleetTrace) -> str:
    """How a killed replica came back and what it has done since, "" if nobody was to start it anew."""
    kills = [kill for kill in fleet.config.kills if kill.restart_after is not None]
    if not kills or not fleet.kills:
        return ""
    number, back = kills[0].replica, kills[0].ready_at(fleet.config.start_seconds)
    comeback = fleet.replicas[number].comeback
    if comeback is None:
        return f"It would be back at tick {back:g}, but this run is over before that."
    start = fleet.starts[-1]
    home = sum(event.reason is RouteReason.HOME_AGAIN for event in fleet.routed)
    told = (
        f"Started anew at tick {start.time:g}, it loaded the weights for {fleet.config.start_seconds:g} ticks and took "
        f"requests again from tick {back:g} on, with an empty cache: {count(comeback.requests, 'request')} since then, "
        f"with {comeback.hit_tokens:,} of {comeback.queried_tokens:,} prompt tokens found in a cache"
    )
    if fleet.config.shared_tier:
        told += f", {comeback.shared_hit_tokens:,} of them in the shared tier"
    return f"{told}. Prefixes that came home to it: {home}." if home else f"{told}."


def replica_table(fleet: FleetTrace) -> pd.DataFrame:
    """A row a replica."""
    return pd.DataFrame(
        [
            {
                "replica": str(number + 1),
                "requests": f"{each.requests:,}",
                "tokens computed": f"{each.computed_tokens:,}",
                "hit rate": share(each.hit_rate),
                **({"tokens from the shared tier": f"{each.shared_hit_tokens:,}"} if fleet.config.shared_tier else {}),
                "busy ticks": amount(each.busy_s),
                "most outstanding tokens": f"{each.most_outstanding:,}",
                "killed at tick": NOTHING if each.killed_at is None else f"{int(each.killed_at)}",
                **({"back at tick": _back(each)} if fleet.starts else {}),
            }
            for number, each in enumerate(fleet.replicas)
        ]
    )


def _back(each: ReplicaFigures) -> str:
    return NOTHING if each.comeback is None else f"{int(each.comeback.ready_at)}"


def router_table(state: ScaleOutState) -> pd.DataFrame:
    """A row a router, all on the same load with the same seed."""
    rows = []
    for router, bound, fleet in all_routers(state):
        figures = fleet.figures()
        is_chosen = router == state.router and bound in ("", state.bound)
        rows.append(
            {
                "shown": "●" if is_chosen else "",
                "router": ROUTER_NAMES[router],
                "bound": "no bound" if bound == "none" else f"{bound} × mean" if bound else NOTHING,
                "hit rate": share(figures["prefix_hit_rate"]),
                "busiest / mean": amount(figures["max_over_mean_load"]),
                "Jain": amount(figures["jain_load"]),
                "over the bound": f"{figures['overflows']:,}",
                "mean TTFT": _ticks(figures["mean_ttft_ms"]),
                "p99 TTFT": _ticks(figures["p99_ttft_ms"]),
                "mean E2E": _ticks(figures["mean_e2el_ms"]),
            }
        )
    return pd.DataFrame(rows)


def _ticks(milliseconds: float | None) -> str:
    return NOTHING if milliseconds is None else f"{amount(milliseconds / 1e3)} ticks"

"""A small tile for each replica, that follows the stages tick by tick; a click opens that replica's stage."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import streamlit as st

from pages.components.frame import asset
from pages.components.player_payload import pack_levels
from pages.components.scale_out_runs import FleetRun

_CODEC = Path(__file__).parents[2] / "assets" / "player" / "codec.js"
_component = st.components.v2.component(
    "tickscope_fleet",
    css=asset("fleet.css"),
    js="\n".join((_CODEC.read_text(encoding="utf-8"), asset("turns.js", "fleet.js"))),
)


def tiles(run: FleetRun, key: str, *, link: str, tick: int, opened: int, on_open: Callable[[int, int], None]) -> None:
    """Draw one for each replica; `on_open` gets the replica that was clicked, from 1, and the tick shown then."""

    def hear() -> None:
        said = (st.session_state.get(key) or {}).get("open") or {}
        number, at = said.get("replica"), said.get("tick")
        if isinstance(number, int) and 1 <= number <= len(run.overview) and isinstance(at, int):
            on_open(number, max(0, min(at, run.last_tick)))

    _component(
        key=key,
        data={"run": tiles_data(run), "link": link, "tick": tick, "opened": opened},
        height="content",
        on_open_change=hear,
    )


def tiles_data(run: FleetRun) -> dict[str, Any]:
    """What the browser gets: a few short columns for each replica."""
    return {
        "ticks": run.last_tick + 1,
        "blocks": run.fleet.engine.num_blocks,
        "replicas": [
            {
                "state": pack_levels(each.state),
                "waiting": pack_levels(each.waiting),
                "running": pack_levels(each.running),
                "used": pack_levels(each.used_blocks),
                "hits": pack_levels(each.hit_permille),
            }
            for each in run.overview
        ],
    }

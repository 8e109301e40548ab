"""Runs of fleets, computed at once and shared between visitors: the same settings always give the same run."""

from __future__ import annotations

from dataclasses import dataclass

import streamlit as st

from pages.components.scale_out_loads import load_of
from pages.components.scale_out_state import MOST_STAGES, ScaleOutState
from scheduler_core.backends.synthetic import SyntheticRunner
from scheduler_core.replicas.config import ROUTERS, FleetConfig
from scheduler_core.replicas.fleet import Fleet
from scheduler_core.replicas.fleet_trace import FleetTrace
from scheduler_core.replicas.grid import on_grid
from scheduler_core.trace import Trace


@dataclass(frozen=True, slots=True)
class FleetRun:
    """A fleet's run, and the traces of its replicas on one grid of ticks; none where there are too many to draw."""

    fleet: FleetTrace
    traces: tuple[Trace, ...]

    @property
    def last_tick(self) -> int:
        return max(0, *(len(trace.records) - 1 for trace in self.traces)) if self.traces else 0


def chosen_run(state: ScaleOutState) -> FleetRun:
    """The run that the visitor has chosen."""
    return _run(state.load, state.seed, state.fleet(), drawn=state.replicas <= MOST_STAGES)


def all_routers(state: ScaleOutState) -> list[tuple[str, str, FleetTrace]]:
    """Every router on the same load with the same seed and kill: its name, its bound ("" without one), the run."""
    rows = [(router, state.bound if is_bounded(router) else "") for router in ROUTERS]
    if state.bound != "none":
        rows.append(("prefix_affinity", "none"))
    return [
        (router, bound, _run(state.load, state.seed, state.fleet(router, bound or None), drawn=False).fleet)
        for router, bound in rows
    ]


def is_bounded(router: str) -> bool:
    """Whether a router looks at the load bound."""
    return router in ("bounded_hash", "prefix_affinity")


@st.cache_resource(show_spinner=False, max_entries=64)
def _run(load: str, seed: int, config: FleetConfig, *, drawn: bool) -> FleetRun:
    specs, engine = load_of(load, config.num_replicas, seed)
    record = "full" if drawn else "none"
    fleet = Fleet(config, engine, SyntheticRunner, record=record, check=False).run(specs)
    return FleetRun(fleet, on_grid(fleet) if drawn else ())

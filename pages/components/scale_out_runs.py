"""Runs of fleets, computed at once and shared between visitors: the same settings always give the same run."""

from __future__ import annotations

from dataclasses import dataclass, field

import streamlit as st

from pages.components.scale_out_loads import load_of
from pages.components.scale_out_state import ScaleOutState
from scheduler_core.backends.synthetic import SyntheticRunner
from scheduler_core.replicas.config import ROUTERS, FleetConfig
from scheduler_core.replicas.fleet import Fleet
from scheduler_core.replicas.fleet_trace import FleetTrace
from scheduler_core.replicas.grid import one_on_grid
from scheduler_core.replicas.overview import Overview, overview
from scheduler_core.trace import Trace


@dataclass(frozen=True, slots=True)
class FleetRun:
    """A fleet's run, what each of its replicas is at every tick, and their traces on that grid once asked for."""

    fleet: FleetTrace
    overview: tuple[Overview, ...]
    _traces: dict[int, Trace] = field(default_factory=dict)

    @property
    def last_tick(self) -> int:
        return len(self.overview[0].state) - 1

    def trace(self, number: int) -> Trace:
        """That of one replica, from 0; always the same object, so that its stage is not sent it again."""
        if number not in self._traces:
            self._traces[number] = one_on_grid(self.fleet, number)
        return self._traces[number]


def chosen_run(state: ScaleOutState) -> FleetRun:
    """The run that the visitor has chosen."""
    return _drawn(state.load, state.seed, state.fleet())


def all_routers(state: ScaleOutState) -> list[tuple[str, str, FleetTrace]]:
    """Every router on the same load with the same seed and kill: its name, its bound ("" without one), the run."""
    rows = [(router, state.bound if is_bounded(router) else "") for router in ROUTERS]
    if state.bound != "none":
        rows.append(("prefix_affinity", "none"))
    return [
        (router, bound, _figures(state.load, state.seed, state.fleet(router, bound or None))) for router, bound in rows
    ]


def is_bounded(router: str) -> bool:
    """Whether a router looks at the load bound."""
    return router in ("bounded_hash", "prefix_affinity")


@st.cache_resource(show_spinner="Simulating the replicas", max_entries=16)
def _drawn(load: str, seed: int, config: FleetConfig) -> FleetRun:
    fleet = _fleet(load, seed, config, "full")
    return FleetRun(fleet, overview(fleet))


@st.cache_resource(show_spinner="Simulating every router on the same load", max_entries=64)
def _figures(load: str, seed: int, config: FleetConfig) -> FleetTrace:
    return _fleet(load, seed, config, "none")


def _fleet(load: str, seed: int, config: FleetConfig, record: str) -> FleetTrace:
    specs, engine = load_of(load, config.num_replicas, seed)
    return Fleet(config, engine, SyntheticRunner, record=record, check=False).run(specs)

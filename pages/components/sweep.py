"""What every position of a slider would give: one run each, on the tokens that stand on the stage."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import streamlit as st

from pages.components.runs import Workload, compute
from scheduler_core.config import EngineConfig
from scheduler_core.errors import TickscopeError
from scheduler_core.metrics import request_metrics, waiting_by_cause
from scheduler_core.trace import Trace

#: A run of more ticks times requests makes a curve cost more than it tells.
MAX_WORK = 4_000

Changes = dict[str, Any]


def worst_wait(trace: Trace) -> float:
    """The longest that any request spent outside a lane, in virtual seconds."""
    return max((waiting.queued_s + waiting.preempted_s for waiting in waiting_by_cause(trace)), default=0.0)


def largest_gap(trace: Trace) -> float:
    """The longest pause between two tokens of one answer, in virtual seconds."""
    return max((figures.worst_gap_s or 0.0 for figures in request_metrics(trace)), default=0.0)


def is_costly(trace: Trace) -> bool:
    return len(trace.records) * len(trace.requests) > MAX_WORK


MEASURES: dict[str, Callable[[Trace], float]] = {"worst_wait": worst_wait, "largest_gap": largest_gap}


def sweep(
    chosen: Workload, config: EngineConfig, backend: str, positions: list[Changes], measure: str
) -> list[float] | None:
    """The measure at each position (a change of settings); None where no curve can be drawn."""
    # The setting that is swept has no part in the key: moving along a curve computes nothing anew.
    fields = json.dumps(asdict(config) | positions[0], sort_keys=True)
    return _swept(chosen.key, fields, backend, json.dumps(positions), measure, chosen, config, positions)


@st.cache_data(show_spinner=False, max_entries=400)
def _swept(
    key: str,
    fields: str,
    backend: str,
    asked: str,
    measure: str,
    _chosen: Workload,
    _config: EngineConfig,
    _positions: list[Changes],
) -> list[float] | None:
    values = []
    for changes in _positions:
        try:
            trace = compute(_chosen, _config.replace(**changes), backend)
        except TickscopeError:
            # A curve with a hole would mislead; the setting itself says what is wrong with it.
            return None
        if is_costly(trace):
            return None
        values.append(MEASURES[measure](trace))
    return values

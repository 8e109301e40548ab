"""The strip under the quantum and the chunk size: a figure over all their positions, computed in the background."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Hashable
from dataclasses import asdict, dataclass

import streamlit as st

from pages.components.controls import Dial
from pages.components.curve import curve
from pages.components.fields import FIELDS
from pages.components.live import live_visit
from pages.components.play_state import PlayState
from pages.components.runs import Workload, ready
from pages.components.settings import limits
from pages.components.shown import Shown
from pages.components.sparkline import sparkline
from pages.components.sweep import Sweep, SweepWorker, spread
from scheduler_core.backends.synthetic import SyntheticRunner
from scheduler_core.config import EngineConfig
from scheduler_core.engine import Engine
from scheduler_core.metrics import request_metrics
from scheduler_core.request import FinishReason, RequestSpec
from scheduler_core.sensitivity import FIGURES
from scheduler_core.trace import Trace

_SPOKEN = (FinishReason.STOP, FinishReason.LENGTH, FinishReason.REJECTED)


@dataclass(frozen=True, slots=True)
class Source:
    """What the runs of a strip are made from: `make` runs it under any settings; `note` says where a live run differs.

    `work` is about what one run costs, in ticks times requests.
    """

    key: Hashable
    make: Callable[[EngineConfig], Engine]
    work: int
    requests: int
    tokens: str
    note: str = ""


@st.cache_resource(show_spinner=False)
def worker() -> SweepWorker:
    """The one of the process: it takes turns between the sliders of all visitors."""
    return SweepWorker()


def strips(state: PlayState, now: Shown, dials: tuple[Dial, Dial]) -> None:
    """Draw the strip of each slider in its place; nothing waits for a run."""
    source = _source(now)
    if source is None or now.config is None:
        return
    for dial in dials:
        with dial.place:
            # A fragment of its own: while runs are computed the browser asks for this part only.
            st.fragment(_strip)(state, dial, source, now.config)


def _strip(state: PlayState, dial: Dial, source: Source, config: EngineConfig) -> None:
    sweep = _sweep(dial, source, config)
    # In this order: a sweep that is done now has all its results.
    is_done = sweep.is_done
    results, reasons = dict(sweep.results), dict(sweep.reasons)
    if sweep.problem:
        st.caption(f"These runs could not be computed: {sweep.problem}")
        return
    name = state.curve(dial.field)
    label = FIELDS[dial.field].label
    looks = st.session_state.get("strip_looks", 0) + 1
    st.session_state["strip_looks"] = looks
    chosen = sparkline(
        curve(dial.field, label, dial.positions, dial.at, results, name, sweep.num_asked, reasons),
        field=label,
        figure=name,
        offered=[n for n, figure in FIGURES.items() if n == name or figure.least <= source.requests],
        notes=_notes(source, config, sweep, len(dial.positions), FIGURES[name].is_time),
        note=source.note,
        look=0 if is_done else looks,
        key=f"curve_{dial.field}",
    )
    if chosen:
        state.choose_curve(dial.field, chosen)
        # The whole page: the address tells the figure too.
        st.rerun()


def _sweep(dial: Dial, source: Source, config: EngineConfig) -> Sweep:
    changes = dial.changes()
    # The setting that is swept has no part in the key: moving along a curve computes nothing anew.
    base = config.replace(**changes[0])
    key = (source.key, json.dumps([asdict(base), changes], sort_keys=True), limits().max_ticks)

    def begin() -> Sweep:
        tried = spread(len(changes), source.work)
        return Sweep(lambda i: source.make(base.replace(**changes[i])), len(changes), tried, limits().max_ticks)

    visit = st.session_state.setdefault("strip_visit", object())
    return worker().sweep((visit, dial.field), key, begin, dial.at)


def _source(now: Shown) -> Source | None:
    chosen, trace = now.chosen, now.trace
    if chosen is None or trace is None or not trace.requests:
        return None
    work, requests = len(trace.records) * len(trace.requests), len(trace.requests)
    if now.backend == "live":
        run = live_visit().run
        return live_source(chosen, trace, run is not None and run.is_computing)
    recorded = now.backend == "recorded" and chosen.recording is not None
    tokens = "Each run draws the recorded tokens." if recorded else "Each run draws made-up tokens."
    return Source(
        (chosen.key, recorded), lambda config: ready(chosen, config, recorded, check=False), work, requests, tokens
    )


def live_source(chosen: Workload, trace: Trace, computing: bool) -> Source:
    """A live run's own tokens once every answer is complete, made-up ones until then or where one was cut off."""
    specs, work = trace.requests, len(trace.records) * len(trace.requests)
    if not computing and all(figures.finish_reason in _SPOKEN for figures in request_metrics(trace)):
        spoken = Workload(chosen.scenario, trace)
        return Source(
            ("live", _digest(trace)),
            lambda config: ready(spoken, config, True, check=False),
            work,
            len(specs),
            "Each run starts at tick 0 and draws the tokens of this live run.",
        )
    why = "until the live run is over" if computing else "as not all answers of the live run are complete"
    return Source(
        ("made up", _digest_of(specs)),
        lambda config: _made_up(specs, config),
        work,
        len(specs),
        f"Each run starts at tick 0 and draws made-up tokens, {why}.",
        f"made-up tokens, {why}",
    )


def _made_up(specs: tuple[RequestSpec, ...], config: EngineConfig) -> Engine:
    engine = Engine(config, SyntheticRunner(), check=False)
    for spec in specs:
        engine.add_request(spec)
    return engine


def _digest(trace: Trace) -> str:
    """The same for the same requests with the same answers."""
    answers = [figures.output_token_ids for figures in request_metrics(trace)]
    return _digest_of((trace.requests, answers))


def _digest_of(value: object) -> str:
    return hashlib.sha256(repr(value).encode()).hexdigest()


def _notes(source: Source, config: EngineConfig, sweep: Sweep, positions: int, is_time: bool) -> list[str]:
    clock = "Seconds are virtual, one a tick." if config.cost == "unit" else f"Seconds are virtual, on {config.cost}."
    tried = f"The run is large: {sweep.num_asked} of {positions} positions are tried."
    return [source.tokens, *([clock] if is_time else []), *([tried] if sweep.num_asked < positions else [])]

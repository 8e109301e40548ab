"""Live runs of a visitor: started, watched, changed and ended. The model computes in the worker's thread."""

from __future__ import annotations

from dataclasses import dataclass, field

import streamlit as st

from pages.components.own_requests import OwnRequest, request_problems
from pages.components.runs import Workload, check_lengths
from pages.components.settings import limits
from scheduler_core.backends import model_store
from scheduler_core.backends.transformers_runner import TransformersRunner
from scheduler_core.config import FIXED_FIELDS, EngineConfig
from scheduler_core.engine import Engine
from scheduler_core.live import Factory, LiveRun, LiveState, ModelWorker, Report
from scheduler_core.trace import Trace
from scheduler_core.workload import Draft

#: Seconds between two looks at a run that computes.
LOOK_EVERY = 0.6


@st.cache_resource(show_spinner=False)
def _weights() -> model_store.SharedModel:
    return model_store.SharedModel()


@st.cache_resource(show_spinner=False)
def _worker() -> ModelWorker:
    """The one worker of the process: it takes turns between the runs of all visitors."""
    return ModelWorker(max_runs=limits().max_live_runs)


def live_load() -> tuple[int, int, int]:
    """Live runs of all visitors: those that compute, that wait for a place, and that are done but still open."""
    return _worker().load()


@dataclass(slots=True)
class LiveVisit:
    """What a visitor has going: the run, what it was started with, and the finished ones by workload.

    `refused` says why the last prompt sent was not taken, until another one is sent.
    """

    run: LiveRun | None = None
    key: str = ""
    config: EngineConfig | None = None
    finished: dict[str, Trace] = field(default_factory=dict)
    is_new: bool = False
    refused: list[str] = field(default_factory=list)

    def has_just_begun(self) -> bool:
        """Whether this is the first look at a run that was started; true once."""
        was_new, self.is_new = self.is_new, False
        return was_new

    def belongs_to(self, chosen: Workload) -> bool:
        return self.run is not None and self.key == live_key(chosen)

    def cancel(self) -> None:
        if self.run is not None:
            self.run.cancel()
        self.run = None


@st.cache_resource(show_spinner=False, scope="session", on_release=LiveVisit.cancel)
def live_visit() -> LiveVisit:
    """This visitor's; when the tab is closed, the run is cancelled."""
    return LiveVisit()


def live_key(chosen: Workload) -> str:
    """The workload without its recording, which a live run makes anew."""
    return Workload(chosen.scenario, None).key


def start(visit: LiveVisit, chosen: Workload, config: EngineConfig) -> None:
    """Run the workload from tick 0; a run in progress is given up."""
    visit.cancel()
    visit.run = _worker().start(_factory(chosen, config, _weights()), limits().max_ticks)
    visit.key, visit.config, visit.is_new = live_key(chosen), config, True
    visit.refused = []


def _factory(chosen: Workload, config: EngineConfig, weights: model_store.SharedModel) -> Factory:
    def make(report: Report) -> tuple[Engine, TransformersRunner]:
        runner = TransformersRunner(weights.get(report))
        engine = Engine(config, runner, scenario=chosen.scenario.name, title=chosen.scenario.title)
        specs = chosen.scenario.specs(runner)
        check_lengths(chosen, specs, config)
        for spec in specs:
            engine.add_request(spec)
        return engine, runner

    return make


def apply(visit: LiveVisit, config: EngineConfig) -> list[str]:
    """Change a run in progress from its next tick on; the names of settings that need a new run instead."""
    run = visit.run
    if run is None or visit.config is None or run.is_final:
        return []
    changes = config.changed_from(visit.config)
    fixed = [name for name in changes if name in FIXED_FIELDS]
    movable = {name: new for name, (_, new) in changes.items() if name not in FIXED_FIELDS}
    if movable and run.is_computing:
        visit.config = visit.config.replace(**movable)
        run.reconfigure(visit.config)
    return fixed


def send(visit: LiveVisit, request: OwnRequest) -> list[str]:
    """Send a prompt to the run now; what is wrong with it, [] if it was sent."""
    if found := request_problems(request, limits()):
        return found
    run = visit.run
    if run is None:
        return ["There is no live run to send it to; start one first."]
    if (trace := run.trace()) and len(trace.requests) >= limits().max_requests:
        return [f"This run has {len(trace.requests)} requests; this site runs at most {limits().max_requests}."]
    run.send(Draft(request.id, request.prompt, request.max_tokens, priority=request.priority))
    return []


def keep_finished(visit: LiveVisit) -> None:
    """Remember the tokens of a run that is done, so that settings can be tried on them at once."""
    run = visit.run
    if run is None or run.state is not LiveState.DONE:
        return
    trace = run.trace()
    if trace is not None and trace.records:
        visit.finished[visit.key] = trace


def how_to_get_the_model() -> model_store.Availability:
    """Whether the model can be run here, and what to do if not."""
    return model_store.availability()

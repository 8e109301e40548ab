"""The run that stands on the stage: recorded, replayed or synthetic, computed at once and kept."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import streamlit as st

from pages.components.frame import ASSETS
from pages.components.imported import drafts_of
from pages.components.imported_visit import imported_run
from pages.components.own_requests import OwnRequest, length_problem, problems
from pages.components.plain import cut
from pages.components.play_state import IMPORTED, OWN, PlayState
from pages.components.settings import limits
from scheduler_core.backends.replay import ReplayRunner
from scheduler_core.backends.synthetic import SyntheticRunner
from scheduler_core.config import EngineConfig
from scheduler_core.engine import Engine
from scheduler_core.errors import TickscopeError, TraceError
from scheduler_core.request import RequestSpec
from scheduler_core.trace import Trace
from scheduler_core.workload import Draft, Scenario, list_scenarios, load_scenario

TRACES = ASSETS / "traces"

#: The scenario a visitor meets first.
DEFAULT_SCENARIO = "time_slices"
OWN_TITLE = "Your own requests"

#: So many runs are kept for all visitors together.
MAX_KEPT_RUNS = 200
#: So many runs of a file, for the visitor who opened it.
MAX_KEPT_IMPORTS = 12


@dataclass(frozen=True, slots=True)
class Workload:
    """A scenario or the visitor's own requests, and its recording if there is one.

    `recording` was made by the real model, for the shipped scenarios or in a live run of this visitor, or comes from a
    file with that `digest`.
    """

    scenario: Scenario
    recording: Trace | None
    digest: str = ""

    @property
    def key(self) -> str:
        """The same for the same requests, recording included."""
        drafts = json.dumps([asdict(draft) for draft in self.scenario.requests], sort_keys=True)
        made = self.recording.backend.weights_digest if self.recording else ""
        return f"{self.scenario.name}:{drafts}:{made}:{self.digest}"


class NothingToRun(TickscopeError):
    """The visitor's own requests cannot run yet; each problem is one message."""

    def __init__(self, messages: list[str]) -> None:
        super().__init__("\n".join(messages))
        self.messages = messages


def scenario_names() -> list[str]:
    """The shipped scenarios, in teaching order."""
    return list_scenarios()


@st.cache_data(show_spinner=False)
def shipped(name: str) -> Scenario:
    """A shipped scenario by name."""
    return load_scenario(name)


@st.cache_resource(show_spinner=False)
def recording(name: str) -> Trace | None:
    """The real model's run of a shipped scenario, None if none was recorded; raises `TraceError`."""
    path = recording_path(name)
    return Trace.load(path) if path.exists() else None


def recording_path(name: str) -> Path:
    return TRACES / f"{name}.json.gz"


def workload(state: PlayState, live: dict[str, Trace]) -> tuple[Workload, str]:
    """What the visitor chose to run, and what is wrong with its recording; `live` are this visit's finished live runs.

    Raises `NothingToRun` or `WorkloadError`.
    """
    if state.scenario == IMPORTED:
        return imported_workload(), ""
    if state.scenario == OWN:
        mine = Workload(own_scenario(state.requests), None)
        return Workload(mine.scenario, live.get(mine.key)), ""
    try:
        return Workload(shipped(state.scenario), recording(state.scenario)), ""
    except TraceError as problem:
        return Workload(shipped(state.scenario), None), f"The recorded run cannot be read: {problem}."


def imported_workload() -> Workload:
    """The run that this visitor opened from a file, with its requests; raises `NothingToRun`."""
    run = imported_run()
    if run is None:
        raise NothingToRun(["The run from a file is not here any more; open the file again."])
    title = run.trace.title or run.trace.scenario or run.name
    scenario = Scenario(
        IMPORTED, title, run.trace.config, drafts_of(run.trace), f"A run from the file {cut(run.name)}."
    )
    return Workload(scenario, run.trace, run.digest)


def scenario_named(name: str) -> Scenario:
    """A shipped scenario, or the run from a file in its words; raises `NothingToRun`."""
    return imported_workload().scenario if name == IMPORTED else shipped(name)


def known_scenarios() -> list[str]:
    """The names that a link may ask for in this session, but for the visitor's own requests."""
    return [*scenario_names(), *([IMPORTED] if imported_run() else [])]


def own_scenario(requests: tuple[OwnRequest, ...]) -> Scenario:
    """The visitor's requests as a workload; raises `NothingToRun`."""
    if found := problems(requests, limits()):
        raise NothingToRun(found)
    drafts = tuple(
        Draft(r.id, _lines(r.prompt), r.max_tokens, float(r.arrival), r.priority, _lines(r.system) or None)
        for r in requests
    )
    return Scenario(OWN, OWN_TITLE, EngineConfig(), drafts, "What you wrote, under the settings you choose.")


def _lines(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def base_config(state: PlayState) -> EngineConfig:
    """What the settings differ from: the scenario's own."""
    if state.scenario == IMPORTED:
        run = imported_run()
        return EngineConfig() if run is None else run.trace.config
    return EngineConfig() if state.scenario == OWN else shipped(state.scenario).config


def check_lengths(chosen: Workload, specs: tuple[RequestSpec, ...], config: EngineConfig) -> None:
    """Refuse own prompts past what the site or the sequence takes; raises `NothingToRun`."""
    if chosen.scenario.name != OWN:
        return
    found = [
        length_problem(OwnRequest(spec.id, ""), len(spec.prompt_token_ids), config.max_model_len, limits())
        for spec in specs
    ]
    if any(found):
        raise NothingToRun([message for message in found if message])


def compute(chosen: Workload, config: EngineConfig, backend: str) -> Trace:
    """The run of a workload under a configuration, with recorded tokens or with synthetic ones."""
    recorded = backend == "recorded" and chosen.recording is not None
    if recorded and chosen.recording is not None and config == chosen.recording.config:
        return chosen.recording
    fields = json.dumps(asdict(config), sort_keys=True)
    if chosen.digest:
        return _computed_here(chosen.key, fields, recorded, limits().max_ticks, chosen, config)
    return _computed(chosen.key, fields, recorded, limits().max_ticks, chosen, config)


# A resource rather than data: a trace is frozen, so all may share it, and the stage knows it again without reading it.
@st.cache_resource(show_spinner=False, max_entries=MAX_KEPT_RUNS)
def _computed(key: str, fields: str, recorded: bool, max_ticks: int, _chosen: Workload, _config: EngineConfig) -> Trace:
    """One run for each workload, configuration and backend; the underscored hold what the others name."""
    return ready(_chosen, _config, recorded).run(max_ticks)


@st.cache_resource(show_spinner=False, max_entries=MAX_KEPT_IMPORTS, scope="session")
def _computed_here(
    key: str, fields: str, recorded: bool, max_ticks: int, _chosen: Workload, _config: EngineConfig
) -> Trace:
    """The same for what came from a file: it is no one else's, and goes when its visitor does."""
    return ready(_chosen, _config, recorded).run(max_ticks)


def ready(chosen: Workload, config: EngineConfig, recorded: bool, *, check: bool = True) -> Engine:
    """An engine with all requests sent, to draw recorded tokens or synthetic ones; raises `NothingToRun`.

    `check` verifies the laws after every tick.
    """
    if recorded and chosen.recording is not None:
        runner: ReplayRunner | SyntheticRunner = ReplayRunner(chosen.recording)
        specs = chosen.recording.requests
    else:
        runner = SyntheticRunner()
        specs = chosen.scenario.specs(runner)
    check_lengths(chosen, specs, config)
    engine = Engine(config, runner, scenario=chosen.scenario.name, title=chosen.scenario.title, check=check)
    for spec in specs:
        engine.add_request(spec)
    return engine


def is_complete(trace: Trace) -> bool:
    """Whether every request came to its end; a run past the site's limit of ticks is cut short."""
    if not trace.records:
        return True
    snapshot = trace.records[-1].snapshot
    return snapshot is None or not (snapshot.waiting or snapshot.running)

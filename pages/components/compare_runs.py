"""The two runs of a comparison, computed at once and kept; every mistake becomes a message beside them."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace

import streamlit as st

from pages.components.compare_state import SHARED, CompareState, WhatIf
from pages.components.live import live_visit
from pages.components.own_requests import OwnRequest, length_problem, request_problems
from pages.components.plain import cut
from pages.components.play_state import BACKENDS, PlayState
from pages.components.runs import MAX_KEPT_RUNS, NothingToRun, Workload, base_config, compute, is_complete, workload
from pages.components.settings import limits
from scheduler_core.backends.patched_replay import PatchedReplay
from scheduler_core.backends.synthetic import SyntheticRunner
from scheduler_core.config import EngineConfig
from scheduler_core.engine import fork
from scheduler_core.errors import ConfigError, TickscopeError
from scheduler_core.request import RequestSpec
from scheduler_core.trace import Trace
from scheduler_core.workload import Draft, Scenario


@dataclass(frozen=True, slots=True)
class Run:
    """One side: its trace, with the settings it was asked for."""

    config: EngineConfig
    trace: Trace


@dataclass(slots=True)
class Both:
    """What is compared; `runs` is None only if nothing could ever be run. `is_current`: it is what was chosen."""

    runs: tuple[Run, Run] | None = None
    backend: str = "synthetic"
    is_current: bool = False
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def both(state: CompareState) -> Both:
    """Run both sides, or keep the latest that could be run, with the reason."""
    result = Both()
    try:
        _run(state, result)
    except NothingToRun as problem:
        result.problems += problem.messages
    except TickscopeError as problem:
        stays = " The comparison shown is the last that could be made." if "compared_runs" in st.session_state else ""
        result.problems.append(f"{problem}.{stays}")
    if result.runs is None:
        result.runs, result.backend = st.session_state.get("compared_runs", (None, "synthetic"))
        return result
    result.is_current = True
    st.session_state["compared_runs"] = (result.runs, result.backend)
    if any(not is_complete(r.trace) and len(r.trace.records) >= limits().max_ticks for r in result.runs):
        result.notes.append(f"A run was cut at {limits().max_ticks:,} ticks, the limit of this site.")
    return result


def _run(state: CompareState, result: Both) -> None:
    chosen, damage = workload(state.first, live_visit().finished)
    result.problems += [damage] if damage else []
    backend = state.first.backend
    if backend == BACKENDS[0] and chosen.recording is None:
        backend = BACKENDS[1]
        result.notes.append("There is no recorded run of these requests, so the tokens are made up on both sides.")
    first = side_config(state, state.first)
    one = Run(first, compute(chosen, first, backend))
    second = side_config(state, state.second)
    if state.what_if is None:
        result.runs = one, Run(second, compute(chosen, second, backend))
    else:
        clamp(state.what_if, one.trace, result.notes)
        result.runs = one, Run(second, _fork(chosen, one, state.what_if, second, backend))
    result.backend = backend


def side_base(state: CompareState, side: PlayState) -> EngineConfig:
    """What the settings of a side differ from: the scenario's; in a what-if, the second differs from the first."""
    base = base_config(state.first)
    if side is state.second and state.what_if is not None:
        return side_config(state, state.first)
    return base


def side_config(state: CompareState, side: PlayState) -> EngineConfig:
    """The configuration of a side, under the scenario's seed and clock; raises `ConfigError`."""
    base = side_base(state, side)
    place = "left" if (side is state.first) != state.swapped else "right"
    try:
        return side.config(base).replace(**{shared: getattr(base, shared) for shared in SHARED})
    except ConfigError as problem:
        raise ConfigError(f"The settings on the {place} cannot run: {problem}") from None


def clamp(what_if: WhatIf, trace: Trace, notes: list[str]) -> None:
    """Bring a what-if into the run that it forks, telling what could not be taken."""
    last = len(trace.records) - 1
    if what_if.at > last:
        notes.append(
            f"The fork was asked for at tick {what_if.at:,}; this run has ticks 0 to {last}, so it is at {last}."
        )
        what_if.at = last
    known = {spec.id for spec in trace.requests}
    if strangers := [name for name in what_if.abort if name not in known]:
        notes.append(f"There is no request {cut(strangers[0])} in this run to abort; it is left out.")
        what_if.abort = tuple(name for name in what_if.abort if name in known)


def _fork(chosen: Workload, base: Run, what_if: WhatIf, config: EngineConfig, backend: str) -> Trace:
    """The first run up to the fork and otherwise from there on; raises `NothingToRun` or `ConfigError`."""
    found = [message for request in what_if.add for message in request_problems(request, limits())]
    taken = [spec.id for spec in base.trace.requests]
    names = [request.id for request in what_if.add]
    found += [
        f"There is a request {cut(name)} already; give the new one another name."
        for name in dict.fromkeys(names)
        if name in taken or names.count(name) > 1
    ]
    if found:
        raise NothingToRun(found)
    key = json.dumps([asdict(base.config), asdict(what_if), asdict(config)], sort_keys=True)
    return _forked(chosen.key, key, backend, limits().max_ticks, chosen, base, what_if, config)


@st.cache_resource(show_spinner=False, max_entries=MAX_KEPT_RUNS)
def _forked(
    key: str,
    asked: str,
    backend: str,
    max_ticks: int,
    _chosen: Workload,
    _base: Run,
    _what_if: WhatIf,
    _config: EngineConfig,
) -> Trace:
    """One run for each fork; the underscored hold what the others name."""
    twins = {r.id: twin.id for r in _what_if.add if (twin := twin_of(r, _chosen.scenario)) is not None}
    recorded = backend == BACKENDS[0] and _chosen.recording is not None
    runner: PatchedReplay | SyntheticRunner = SyntheticRunner()
    if recorded and _chosen.recording is not None:
        runner = PatchedReplay(_chosen.recording, twins)
    added = [_spec(r, twins.get(r.id), _base.trace, runner) for r in _what_if.add]
    found = [
        length_problem(r, len(spec.prompt_token_ids), _config.max_model_len, limits())
        for r, spec in zip(_what_if.add, added, strict=True)
    ]
    if any(found):
        raise NothingToRun([message for message in found if message])
    return fork(_base.trace, _what_if.at, _config, runner, add=added, abort=_what_if.abort, max_ticks=max_ticks)


def twin_of(request: OwnRequest, scenario: Scenario) -> Draft | None:
    """The request of the scenario that asks the same, so that its recorded answer serves; None if there is none."""
    for draft in scenario.requests:
        asks_the_same = (draft.prompt.strip(), draft.system or "") == (request.prompt.strip(), request.system)
        if asks_the_same and draft.temperature == 0 and not draft.salt:
            return draft
    return None


def _spec(request: OwnRequest, twin: str | None, trace: Trace, runner: PatchedReplay | SyntheticRunner) -> RequestSpec:
    if twin is None:
        draft = Draft(request.id, request.prompt, request.max_tokens, 0.0, request.priority, request.system or None)
        return draft.spec(runner)
    like = trace.request(twin)
    sampling = replace(like.sampling, max_tokens=request.max_tokens, min_tokens=0)
    return replace(like, id=request.id, sampling=sampling, arrival_time=0.0, priority=request.priority)

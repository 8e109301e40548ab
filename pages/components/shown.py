"""What is to stand on the stage, from what was chosen; every mistake becomes a message beside it."""

from __future__ import annotations

from dataclasses import dataclass, field

import streamlit as st

from pages.components.live import LiveVisit, keep_finished, live_visit
from pages.components.picture.stage_picture import made_by
from pages.components.play_state import PlayState
from pages.components.runs import NothingToRun, Workload, base_config, compute, is_complete, workload
from pages.components.settings import limits
from scheduler_core.config import EngineConfig
from scheduler_core.difference import makes_a_difference, same_run, why_no_difference
from scheduler_core.errors import ConfigError, TickscopeError
from scheduler_core.trace import Trace


@dataclass(slots=True)
class Shown:
    """`trace` is None only if nothing could ever be run; `problems` say why it is not what was chosen."""

    chosen: Workload | None = None
    config: EngineConfig | None = None
    trace: Trace | None = None
    backend: str = "synthetic"
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def made_by(self) -> str:
        """What made the tokens: "SmolLM2-135M · recorded"."""
        if self.trace is None:
            return "nothing yet"
        if self.chosen is not None and self.chosen.digest:
            return f"{made_by(self.trace.backend)} · imported"
        if self.backend == "synthetic":
            return "made-up tokens · synthetic"
        return f"{short_model(self.trace.backend.model)} · {self.backend}"


def short_model(name: str) -> str:
    """A model's name without the tail that nobody reads: "SmolLM2-135M"."""
    return name.rpartition("/")[2].partition("-Instruct")[0] or "model"


def shown(state: PlayState) -> Shown:
    """Run what was chosen, or keep the latest run that could be made, with the reason."""
    result = Shown()
    config: EngineConfig | None = None
    try:
        config = result.config = state.config(base_config(state))
    except ConfigError as problem:
        stays = "The run shown is the last that could."
        if st.session_state.get("shown", (None, ""))[0] is None:
            # A link may begin with such settings: then there is no last one.
            config, stays = base_config(state), "Shown is the run under the settings it comes with."
        result.problems.append(f"These settings cannot run: {problem}. {stays}")
    visit = live_visit()
    keep_finished(visit)
    try:
        result.chosen, damage = workload(state, visit.finished)
        result.problems += [damage] if damage else []
        if not _show_live(result, state, visit, result.chosen) and config is not None:
            _compute(result, state, result.chosen, config)
    except NothingToRun as problem:
        result.problems += problem.messages
    except TickscopeError as problem:
        result.problems.append(str(problem))
    if result.trace is None:
        result.trace, result.backend = st.session_state.get("shown", (None, "synthetic"))
        return result
    st.session_state["shown"] = (result.trace, result.backend)
    if not is_complete(result.trace) and len(result.trace.records) >= limits().max_ticks:
        result.notes.append(f"The run was cut at {limits().max_ticks:,} ticks, the limit of this site.")
    return result


def _show_live(result: Shown, state: PlayState, visit: LiveVisit, chosen: Workload) -> bool:
    """Show the live run so far, if that was chosen and there is one."""
    if state.backend != "live" or visit.run is None or not visit.belongs_to(chosen):
        return False
    trace = visit.run.trace()
    if trace is None:
        return False
    result.trace, result.backend = trace, "live"
    return True


def _compute(result: Shown, state: PlayState, chosen: Workload, config: EngineConfig) -> None:
    wanted = "synthetic" if state.backend == "synthetic" else "recorded"
    if wanted == "recorded" and chosen.recording is None:
        wanted = "synthetic"
        if state.backend == "recorded":
            result.notes.append("There is no recorded run of these requests, so the tokens are made up.")
    result.trace, result.backend = compute(chosen, config, wanted), wanted


def difference(trace: Trace) -> str:
    """Why the latest change of settings left the run as it was; "" if it did not."""
    before: Trace | None = st.session_state.get("compared")
    if before is not None and before.config == trace.config and same_run(before, trace):
        told: str = st.session_state.get("difference", "")
        return told
    st.session_state["compared"] = trace
    st.session_state["difference"] = ""
    if before is not None and same_run(before, trace) and not makes_a_difference(before, trace):
        st.session_state["difference"] = why_no_difference(before, trace)
    return str(st.session_state["difference"])

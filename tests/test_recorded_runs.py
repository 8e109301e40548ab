"""The recorded runs of the real model: complete, sound, and what the model says again today."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from scheduler_core.backends.model_store import LoadedModel
from scheduler_core.backends.replay import ReplayRunner
from scheduler_core.backends.transformers_runner import TransformersRunner
from scheduler_core.engine import Engine
from scheduler_core.events import RequestFinished, RequestPreempted
from scheduler_core.request import FinishReason
from scheduler_core.trace import TickRecord, Trace
from scheduler_core.workload import list_scenarios, load_scenario

TRACES = Path(__file__).resolve().parents[1] / "assets" / "traces"


def schedule(record: TickRecord) -> tuple[object, ...]:
    """What was decided and drawn in a tick; measured times and rounded probabilities may differ."""
    events = [dataclasses.replace(e, top=()) if type(e).__name__ == "TokenSampled" else e for e in record.events]
    return record.start, record.end, record.output, tuple(events), record.snapshot


def test_every_scenario_has_a_recorded_run_and_no_run_is_left_over() -> None:
    assert sorted(path.name for path in TRACES.iterdir()) == sorted(f"{n}.json.gz" for n in list_scenarios())


@pytest.mark.parametrize("name", list_scenarios())
def test_a_recorded_run_is_one_of_the_real_model_on_the_scenario_as_it_is_now(name: str) -> None:
    trace, scenario = Trace.load(TRACES / f"{name}.json.gz"), load_scenario(name)
    assert trace.backend.kind == "model"
    assert trace.backend.dtype == "float32"
    assert (trace.scenario, trace.title, trace.config) == (name, scenario.title, scenario.config)
    assert [(s.id, s.prompt, s.sampling.max_tokens, s.arrival_time, s.priority) for s in trace.requests] == [
        (d.id, d.prompt, d.max_tokens, d.arrival_time, d.priority) for d in scenario.requests
    ]
    ends = {e.request_id: e.reason for r in trace.records for e in r.events if isinstance(e, RequestFinished)}
    assert set(ends) == {d.id for d in scenario.requests}
    assert set(ends.values()) <= {FinishReason.STOP, FinishReason.LENGTH}
    assert all(r.wall_seconds > 0 for r in trace.records if not r.is_idle)


@pytest.mark.parametrize("name", list_scenarios())
def test_the_scheduler_decides_today_as_it_did_in_the_recorded_run(name: str) -> None:
    trace = Trace.load(TRACES / f"{name}.json.gz")
    engine = Engine(trace.config, ReplayRunner(trace))
    for spec in trace.requests:
        engine.add_request(spec)
    assert [schedule(r) for r in engine.run().records] == [schedule(r) for r in trace.records]


def test_memory_pressure_shows_both_ways_of_preempting() -> None:
    trace = Trace.load(TRACES / "memory_pressure.json.gz")
    modes = {e.mode for r in trace.records for e in r.events if isinstance(e, RequestPreempted)}
    assert modes == {"swap", "recompute"}


@pytest.mark.model
def test_recording_again_gives_the_same_tokens_and_schedule(model: LoadedModel) -> None:
    name = "first_steps"
    scenario, runner = load_scenario(name), TransformersRunner(model)
    engine = Engine(scenario.config, runner, scenario=name, title=scenario.title)
    for spec in scenario.specs(runner):
        engine.add_request(spec)
    again, kept = engine.run(), Trace.load(TRACES / f"{name}.json.gz")
    assert again.requests == kept.requests
    assert [schedule(r) for r in again.records] == [schedule(r) for r in kept.records]
    assert again.token_texts == kept.token_texts

"""Same text, different schedule: the real model, every shipped scenario, against plain `generate` one by one."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler_core.backends.model_store import LoadedModel
from scheduler_core.backends.transformers_runner import TransformersRunner
from scheduler_core.engine import Engine
from scheduler_core.events import PrefixCacheQueried, RequestFinished, RequestPreempted
from scheduler_core.request import FinishReason
from scheduler_core.trace import Trace
from scheduler_core.workload import list_scenarios, load_scenario
from tests.generated import assert_same_tokens, generate
from tests.helpers import events, outputs

#: Together: chunk 1, 7, 32, off; quantum 1, 3, off; cache on, off; both modes; one lane and many.
SCHEDULES: dict[str, dict[str, Any]] = {
    "one token at a time": {"chunk_size": 1, "quantum": None, "enable_prefix_caching": True, "max_num_seqs": 6},
    "chunk 7, quantum 3, no cache": {
        "chunk_size": 7,
        "quantum": 3,
        "enable_prefix_caching": False,
        "preemption_mode": "swap",
        "max_num_seqs": 2,
    },
    "chunk 32, quantum 1, recompute": {
        "chunk_size": 32,
        "quantum": 1,
        "enable_prefix_caching": True,
        "preemption_mode": "recompute",
        "max_num_seqs": 3,
    },
    "whole prompts, one lane, recompute without a cache": {
        "enable_chunked_prefill": False,
        "quantum": 3,
        "enable_prefix_caching": False,
        "preemption_mode": "recompute",
        "max_num_seqs": 1,
    },
}


def test_the_schedules_cover_every_value_that_is_promised() -> None:
    seen = {name: {schedule.get(name) for schedule in SCHEDULES.values()} for name in ("chunk_size", "quantum")}
    assert seen["chunk_size"] >= {1, 7, 32}
    assert seen["quantum"] >= {1, 3, None}
    assert {s.get("enable_chunked_prefill", True) for s in SCHEDULES.values()} == {True, False}
    assert {s["enable_prefix_caching"] for s in SCHEDULES.values()} == {True, False}
    assert {s.get("preemption_mode") for s in SCHEDULES.values()} >= {"swap", "recompute"}
    assert {s["max_num_seqs"] for s in SCHEDULES.values()} >= {1, 6}


def scenario_run(model: LoadedModel, name: str, **settings: Any) -> Trace:
    scenario = load_scenario(name)
    runner = TransformersRunner(model)
    engine = Engine(scenario.config.replace(**settings), runner)
    for spec in scenario.specs(runner):
        engine.add_request(spec)
    return engine.run()


@pytest.mark.model
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", list_scenarios())
def test_a_text_does_not_depend_on_the_schedule_and_equals_generate(model: LoadedModel, name: str) -> None:
    runner = TransformersRunner(model)
    specs = load_scenario(name).specs(runner)
    expected = {spec.id: generate(model, spec.prompt_token_ids, spec.sampling.max_tokens) for spec in specs}
    for label, settings in {"as shipped": {}, **SCHEDULES}.items():
        trace = scenario_run(model, name, **settings)
        reasons = {e.reason for e in events(trace, RequestFinished)}
        assert reasons <= {FinishReason.STOP, FinishReason.LENGTH}, label
        said = outputs(trace)
        for spec in specs:
            assert_same_tokens(model, spec.prompt_token_ids, said[spec.id], expected[spec.id])


@pytest.mark.model
def test_first_steps_has_a_hit_a_preemption_and_five_answers(model: LoadedModel) -> None:
    trace = scenario_run(model, "first_steps")
    runner = TransformersRunner(model)
    texts = {request_id: runner.decode(tokens) for request_id, tokens in outputs(trace).items()}
    assert "Paris" in texts["R1"]
    assert "salt" in texts["R2"]
    assert "honey" in texts["R3"]
    assert "light" in texts["R4"].lower()
    assert "blue" in texts["R5"]
    assert any(e.hit_tokens for e in events(trace, PrefixCacheQueried) if not e.self_hit)
    assert events(trace, RequestPreempted)

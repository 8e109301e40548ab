"""Every setting changes what some shipped scenario does; a knob that does nothing would be a lie."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from scheduler_core.backends.synthetic import SyntheticRunner
from scheduler_core.config import FIELD_NAMES
from scheduler_core.engine import Engine
from scheduler_core.events import RequestPreempted
from scheduler_core.trace import Trace
from scheduler_core.workload import load_scenario
from tests.helpers import events

#: Setting -> (scenario, other settings, one value, another value).
KNOBS: dict[str, tuple[str, dict[str, Any], Any, Any]] = {
    "block_size": ("first_steps", {}, 16, 8),
    "num_blocks": ("memory_pressure", {}, 12, 24),
    "max_num_batched_tokens": ("long_prompt_meets_chat", {}, 64, 24),
    "max_num_seqs": ("time_slices", {}, 3, 2),
    "max_model_len": ("long_prompt_meets_chat", {}, 1024, 128),
    "enable_chunked_prefill": ("long_prompt_meets_chat", {}, True, False),
    "chunk_size": ("long_prompt_meets_chat", {}, 32, 8),
    "cap_lone_request": ("memory_pressure", {"chunk_size": 4}, True, False),
    "enable_prefix_caching": ("shared_system_prompt", {}, True, False),
    "policy": ("priorities", {}, "priority", "fcfs"),
    "aging": ("priorities", {}, 12, 0),
    "mlfq_levels": ("time_slices", {"policy": "mlfq"}, 4, 1),
    "priority_push_out": ("priorities", {}, True, False),
    "quantum": ("time_slices", {}, 4, None),
    "preemption_mode": ("time_slices", {}, "swap", "recompute"),
    "num_swap_blocks": ("time_slices", {}, 48, 0),
    "batch_order": ("long_prompt_meets_chat", {}, "decode_first", "prefill_first"),
    "admission": ("shared_system_prompt", {}, "whole_minus_promised", "when_empty"),
    "watermark": ("memory_pressure", {}, 0, 6),
    "mixed_batches": ("long_prompt_meets_chat", {}, True, False),
    "seed": ("first_steps", {}, 0, 1),
    "cost": ("long_prompt_meets_chat", {}, "smollm2-cpu", "llama-3.1-8b-h100"),
    "chunk_control": ("burst", {}, "fixed", "pid"),
    "chunk_target_ms": ("burst", {"chunk_control": "pid"}, 100, 60),
    "chunk_signal": ("burst", {"chunk_control": "pid"}, "tick", "itl_p99"),
    "chunk_moves": ("burst", {"chunk_control": "pid"}, "chunk", "budget"),
    "chunk_response": ("burst", {"chunk_control": "pid"}, "usual", "calm"),
}


def scenario_run(name: str, **settings: Any) -> Trace:
    scenario = load_scenario(name)
    drafts = scenario.requests
    if "seed" in settings:  # a seed matters where tokens are drawn
        drafts = tuple(dataclasses.replace(draft, temperature=0.8) for draft in drafts)
    runner = SyntheticRunner()
    engine = Engine(scenario.config.replace(**settings), runner)
    for draft in drafts:
        engine.add_request(draft.spec(runner))
    return engine.run()


def what_happens(trace: Trace) -> list[tuple[Any, ...]]:
    return [(r.start, r.output.scheduled, r.events) for r in trace.records]


def test_every_setting_has_its_test() -> None:
    assert set(KNOBS) == set(FIELD_NAMES)


@pytest.mark.parametrize("name", KNOBS)
def test_the_setting_changes_what_a_scenario_does(name: str) -> None:
    scenario, others, one, another = KNOBS[name]
    first = scenario_run(scenario, **{**others, name: one})
    second = scenario_run(scenario, **{**others, name: another})
    assert what_happens(first) != what_happens(second)


def test_quanta_2_4_and_8_differ_visibly_on_time_slices() -> None:
    counts = [len(events(scenario_run("time_slices", quantum=q), RequestPreempted)) for q in (2, 4, 8)]
    assert counts[0] >= 1.5 * counts[1] >= 2.25 * counts[2] > 0, counts

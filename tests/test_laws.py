"""The laws of a run, on thousands of random workloads. `Engine` checks its own state after every tick."""

from __future__ import annotations

import dataclasses
from collections import Counter
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler_core import metrics
from scheduler_core.backends.synthetic import SyntheticRunner
from scheduler_core.config import EngineConfig
from scheduler_core.engine import Engine
from scheduler_core.events import PrefixCacheQueried, RequestFinished, RequestPreempted
from scheduler_core.request import FinishReason, RequestSpec
from scheduler_core.trace import Trace
from tests.helpers import Workload, events, outputs, random_workload

EXAMPLES = 2_500


def solo_output(workload: Workload, spec: RequestSpec) -> list[int]:
    """The tokens of one request alone, unchunked, without a cache, in memory that is large enough."""
    config = EngineConfig(
        num_blocks=64,
        max_model_len=workload.config.max_model_len,
        chunk_size=None,
        quantum=None,
        enable_prefix_caching=False,
        seed=workload.config.seed,
    )
    engine = Engine(config, SyntheticRunner(eos_every=workload.eos_every))
    engine.add_request(dataclasses.replace(spec, arrival_time=0.0))
    return outputs(engine.run())[spec.id]


def check_laws(workload: Workload, trace: Trace) -> None:
    reasons = {e.request_id: e.reason for e in events(trace, RequestFinished)}
    assert set(reasons) == {spec.id for spec in workload.specs}, "each request finishes or is refused"
    said = outputs(trace)
    for spec in workload.specs:
        alone = solo_output(workload, spec)
        if reasons[spec.id] in (FinishReason.STOP, FinishReason.LENGTH):
            assert said[spec.id] == alone, f"{spec.id} says something else than alone"
        else:
            assert reasons[spec.id] in (FinishReason.ABORT, FinishReason.REJECTED)
            assert said[spec.id] == alone[: len(said[spec.id])]
    for record in trace.records:
        check_tick(workload.config, record)


def check_tick(config: EngineConfig, record: object) -> None:
    """Counted again from the record alone, as an independent check of the engine's own."""
    snapshot, output = record.snapshot, record.output  # type: ignore[attr-defined]
    tables = [block for r in snapshot.requests for block in r.block_ids]
    assert len(set(tables)) + len(snapshot.free_blocks) == config.num_blocks
    assert set(tables).isdisjoint(snapshot.free_blocks)
    assert len(snapshot.running) <= config.max_num_seqs
    assert all(item.num_tokens >= 1 for item in output.scheduled)
    if config.enable_chunked_prefill:
        assert output.num_scheduled_tokens <= config.max_num_batched_tokens
    alive = [r.id for r in snapshot.requests if r.finish_reason is None]
    assert sorted(alive) == sorted([*snapshot.running, *snapshot.waiting])
    assert record.counts.used_blocks == len(set(tables))  # type: ignore[attr-defined]


@settings(max_examples=EXAMPLES)
@given(st.integers(0, 2**32))
def test_every_law_holds_on_random_workloads(seed: int) -> None:
    workload = random_workload(seed)
    check_laws(workload, workload.run())


@cache
def _many() -> tuple[Trace, ...]:
    return tuple(random_workload(seed).run() for seed in range(300))


def test_the_random_workloads_hit_and_preempt_for_every_reason_and_in_both_modes() -> None:
    seen: Counter[str] = Counter()
    for trace in _many():
        seen.update(e.reason.value for e in events(trace, RequestPreempted))
        seen.update(e.mode for e in events(trace, RequestPreempted))
        seen["hit_tokens"] += sum(e.hit_tokens for e in events(trace, PrefixCacheQueried))
        seen.update(e.reason.value for e in events(trace, RequestFinished))
    wanted = ("slice", "memory", "push_out", "swap", "recompute", "hit_tokens", "abort", "rejected", "stop", "length")
    assert all(seen[name] > 10 for name in wanted), seen


def test_the_same_inputs_give_an_equal_trace() -> None:
    for seed in range(0, 300, 10):
        assert random_workload(seed).run() == _many()[seed]


def test_a_trace_survives_json() -> None:
    for trace in _many()[::6]:
        assert Trace.from_json(trace.to_json()) == trace


def test_counters_equal_a_recount_from_the_snapshots() -> None:
    for seed, trace in enumerate(_many()):
        last = {r.id: r for record in trace.records if record.snapshot for r in record.snapshot.requests}
        for m in metrics.request_metrics(trace):
            if m.id in last:
                assert m.num_preemptions == last[m.id].num_preemptions, (seed, m.id)
                assert m.num_output_tokens == last[m.id].num_output_tokens, (seed, m.id)
                assert m.num_cached_tokens == last[m.id].num_cached_tokens, (seed, m.id)


def test_no_request_leaves_for_one_that_does_not_enter() -> None:
    """No pointless preemption: whoever makes a slice end or pushes out is admitted in that very tick."""
    for trace in _many():
        for record in trace.records:
            assert record.snapshot is not None
            for event in record.events:
                if isinstance(event, RequestPreempted) and event.reason.value in ("slice", "push_out"):
                    admitted = {e.request_id for e in record.events if type(e).__name__ == "RequestAdmitted"}
                    assert event.for_request in admitted


def test_the_laws_notice_a_block_that_is_shared_by_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test bed itself can fail: a cache that does not compare tokens breaks a text or a law."""
    monkeypatch.setattr(
        "scheduler_core.prefix_cache.PrefixCache._find",
        lambda self, key, *_: next(iter(self._by_key.get(key, [])), None),
    )
    monkeypatch.setattr("scheduler_core.prefix_cache.block_key", lambda *_: b"7")
    broken = 0
    for seed in range(60):
        workload = random_workload(seed)
        engine = workload.engine()
        engine._kv.cache.key_function = lambda *_: b"7"
        try:
            check_laws(workload, engine.run(max_ticks=500))
        except AssertionError:
            broken += 1
    assert broken > 10

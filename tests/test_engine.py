"""Engine: the clock, idle time, changes between ticks, failures, forks."""

from __future__ import annotations

import dataclasses

import pytest

from scheduler_core.backends.replay import ReplayRunner
from scheduler_core.backends.synthetic import SyntheticRunner
from scheduler_core.config import FIELD_NAMES, FIXED_FIELDS, EngineConfig
from scheduler_core.engine import Engine, fork
from scheduler_core.errors import ConfigError, RequestError, TraceError
from scheduler_core.events import ConfigChanged, FaultInjected, PreemptReason, RequestFinished, RequestPreempted
from scheduler_core.output import ModelRunnerOutput, SchedulerOutput
from scheduler_core.request import FinishReason
from scheduler_core.workload import load_scenario
from tests.helpers import create_engine, create_request, events, outputs, random_workload, run, tokens_per_tick


class FailingRunner(SyntheticRunner):
    """Raises at the forward number `at`, or reports one request as failed."""

    def __init__(self, at: int, only: str | None = None) -> None:
        super().__init__()
        self._left = at
        self._only = only

    def execute_model(self, output: SchedulerOutput) -> ModelRunnerOutput:
        self._left -= 1
        if self._left != 0:
            return super().execute_model(output)
        if self._only is None:
            raise RuntimeError("the device is gone")
        result = super().execute_model(output)
        return ModelRunnerOutput(
            {k: v for k, v in result.sampled.items() if k != self._only},
            failed={self._only: "its logits are not numbers"},
        )


def test_an_idle_engine_jumps_to_the_next_arrival_and_records_it() -> None:
    trace = run(create_engine(), create_request("a", 4, max_tokens=1), create_request("b", 4, 1, arrival=10.5))
    assert [(r.start, r.end, r.is_idle) for r in trace.records] == [(0, 1, False), (1, 10.5, True), (10.5, 11.5, False)]


def test_a_named_machine_gives_ticks_a_length() -> None:
    trace = run(create_engine(cost="smollm2-cpu"), create_request("a", 32, max_tokens=2))
    first, second = trace.records
    assert first.end - first.start > second.end - second.start > 0


def test_an_unknown_machine_is_refused() -> None:
    with pytest.raises(ConfigError, match="abacus"):
        create_engine(cost="abacus")


def test_an_id_can_be_used_once() -> None:
    engine = create_engine()
    engine.add_request(create_request("a"))
    with pytest.raises(RequestError, match="'a' already"):
        engine.add_request(create_request("a", 3))
    assert outputs(engine.run())["a"] == outputs(run(create_engine(), create_request("a")))["a"]


def test_a_model_that_takes_fewer_tokens_is_named() -> None:
    class Short(SyntheticRunner):
        max_model_len = 64

    with pytest.raises(ConfigError, match=r"max_model_len is 128.*64"):
        create_engine(Short())


# Changes between ticks


def test_settings_change_from_the_next_tick_on() -> None:
    engine = create_engine(chunk_size=2)
    engine.add_request(create_request("a", 12, max_tokens=1))
    engine.step()
    engine.reconfigure(engine.config.replace(chunk_size=5))
    trace = engine.run()
    assert tokens_per_tick(trace) == [{"a": 2}, {"a": 5}, {"a": 5}]
    [change] = events(trace, ConfigChanged)
    assert change.changes == (("chunk_size", "2", "5"),)
    assert [trace.config_at(tick).chunk_size for tick in range(3)] == [2, 5, 5]


@pytest.mark.parametrize("field", FIXED_FIELDS)
def test_what_shapes_memory_or_randomness_cannot_change(field: str) -> None:
    engine = create_engine()
    value = "smollm2-cpu" if field == "cost" else getattr(engine.config, field) + 1
    with pytest.raises(ConfigError, match=field):
        engine.reconfigure(engine.config.replace(**{field: value}))


def test_lanes_that_disappear_are_emptied_worst_first() -> None:
    engine = create_engine(max_num_seqs=3)
    specs = [create_request(n, 4, max_tokens=8) for n in "abc"]
    for spec in specs:
        engine.add_request(spec)
    engine.step()
    engine.reconfigure(engine.config.replace(max_num_seqs=1))
    trace = engine.run()
    left = [(e.request_id, e.reason) for e in events(trace, RequestPreempted)]
    assert left == [("c", PreemptReason.LANES), ("b", PreemptReason.LANES)]
    assert outputs(trace) == outputs(run(create_engine(), *specs))


@pytest.mark.parametrize("seed", range(0, 200, 4))
def test_random_changes_of_settings_keep_every_text(seed: int) -> None:
    workload, other = random_workload(seed), random_workload(seed + 1)
    engine = workload.engine()
    movable = {f: getattr(other.config, f) for f in FIELD_NAMES if f not in FIXED_FIELDS}
    lanes = movable["max_num_seqs"]
    movable["max_num_batched_tokens"] = max(lanes, movable["max_num_batched_tokens"])
    movable["watermark"] = 0
    while engine.has_work and engine.tick < 2000:
        if engine.tick in (3, 9):
            engine.reconfigure(engine.config.replace(**movable) if engine.tick == 3 else workload.config)
        engine.step()
    assert not engine.has_work
    changed, plain = outputs(engine.trace()), outputs(workload.engine().run())
    assert changed == plain


def test_an_abort_ends_a_request_at_the_next_tick_and_frees_all_it_holds() -> None:
    for tick in range(8):
        for config in ({}, {"max_num_seqs": 1, "policy": "priority"}):
            engine = create_engine(chunk_size=4, **config)
            engine.add_request(create_request("x", 14, max_tokens=4, priority=5))
            engine.add_request(create_request("u", 3, max_tokens=2, arrival=3, priority=1))
            while engine.has_work:
                if engine.tick == tick:
                    engine.abort("x")
                engine.step()
            trace = engine.trace()
            [end] = events(trace, RequestFinished, "x")
            if end.reason is FinishReason.ABORT:
                assert all("x" not in ids for ids in tokens_per_tick(trace)[tick:])
            assert len(trace.records[-1].snapshot.free_blocks) == 32
            assert trace.records[-1].snapshot.host_blocks_used == 0


def test_a_request_aborted_before_it_arrives_never_runs() -> None:
    engine = create_engine()
    engine.add_request(create_request("a", 4, max_tokens=3))
    engine.add_request(create_request("late", 4, arrival=2))
    engine.abort("late")
    trace = engine.run()
    assert [e.reason for e in events(trace, RequestFinished, "late")] == [FinishReason.ABORT]
    with pytest.raises(RequestError, match="nobody"):
        engine.abort("nobody")


# Failures


def test_a_failed_forward_ends_its_requests_and_publishes_nothing() -> None:
    prompt = list(range(50, 66))
    x, y = create_request("x", prompt, 3), create_request("y", prompt, 3, arrival=5)
    trace = run(create_engine(FailingRunner(at=2), chunk_size=8), x, y)
    assert [e.reason for e in events(trace, RequestFinished)] == [FinishReason.ERROR, FinishReason.LENGTH]
    assert "the device is gone" in events(trace, FaultInjected)[0].detail
    admitted = next(
        e for r in trace.records for e in r.events if type(e).__name__ == "PrefixCacheQueried" and e.request_id == "y"
    )
    assert admitted.hit_tokens == 8, "only what was committed before"
    assert outputs(trace)["y"] == outputs(run(create_engine(), y))["y"]


def test_a_request_that_fails_alone_does_not_disturb_the_others() -> None:
    specs = [create_request("a", 6, max_tokens=4), create_request("b", 6, max_tokens=4)]
    trace = run(create_engine(FailingRunner(at=2, only="a")), *specs)
    reasons = {e.request_id: e.reason for e in events(trace, RequestFinished)}
    assert reasons == {"a": FinishReason.ERROR, "b": FinishReason.LENGTH}
    assert outputs(trace)["b"] == outputs(run(create_engine(), specs[1]))["b"]


def test_a_lone_request_without_memory_ends_with_an_error_instead_of_hanging() -> None:
    engine = create_engine(num_blocks=4)
    engine.add_request(create_request("a", 6, max_tokens=8))
    engine.step()
    stolen = engine._kv.pool.take(2)
    engine._kv.tables["thief"] = stolen
    engine._check = False
    trace = engine.run(max_ticks=50)
    [end] = events(trace, RequestFinished)
    assert end.reason is FinishReason.ERROR
    assert "out of KV" in end.message
    assert len(outputs(trace)["a"]) == 3, "the tokens it had are kept"


# Replay and fork


@pytest.mark.parametrize("seed", range(0, 120, 3))
def test_recorded_tokens_serve_any_schedule(seed: int) -> None:
    workload = random_workload(seed)
    trace = workload.engine().run()
    config = workload.config.replace(quantum=2, chunk_size=3, max_num_seqs=2, preemption_mode="recompute")
    engine = Engine(config, ReplayRunner(trace))
    for spec in trace.requests:
        engine.add_request(spec)
    assert outputs(engine.run()) == outputs(trace)


def test_a_token_that_was_not_recorded_is_an_error_with_the_remedy() -> None:
    trace = run(create_engine(), create_request("a", 4, max_tokens=2))
    longer = create_request("a", 4, max_tokens=5)
    again = run(create_engine(ReplayRunner(trace)), longer)
    [end] = events(again, RequestFinished)
    assert end.reason is FinishReason.ERROR
    assert "holds 2 tokens" in end.message


@pytest.mark.parametrize("seed", range(0, 60, 3))
def test_a_fork_shares_its_past_and_goes_on_as_a_run_with_that_change_would(seed: int) -> None:
    workload = dataclasses.replace(random_workload(seed), fail_copies=False, fail_restores=False)
    trace = workload.engine().run()
    tick = len(trace.records) // 2
    config = workload.config.replace(chunk_size=2, quantum=1)
    forked = fork(trace, tick, config)
    assert forked.records[:tick] == trace.records[:tick]
    engine = workload.engine()
    for _ in range(tick):
        engine.step()
    engine.reconfigure(config)
    direct = engine.run()
    assert [r.output for r in forked.records] == [r.output for r in direct.records]
    assert [r.snapshot for r in forked.records] == [r.snapshot for r in direct.records]


def test_a_fork_repeats_aborts_and_changes_of_settings() -> None:
    engine = create_engine()
    for name in "abc":
        engine.add_request(create_request(name, 9, max_tokens=9))
    engine.step()
    engine.abort("b")
    engine.reconfigure(engine.config.replace(chunk_size=3))
    trace = engine.run()
    assert fork(trace, len(trace.records), engine.config).records == trace.records


def test_a_fork_outside_the_run_is_refused() -> None:
    trace = run(create_engine(), create_request("a"))
    with pytest.raises(TraceError, match="tick is 99"):
        fork(trace, 99, EngineConfig())


def test_a_summary_keeps_counts_and_drops_the_rest() -> None:
    scenario = load_scenario("time_slices")
    runner = SyntheticRunner()
    traces = []
    for record in ("full", "summary"):
        engine = Engine(scenario.config, runner, record=record)
        for spec in scenario.specs(runner):
            engine.add_request(spec)
        traces.append(engine.run())
    full, summary = traces
    assert [r.counts for r in summary.records] == [r.counts for r in full.records]
    assert all(r.snapshot is None and not r.output.scheduled for r in summary.records)
    assert outputs(summary) == outputs(full)
    assert [r.is_idle for r in summary.records] == [r.is_idle for r in full.records]

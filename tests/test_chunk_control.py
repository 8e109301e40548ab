"""Chunk control: it settles, stays in range, recovers from a target that cannot be kept, and is the same every time."""

from __future__ import annotations

import dataclasses
import pickle
import random
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_core.backends.replay import ReplayRunner
from scheduler_core.backends.synthetic import SyntheticRunner
from scheduler_core.chunk_control import GAINS, TOLERANCE, FixedChunks, PidChunks, chunk_control
from scheduler_core.chunk_range import ChunkRange
from scheduler_core.config import EngineConfig
from scheduler_core.engine import Engine, fork, replay_to
from scheduler_core.errors import ConfigError, TraceError
from scheduler_core.events import ChunkSteered, RequestSkipped, SkipReason, SteerReason
from scheduler_core.explain import explain
from scheduler_core.lookup import configs
from scheduler_core.metrics import series
from scheduler_core.narration import narrate_tick
from scheduler_core.output import ModelRunnerOutput, ScheduledRequest, SchedulerOutput
from scheduler_core.request import RequestSpec, SamplingParams
from scheduler_core.trace import Trace
from tests.helpers import create_request, events, outputs, random_workload, run

#: So many ticks after a step of load the usual response is on target for good, on any machine on which the chunk makes
#: up at least a third of a tick; half of the steps take 5 ticks at most.
SETTLES_WITHIN = 20
#: The same for the CPU's law and a prompt that meets one chat.
SETTLES_ON_THE_CPU = 8

CPU: dict[str, Any] = {
    "cost": "smollm2-cpu",
    "max_num_seqs": 4,
    "max_num_batched_tokens": 128,
    "num_blocks": 200,
    "chunk_size": None,
    "quantum": None,
}


def steered(**knobs: Any) -> EngineConfig:
    return EngineConfig(**{**CPU, "chunk_control": "pid", "chunk_target_ms": 60, **knobs})


def burst(*arrivals: float, prompt: int = 600) -> list[RequestSpec]:
    """A chat from the start, and a long prompt at each of the times."""
    chat = create_request("chat", 8, max_tokens=120)
    return [chat, *(create_request(f"long{i}", prompt, 3, at) for i, at in enumerate(arrivals))]


def made(config: EngineConfig, specs: Sequence[RequestSpec], **engine: Any) -> Trace:
    return run(Engine(config, SyntheticRunner(), **engine), *specs)


def batch(chunk: int, decodes: int = 0) -> SchedulerOutput:
    """A tick with one chunk of a long prompt, none if it is 0, and some decodes."""
    sampling = SamplingParams(100)
    items = [ScheduledRequest(f"d{i}", (1,), 8, (), True, 1, sampling, 0) for i in range(decodes)]
    if chunk:
        items.append(ScheduledRequest("long", (1,) * chunk, 0, (), False, 0, sampling, 0))
    return SchedulerOutput(0, tuple(items))


@dataclasses.dataclass(frozen=True)
class Plant:
    """A machine: a tick takes `overhead` and `per_token` for every token, in seconds."""

    overhead: float
    per_token: float

    def seconds(self, chunk: int) -> float:
        return self.overhead + self.per_token * chunk


def ticks(control: Any, plant: Plant, number: int) -> list[ChunkSteered]:
    """What control does in so many ticks of a prompt that has no end."""
    found = []
    for _ in range(number):
        told = control.steer(batch(control.size), 0.0, plant.seconds(control.size), 0.0, [])
        assert told is not None
        found.append(told)
    return found


def on_target(target: float, measured: float) -> bool:
    return abs(measured - target) <= TOLERANCE * target * 1.001


# A machine's law, and properties


@st.composite
def reachable(draw: Any) -> tuple[EngineConfig, Plant, Plant]:
    """Settings, a machine, and the same machine under another load: on both the target can be kept."""
    budget = draw(st.sampled_from([64, 128, 512, 2048]))
    target_ms = draw(st.integers(5, 2_000))
    plants = []
    for _ in range(2):
        size = draw(st.floats(18.0, budget * 0.95))
        share = draw(st.floats(0.34, 1.0))
        seconds = target_ms / 1000
        plants.append(Plant((1 - share) * seconds, share * seconds / size))
    config = steered(max_num_batched_tokens=budget, chunk_target_ms=target_ms)
    return config, plants[0], plants[1]


@given(reachable())
def test_it_settles_within_a_stated_number_of_ticks_after_a_step_of_load(case: tuple[EngineConfig, Plant, Plant]):
    config, before, after = case
    control = chunk_control(config)
    for plant in (before, after):
        told = ticks(control, plant, SETTLES_WITHIN + 30)
        late = told[SETTLES_WITHIN:]
        assert all(on_target(event.target_s, event.measured_s) for event in late)
        assert {event.reason for event in late} == {SteerReason.ON_TARGET}


@given(
    st.sampled_from(sorted(GAINS)),
    st.integers(1, 64),
    st.integers(1, 4096),
    st.lists(st.tuples(st.floats(1e-6, 1e3), st.integers(0, 4096), st.integers(0, 9)), max_size=60),
)
def test_it_stays_in_range_whatever_it_measures(response: str, block: int, budget: int, seen: list[Any]):
    config = steered(block_size=block, max_num_batched_tokens=max(budget, 4), chunk_response=response)
    limits, control = ChunkRange.of(config), chunk_control(config)
    assert isinstance(control, PidChunks)
    for seconds, chunk, decodes in seen:
        control.steer(batch(min(chunk, control.size), decodes), 0.0, seconds, 0.0, [])
        assert limits.low <= control.size <= limits.high
        assert control.in_force(config).largest_chunk == control.size


@given(st.integers(1, 400))
def test_it_recovers_from_an_unreachable_target_at_once_however_long_that_lasted(overlong: int):
    config = steered(chunk_target_ms=50)
    control = chunk_control(config)
    hopeless = ticks(control, Plant(0.2, 0.001), overlong + 12)
    assert hopeless[-1].reason is SteerReason.AT_LOWEST
    assert hopeless[-1].new == 16
    relieved = ticks(control, Plant(0.005, 0.0007), SETTLES_WITHIN)
    assert relieved[0].new > 16
    assert on_target(0.05, relieved[-1].measured_s)


@given(st.integers(1, 300))
def test_ticks_that_another_size_would_not_change_teach_it_nothing(number: int):
    control = chunk_control(steered())
    ticks(control, Plant(0.01, 0.001), 20)
    size, twin = control.size, chunk_control(steered())
    ticks(twin, Plant(0.01, 0.001), 20)
    for _ in range(number):
        for output, seconds in ((batch(0, 3), 0.5), (batch(size - 1), 0.001), (SchedulerOutput(0), 9.0)):
            told = control.steer(output, 0.0, seconds, 0.0, [])
            assert told is None or told.reason is SteerReason.NOTHING_TO_CUT
    assert control.size == size
    assert ticks(control, Plant(0.05, 0.001), 9) == ticks(twin, Plant(0.05, 0.001), 9)


def test_a_nervous_response_swings_where_the_usual_one_settles():
    def sizes(response: str) -> set[int]:
        control = chunk_control(steered(chunk_response=response))
        return {event.new for event in ticks(control, Plant(0.001, 0.001), 60)[30:]}

    assert len(sizes("usual")) == 1
    assert len(sizes("nervous")) > 1


def test_what_was_not_even_used_up_is_cut_from_what_was_used():
    control = chunk_control(steered())
    told = control.steer(batch(20), 0.0, 0.12, 0.0, [])
    assert told is not None
    assert told.old == 128
    assert told.new < 20


# In a run


def test_a_burst_is_brought_to_the_target_and_a_fixed_chunk_is_not():
    specs = burst(0.3, prompt=900)
    adaptive, fixed = made(steered(), specs), made(steered(chunk_control="fixed"), specs)
    found = [event for event in events(adaptive, ChunkSteered) if event.reason is not SteerReason.NOTHING_TO_CUT]
    # The prompt grows behind a chunk, so the same chunk takes a little longer each time, until it is cut again.
    assert all(abs(event.measured_s - 0.06) < 0.06 * 0.08 for event in found[SETTLES_ON_THE_CPU:])
    assert len(found) > SETTLES_ON_THE_CPU + 6
    assert max(r.end - r.start for r in fixed.records[:-1] if not r.is_idle) > 0.12
    assert outputs(adaptive) == outputs(fixed)


def test_the_size_changes_between_ticks_only_and_every_chunk_keeps_to_it():
    trace = made(steered(), burst(0.3, 0.35))
    told = [next(e for e in r.events if isinstance(e, ChunkSteered)) for r in trace.records if not r.is_idle]
    assert all(one.new == next_one.old for one, next_one in pairwise(told))
    assert len({event.new for event in told}) > 2
    for record in trace.records:
        size = trace.config_at(record.tick).chunk_size
        assert size is not None
        assert all(item.num_tokens <= size for item in record.output.scheduled)
    assert configs(trace) == [trace.config_at(tick) for tick in range(len(trace.records))]


def test_the_budget_can_be_moved_in_place_of_the_chunk():
    trace = made(steered(chunk_moves="budget", chunk_target_ms=70), burst(0.3, 0.3, 0.3))
    budgets = series(trace).token_budget
    assert all(tokens <= budget for tokens, budget in zip(series(trace).scheduled_tokens, budgets, strict=True))
    assert {event.setting for event in events(trace, ChunkSteered)} == {"max_num_batched_tokens"}
    assert min(budgets) < 100 < max(budgets)


def test_a_slow_tick_of_decodes_alone_moves_nothing():
    trace = made(steered(chunk_target_ms=5), [create_request("A", 4, max_tokens=30)])
    assert {event.reason for event in events(trace, ChunkSteered)[1:]} == {SteerReason.NOTHING_TO_CUT}


def test_an_idle_jump_is_no_tick_that_anything_is_learnt_from():
    trace = made(steered(), [create_request("A", 4, max_tokens=2), create_request("B", 4, 2, arrival=9.0)])
    idle = [r for r in trace.records if r.is_idle]
    assert idle
    assert not any(isinstance(event, ChunkSteered) for record in idle for event in record.events)


def test_the_99th_percentile_of_the_gaps_is_kept_near_its_target_too():
    trace = made(steered(chunk_signal="itl_p99"), burst(0.3))
    reads = [e for e in events(trace, ChunkSteered) if e.reason is SteerReason.ON_TARGET]
    assert len(reads) > 3
    assert events(trace, ChunkSteered)[0].reason is SteerReason.NOT_MEASURED


def test_a_ramp_goes_up_by_a_block_whatever_the_tick_takes_and_begins_anew():
    trace = made(steered(chunk_control="ramp"), burst(0.3))
    told = events(trace, ChunkSteered)
    up = [event.new - event.old for event in told if event.new > event.old]
    assert set(up) == {16}
    assert max(event.new for event in told) == 128
    assert told[-1].new == 16
    assert {event.reason for event in told} == {SteerReason.RAMP}


def test_texts_do_not_depend_on_it_and_every_law_holds_on_random_workloads():
    steered_ticks = 0
    for seed in range(40):
        workload, rng = random_workload(seed), random.Random(seed)
        config = workload.config.replace(
            cost="smollm2-cpu",
            chunk_control=rng.choice(["pid", "ramp"]),
            chunk_target_ms=rng.choice([1, 12, 15, 25, 100]),
            chunk_signal=rng.choice(["tick", "itl_p99", "measured_tick"]),
            chunk_moves=rng.choice(["chunk", "budget"]),
            chunk_response=rng.choice([*GAINS]),
        )
        specs = tuple(dataclasses.replace(s, arrival_time=s.arrival_time / 50) for s in workload.specs)
        plain = dataclasses.replace(workload, specs=specs, aborts=(), config=config.replace(chunk_control="fixed"))
        controlled = dataclasses.replace(plain, config=config)
        trace = controlled.run()
        if not (workload.fail_copies or workload.fail_restores):
            assert outputs(trace) == outputs(plain.run())
        limits = ChunkRange.of(config)
        told = events(trace, ChunkSteered)
        assert all(limits.low <= event.new <= limits.high for event in told)
        steered_ticks += sum(event.new != event.old for event in told)
        assert Trace.from_json(trace.to_json()) == trace
        assert all(narrate_tick(trace, record.tick) for record in trace.records)
    assert steered_ticks > 30


# The same again: files, replays, forks, changes


@pytest.mark.parametrize(
    "knobs", [{}, {"chunk_signal": "itl_p99"}, {"chunk_moves": "budget"}, {"chunk_control": "ramp"}]
)
def test_a_fork_in_mid_run_is_to_the_byte_the_run_from_zero(knobs: dict[str, Any]):
    trace = made(steered(**knobs), burst(0.3, 0.5))
    for tick in (8, 20):
        assert (
            fork(trace, tick, trace.config).to_bytes()
            == dataclasses.replace(trace, backend=ReplayRunner(trace).backend).to_bytes()
        )


@pytest.mark.parametrize(
    "change",
    [{"chunk_target_ms": 45}, {"chunk_control": "fixed", "chunk_size": 40}, {"chunk_size": 24}, {"max_num_seqs": 2}],
)
def test_a_fork_with_other_settings_is_the_run_in_which_they_were_changed_at_that_tick(change: dict[str, Any]):
    config, specs = steered(), burst(0.3, 0.5)
    trace = made(config, specs)
    direct = Engine(config, SyntheticRunner())
    for spec in specs:
        direct.add_request(spec)
    for _ in range(14):
        direct.step()
    direct.reconfigure(config.replace(**change))
    forked = fork(trace, 14, config.replace(**change))
    assert forked.records == direct.run().records


class TimedRunner(SyntheticRunner):
    """Takes measured times that no replay could guess."""

    def __init__(self) -> None:
        super().__init__()
        self._random = random.Random(5)

    def execute_model(self, output: SchedulerOutput) -> ModelRunnerOutput:
        done = super().execute_model(output)
        seconds = (0.01 + 0.001 * output.num_scheduled_tokens) * self._random.uniform(0.8, 1.3)
        return dataclasses.replace(done, wall_seconds=seconds)


def test_a_replayed_live_run_makes_its_decisions_from_the_times_on_record():
    config = steered(chunk_signal="measured_tick", cost="unit")
    live = run(Engine(config, TimedRunner()), *burst(6, prompt=900))
    assert len({event.new for event in events(live, ChunkSteered)}) > 5
    tick = len(live.records) - 2
    again = replay_to(live, tick, ReplayRunner(live)).trace()
    assert again.records == live.records[:tick]
    assert fork(live, tick, live.config).records[:tick] == live.records[:tick]


def test_without_measured_times_it_holds_and_says_so():
    trace = made(steered(chunk_signal="measured_tick"), burst(0.3))
    assert {event.reason for event in events(trace, ChunkSteered)} == {SteerReason.NOT_MEASURED}
    assert {event.new for event in events(trace, ChunkSteered)} == {128}
    told = [s.whole for tick in (0, 1) for s in narrate_tick(trace, tick) if s.kind == "steered"]
    assert told == ["The chunk size stays at 128 tokens. This tick has no time to go by; the target is 60 ms."]


def test_a_target_that_cannot_be_kept_is_told_once():
    trace = made(steered(chunk_target_ms=10), burst(0.3))
    told = [s.whole for r in trace.records for s in narrate_tick(trace, r.tick) if "cannot be kept" in s.whole]
    assert len(told) == 1


def test_why_not_more_is_answered_with_the_target():
    trace = made(steered(), burst(0.3))
    tick = next(r.tick for r in trace.records if any(i.request_id == "long0" for i in r.output.scheduled)) + 1
    remedy = explain(trace, tick, "long0").remedy
    assert remedy == "Chunk control has set the chunk size; a target above 60 ms lets it allow more."


def test_a_request_that_a_steered_budget_keeps_out_is_told_so():
    trace = made(steered(chunk_moves="budget", chunk_target_ms=45), burst(0.3, 0.3, 0.3))
    remedies = {
        explain(trace, record.tick, event.request_id).remedy
        for record in trace.records
        for event in record.events
        if isinstance(event, RequestSkipped) and event.reason is SkipReason.BUDGET
    }
    assert remedies
    assert all("chunk control has set this one; a target above 45 ms lets it allow more." in told for told in remedies)


def test_a_file_without_these_settings_is_read_and_one_with_them_fixed_looks_as_before():
    plain = run(Engine(EngineConfig(), SyntheticRunner()), create_request("A"))
    assert "chunk_control" not in plain.to_json()
    assert Trace.from_json(plain.to_json()).config.chunk_control == "fixed"
    assert '"chunk_control":"pid"' in made(steered(), burst(0.3)).to_json()


def test_a_damaged_decision_is_refused():
    trace = made(steered(), burst(0.3))
    text = trace.to_json().replace('"setting":"chunk_size","old":128', '"setting":"chunk_size","old":-1', 1)
    with pytest.raises(TraceError, match="sets chunk_size from -1"):
        Trace.from_json(text)


def test_a_summary_run_decides_the_same():
    full, short = made(steered(), burst(0.3)), made(steered(), burst(0.3), record="summary")
    assert events(short, ChunkSteered) == events(full, ChunkSteered)
    assert series(short).token_budget == series(full).token_budget


# Settings


def test_fixed_chunks_and_a_server_without_chunks_are_left_alone():
    config = EngineConfig()
    assert isinstance(chunk_control(config), FixedChunks)
    assert chunk_control(config).in_force(config) is config
    assert isinstance(chunk_control(steered(enable_chunked_prefill=False)), FixedChunks)


def test_a_target_on_the_unit_clock_is_refused_with_a_remedy():
    with pytest.raises(ConfigError, match=r"cost is 'unit', where every tick lasts one second.*smollm2-cpu"):
        EngineConfig(chunk_control="pid")
    EngineConfig(chunk_control="ramp")
    EngineConfig(chunk_control="pid", chunk_signal="measured_tick")


@pytest.mark.parametrize(
    ("field", "value", "bound"),
    [
        ("chunk_target_ms", 0, "from 1 to 600000"),
        ("chunk_control", "pi", "fixed, pid, ramp"),
        ("chunk_signal", "ttft", "tick, itl_p99, measured_tick"),
        ("chunk_moves", "lanes", "chunk, budget"),
        ("chunk_response", "wild", "calm, usual, nervous"),
    ],
)
def test_an_impossible_value_is_refused_with_field_value_and_bound(field: str, value: object, bound: str):
    with pytest.raises(ConfigError, match=f"{field} is {value!r}.*{bound}"):
        steered(**{field: value})


def test_a_saved_engine_goes_on_as_if_it_had_not_been_saved():
    engine = Engine(steered(), SyntheticRunner())
    for spec in burst(0.3):
        engine.add_request(spec)
    for _ in range(14):
        engine.step()
    saved = pickle.dumps(engine)
    assert pickle.loads(saved).run().records == engine.run().records

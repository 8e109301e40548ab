from __future__ import annotations

import dataclasses

import pytest

from scheduler_core.backends.length_only import LengthOnlyRunner
from scheduler_core.big_run import checkpoints
from scheduler_core.big_run.big_run import MAX_WINDOW_TICKS, BigRun
from scheduler_core.big_run.checkpoints import Checkpoints
from scheduler_core.config import EngineConfig
from scheduler_core.cost_model import machine
from scheduler_core.engine import Engine
from scheduler_core.errors import ConfigError, RequestError, TraceError, WorkloadError
from scheduler_core.explain import explain
from scheduler_core.load.config import LoadConfig, Tenant
from scheduler_core.load.generator import GeneratedLoad
from scheduler_core.load.lengths import Lengths
from scheduler_core.metrics import request_metrics, series, waiting_by_cause
from scheduler_core.narration import narrate_tick
from scheduler_core.perfetto import to_perfetto
from scheduler_core.request_facts import facts_of
from scheduler_core.trace import Trace
from tests.helpers import create_engine, create_request

LOAD = GeneratedLoad(
    LoadConfig(
        num_requests=60,
        rate=12.0,
        burstiness=0.3,
        arrivals="gamma",
        prompt=Lengths("uniform", 1, 60),
        output=Lengths("uniform", 1, 30),
        prefix_groups=2,
        prefix_tokens=16,
        tenants=(Tenant("chat"), Tenant("batch", 1.0, 3)),
    )
)
#: Little memory and short slices, so that everything happens.
CONFIG = EngineConfig(
    num_blocks=24,
    max_num_batched_tokens=48,
    chunk_size=16,
    policy="priority",
    quantum=4,
    cost="smollm2-cpu",
    max_model_len=160,
)


@pytest.fixture(autouse=True)
def _many_checkpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "FIRST_INTERVAL", 16)


def big_run(config: EngineConfig = CONFIG, **more: object) -> BigRun:
    run = BigRun(config, LOAD, scenario="load", title="A load", **more)  # type: ignore[arg-type]
    run.run()
    return run


def kept_in_full(config: EngineConfig = CONFIG) -> Trace:
    """The same requests sent at the start to an engine that keeps everything."""
    engine = Engine(config, LengthOnlyRunner(machine(config.cost).model.kv_bytes_per_token))
    for request in LOAD:
        engine.add_request(request.spec())
    return engine.run()


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"preemption_mode": "recompute"},
        {"policy": "longest_prefix", "quantum": None},
        {"enable_prefix_caching": False, "cost": "unit"},
        {"policy": "mlfq", "aging": 3, "num_swap_blocks": 8},
        {"chunk_control": "pid", "chunk_target_ms": 60},
    ],
    ids=str,
)
def test_a_big_run_has_the_facts_and_numbers_of_one_that_keeps_everything(changes: dict[str, object]) -> None:
    config = CONFIG.replace(**changes)
    result, trace = big_run(config).result(), kept_in_full(config)
    tenants = {request.id: request.tenant for request in LOAD}
    assert [*result.facts] == facts_of(trace, tenants)
    numbers = series(trace)
    assert result.is_complete
    assert tuple(result.series.end_s) == numbers.end_s
    assert tuple(result.series.levels["waiting"]) == numbers.waiting
    assert tuple(result.series.levels["used_blocks"]) == numbers.used_blocks
    assert tuple(result.series.scheduled_tokens) == numbers.scheduled_tokens


def test_the_run_has_preemptions_hits_and_a_queue() -> None:
    result = big_run().result()
    assert sum(result.series.preemptions) > 5
    assert max(result.series.levels["waiting"]) > 5
    assert result.figures()["prefix_hit_rate"] > 0.1


def test_every_request_is_accounted_for() -> None:
    figures = big_run(CONFIG.replace(max_model_len=60, num_blocks=4)).result().figures()
    assert figures["refused"] > 0
    assert figures["completed"] + figures["failed"] == len(LOAD)
    assert figures["unfinished"] == 0


# Windows


def window_of(trace: Trace, first: int, last: int) -> list[object]:
    return [
        dataclasses.replace(record, tick=number, output=dataclasses.replace(record.output, tick=number))
        for number, record in enumerate(trace.records[first : last + 1])
    ]


@pytest.mark.parametrize("most", [12, 0], ids=["from checkpoints", "from the start"])
@pytest.mark.parametrize("control", ["fixed", "pid"])
def test_a_window_has_the_very_records_of_a_run_that_keeps_everything(most: int, control: str) -> None:
    config = CONFIG.replace(chunk_control=control)
    run, trace = big_run(config, checkpoints=Checkpoints(most)), kept_in_full(config)
    last = len(trace.records) - 1
    for first, final in ((0, 20), (37, 90), (last // 2, last // 2), (last - 5, last)):
        window = run.window(first, final)
        assert [*window.records] == window_of(trace, first, final)


def test_checkpoints_make_a_window_open_from_near_by() -> None:
    run = big_run()
    at, _ = run._checkpoints.before(100) or (0, b"")
    assert 0 < at <= 100 < at + run._checkpoints.interval


def test_a_window_can_be_saved_narrated_explained_and_drawn() -> None:
    window = big_run().window(50, 90)
    assert Trace.from_bytes(window.to_bytes()) == window
    for record in window.records:
        assert narrate_tick(window, record.tick) is not None
        assert record.snapshot is not None
        for request in record.snapshot.requests:
            assert explain(window, record.tick, request.id)
    assert to_perfetto(window)
    assert request_metrics(window)
    assert waiting_by_cause(window)


def test_a_window_names_its_ticks_and_only_those_who_were_there() -> None:
    run = big_run()
    window = run.window(50, 60)
    seen = {request.id for record in window.records if record.snapshot for request in record.snapshot.requests}
    assert window.title == "A load: ticks 50 to 60"
    assert seen <= {spec.id for spec in window.requests}
    assert len(window.requests) < len(LOAD)
    assert all(window.token_texts[token] for spec in window.requests for token in spec.prompt_token_ids)


def test_the_run_can_go_on_after_a_window_was_opened() -> None:
    run = BigRun(CONFIG, LOAD)
    run.advance(80)
    run.window(10, 40)
    assert [*run.run().facts] == [*big_run().result().facts]


@pytest.mark.parametrize(("first", "last"), [(-1, 5), (5, 4), (0, 10**9)])
def test_a_window_outside_the_run_is_refused_with_the_bounds(first: int, last: int) -> None:
    with pytest.raises(TraceError, match="this run has ticks 0 to"):
        big_run().window(first, last)


def test_a_window_too_wide_for_the_stage_is_refused() -> None:
    run = BigRun(EngineConfig(num_blocks=2_000, max_model_len=4_000), [_Long()])
    run.run()
    with pytest.raises(TraceError, match=f"at most {MAX_WINDOW_TICKS} can be shown"):
        run.window(0, MAX_WINDOW_TICKS)


def test_a_window_of_a_large_memory_is_shorter() -> None:
    run = BigRun(EngineConfig(num_blocks=1_000_000), LOAD)
    assert run.most_window_ticks == 8


class _Long:
    """One request of many ticks."""

    id, arrival_time, tenant = "long", 0.0, "all"

    def spec(self) -> object:
        return create_request("long", 4, max_tokens=2_100)


# Progress, stopping, memory


def test_progress_is_told_and_a_stopped_run_gives_what_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduler_core.big_run.big_run._STRIDE", 10)
    told: list[tuple[int, int, int]] = []
    run = BigRun(CONFIG, LOAD)
    result = run.run(progress=lambda *numbers: told.append(numbers), should_stop=lambda: len(told) >= 6)
    assert [ticks for _, _, ticks in told[:3]] == [10, 20, 30]
    assert not result.is_complete
    figures = result.figures()
    assert 0 < figures["completed"] < len(result.facts)
    assert "have not ended; the figures are partial" in figures["warnings"][-1]
    assert run.run().is_complete


def test_who_has_ended_or_not_arrived_takes_up_no_room() -> None:
    run = BigRun(CONFIG, LOAD, checkpoints=Checkpoints(most=0))
    while run.advance(1):
        engine = run._simulation.engine
        assert len(engine._sent) == len(engine._roster.requests) + len(engine._arrivals)
        assert sum(time > engine.now for time, *_ in engine._arrivals._heap) <= 1
        assert not engine._recorder.records
        assert not engine._recorder.token_texts
    assert not run._simulation.engine._sent


def test_requests_have_to_come_in_order_of_arrival() -> None:
    with pytest.raises(WorkloadError, match="put them in order of arrival"):
        BigRun(CONFIG, [*LOAD][::-1]).run()


def test_the_id_of_one_who_has_ended_stays_taken() -> None:
    request = next(iter(LOAD))
    with pytest.raises(RequestError, match="there is a request 'r0' already"):
        BigRun(CONFIG, [request, dataclasses.replace(request, arrival_time=50.0)]).run()


def test_an_unknown_way_to_record_is_refused() -> None:
    with pytest.raises(ConfigError, match="record is 'some'; it must be one of full, summary, none"):
        Engine(CONFIG, LengthOnlyRunner(), record="some")


# The model of lengths only


def test_tokens_do_not_depend_on_the_schedule() -> None:
    def texts(**knobs: object) -> list[tuple[int, ...]]:
        engine = create_engine(LengthOnlyRunner(), **knobs)
        for name in "abc":
            engine.add_request(create_request(name, 20, max_tokens=9))
        return [metrics.output_token_ids for metrics in request_metrics(engine.run())]

    assert texts() == texts(num_blocks=9, chunk_size=3, quantum=1, max_num_seqs=2)
    assert len(set(texts())) == 3

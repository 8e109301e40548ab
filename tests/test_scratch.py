"""The naive scheduler does go wrong as the page says, and the real one does not."""

from __future__ import annotations

import ast
import asyncio
import inspect
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from scheduler_core.errors import ConfigError
from scheduler_core.events import PrefixCacheQueried, RequestFinished, RequestPreempted
from scheduler_core.faults import FAULTS
from scheduler_core.metrics import request_metrics
from scheduler_core.scratch import experiments, naive
from scheduler_core.scratch.experiments import EXPERIMENTS, Finding, naive_cache_test
from scheduler_core.scratch.growth import STAGES, grown, stage_config, stage_run
from scheduler_core.scratch.museum import exhibit, law_break
from scheduler_core.scratch.naive import Device, Job, NaiveScheduler
from scheduler_core.scratch.prompts import REQUESTS
from scheduler_core.scratch.simulation import simulate
from scheduler_core.scratch.virtual_loop import run_virtually
from tests.helpers import create_engine, create_request, events, hit_tokens
from tests.test_faults import CAUGHT, museum_run

ROOT = Path(__file__).resolve().parents[1]


def finding(name: str) -> Finding:
    return next(experiment for experiment in EXPERIMENTS if experiment.name == name).run()


def figures(name: str) -> list[tuple[str, str]]:
    return [(figure.expected, figure.got) for figure in finding(name).figures]


def job(name: str, words: int, urgency: int = 1) -> tuple[float, Job]:
    return 0.0, Job(urgency, name, tuple(f"{name}{index}" for index in range(words)))


# The flaws


def test_all_requests_are_at_work_at_once_and_a_priority_changes_nothing() -> None:
    assert figures("start") == [("1", "4"), ("3 s", "8 s"), ("14 s", "8 s")]


def test_a_slice_passes_while_others_use_the_model() -> None:
    assert figures("clock") == [("3", "2"), ("3", "2"), ("3", "1"), ("3", "1")]


def test_a_request_that_was_put_off_reads_the_same_pieces_for_ever() -> None:
    assert figures("over") == [("6", "60"), ("6", "3"), ("yes", "no")]


def test_what_is_found_is_read_again() -> None:
    assert figures("hits") == [("3", "3"), ("1", "4")]


def test_a_limit_of_tokens_makes_no_difference() -> None:
    assert figures("limit") == [("0", "0"), ("999", "0")]


def test_the_cache_grows_with_every_prompt() -> None:
    assert figures("bound") == [("at most 80", "200"), ("at most 160", "400"), ("at most 320", "800")]


def test_an_empty_state_is_stored_and_never_found() -> None:
    assert figures("empty") == [("0", "1"), ("41", "0")]


def test_the_naive_test_of_the_cache_fails_as_pieces_have_other_borders() -> None:
    with pytest.raises(AssertionError, match="“good morning” is not in the cache"):
        naive_cache_test()
    assert figures("test") == [("passed", "failed"), ("2 among them", "4, 5, 7")]


def test_the_naive_test_would_pass_with_pieces_of_two_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(experiments, "PIECE", 2)
    assert "good morning" in naive_cache_test().saved


def test_without_slices_and_rivals_the_naive_scheduler_reads_a_prompt_once() -> None:
    run = simulate([job("R1", 10)], seconds=20)
    assert [len(piece) for piece in run.pieces_of("R1")] == [4, 4, 2]
    assert run.finished == {"R1": 3.0}
    assert run.put_off == ()


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda experiment: experiment.name)
def test_an_experiment_is_the_same_each_time_and_shows_a_difference(experiment: experiments.Experiment) -> None:
    first = experiment.run()
    assert first == experiment.run()
    assert any(figure.expected != figure.got for figure in first.figures)


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda experiment: experiment.name)
def test_an_experiment_points_at_lines_and_modules_that_are_there(experiment: experiments.Experiment) -> None:
    source = inspect.getsource(naive)
    assert all(mark in source for mark in experiment.marks)
    assert ast.get_docstring(ast.parse((ROOT / experiment.path).read_text(encoding="utf-8")))


def test_the_naive_scheduler_stays_small() -> None:
    assert sum(bool(line.strip()) for line in inspect.getsource(naive).splitlines()) <= 65


# The clock


def test_the_virtual_clock_leaps_over_sleeps_in_their_order() -> None:
    async def main() -> list[tuple[str, float]]:
        seen: list[tuple[str, float]] = []

        async def sleeper(name: str, seconds: float) -> None:
            await asyncio.sleep(seconds)
            seen.append((name, asyncio.get_running_loop().time()))

        await asyncio.gather(sleeper("late", 86_400), sleeper("soon", 0.25), sleeper("now", 0))
        return seen

    assert run_virtually(main) == [("now", 0.0), ("soon", 0.25), ("late", 86_400.0)]


def test_a_run_that_can_never_go_on_is_an_error_and_does_not_hang() -> None:
    async def main() -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(AssertionError, match="stand still"):
        run_virtually(main)


def test_an_experiment_runs_where_a_loop_is_running_already() -> None:
    async def main() -> float:
        return simulate([job("R1", 4)], seconds=5).finished["R1"]

    # In a thread of its own: the browser tests keep a loop in this one.
    with ThreadPoolExecutor(1) as thread:
        assert thread.submit(asyncio.run, main()).result() == 1.0


def test_callers_of_the_device_take_turns() -> None:
    async def main() -> list[float]:
        device = Device()
        scheduler = NaiveScheduler(device, 4, 100)
        for _, each in (job("R1", 4), job("R2", 4), job("R3", 4)):
            scheduler.send(each)
        serving = asyncio.create_task(scheduler.serve())
        await asyncio.sleep(10)
        serving.cancel()
        return [end for _, _, end in device.calls]

    assert run_virtually(main) == [1.0, 2.0, 3.0]


# The real one


@pytest.mark.parametrize("index", range(len(STAGES)))
def test_every_stage_answers_all_requests_to_their_limit(index: int) -> None:
    trace = stage_run(index)
    assert [metrics.num_output_tokens for metrics in request_metrics(trace)] == [sent.max_tokens for sent in REQUESTS]
    assert [spec.prompt for spec in trace.requests] == [sent.prompt for sent in REQUESTS]
    assert all((ROOT / path).exists() for path in STAGES[index].paths)


def test_every_stage_says_the_same() -> None:
    texts = {tuple(metrics.output_token_ids for metrics in request_metrics(stage_run(at))) for at in range(len(STAGES))}
    assert len(texts) == 1


def test_each_part_does_what_the_page_says_of_it() -> None:
    line, batch, chunks, cache, slices, priorities = (grown(stage_run(index)) for index in range(len(STAGES)))
    assert batch.ticks < line.ticks
    assert batch.largest_tick > line.largest_tick > chunks.largest_tick
    assert chunks.hit_tokens == 0 < cache.hit_tokens
    assert cache.ticks < chunks.ticks
    assert cache.preemptions == 0 < slices.preemptions
    assert line.urgent_ttft > cache.urgent_ttft > slices.urgent_ttft > priorities.urgent_ttft == 2.5


def test_a_stage_has_the_parts_of_those_before_it() -> None:
    for at in range(1, len(STAGES)):
        assert set(stage_config(at).changed_from(stage_config(at - 1))) == set(STAGES[at].changes)


def test_the_real_scheduler_goes_on_where_a_request_was() -> None:
    trace = stage_run(len(STAGES) - 1)
    assert events(trace, RequestPreempted)
    assert all(metrics.recomputed_tokens == 0 for metrics in request_metrics(trace))


def test_the_real_cache_finds_what_two_prompts_share_up_to_the_last_full_block() -> None:
    engine = create_engine(block_size=2, quantum=None, max_num_seqs=1)
    engine.add_request(create_request("R1", [10, 11, 12, 13, 14]))
    engine.add_request(create_request("R2", [10, 11, 99, 98]))
    assert hit_tokens(engine.run())["R2"] == [2]


def test_the_real_scheduler_generates_up_to_the_limit() -> None:
    for limit in (1, 30):
        engine = create_engine()
        engine.add_request(create_request("R1", 8, max_tokens=limit))
        trace = engine.run()
        assert [metrics.num_output_tokens for metrics in request_metrics(trace)] == [limit]
        assert len(events(trace, RequestFinished)) == 1


def test_the_real_scheduler_looks_nothing_up_for_an_empty_front() -> None:
    engine = create_engine(block_size=4)
    engine.add_request(create_request("R1", 3))
    engine.add_request(create_request("R2", 3))
    assert all(query.hit_tokens == 0 for query in events(engine.run(), PrefixCacheQueried))


# The museum


@pytest.mark.parametrize("name", FAULTS)
def test_an_exhibit_tells_the_law_the_tick_and_what_led_to_it(name: str) -> None:
    trace = exhibit(name, is_on=True)
    assert trace == museum_run(name, [name])
    found = law_break(trace)
    assert found is not None
    assert (found.tick, found.law, found.detail) == CAUGHT[name]
    assert found.led_to_it
    assert {tick for tick, _ in found.led_to_it} <= set(range(found.tick - 2, found.tick + 1))
    assert not any("A law is broken" in sentence or "mistake" in sentence for _, sentence in found.led_to_it)


@pytest.mark.parametrize("name", FAULTS)
def test_an_exhibit_with_its_mistake_switched_off_keeps_the_law(name: str) -> None:
    assert law_break(exhibit(name, is_on=False)) is None


def test_an_exhibit_that_is_not_there_is_refused() -> None:
    with pytest.raises(ConfigError, match="no fault 'typo'"):
        exhibit("typo", is_on=True)

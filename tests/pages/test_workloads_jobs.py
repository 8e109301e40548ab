"""Jobs of the workloads page: turns, cancel, partial results, limits; the same figures as on the command line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from pages.components.settings import Limits
from pages.components.workloads import gpu, visit
from pages.components.workloads.examples import EXAMPLES, example_load
from pages.components.workloads.job import Job, JobState, JobWorker
from pages.components.workloads.work import Server, open_window, replay_cache, run_on_servers, sweep_rates
from scheduler_core.bench.cache.prompts import prompts_of_load
from scheduler_core.bench.cache.replay import replay
from scheduler_core.bench.load.plan import generated
from scheduler_core.bench.load.sweep import sweep
from scheduler_core.big_run.big_run import BigRun
from scheduler_core.errors import ConfigError
from scheduler_core.load.generator import GeneratedLoad
from scheduler_core.roofline import REAL
from scheduler_core.serving_config import serving_config
from scheduler_core.summary import Targets

LOAD = replace(example_load("prefixes", "llama-3.1-8b-h100", 1), num_requests=25)
SERVERS = [Server("vLLM", serving_config("llama-3.1-8b-h100")), Server("CPU", serving_config("smollm2-cpu"))]
TARGETS = Targets(ttft_ms=100.0)


def make() -> Any:
    return generated(LOAD)


def done(job: Job) -> Job:
    """The job, worked on until it is over."""
    while job.is_going:
        job.work()
    return job


def endless(job: Job) -> Iterator[None]:
    job.results.append("something")
    while not job.should_stop():
        yield


def test_a_run_gives_every_server_the_same_load_and_the_figures_of_the_command_line():
    job = done(Job("run", run_on_servers(make, SERVERS, Limits())))
    assert (job.state, job.notes, job.share) == (JobState.DONE, [], 1.0)
    for outcome, server in zip(job.results, SERVERS, strict=True):
        assert outcome.server is server
        [figures] = sweep(make(), server.config, TARGETS, [None])
        assert outcome.figures(TARGETS) == figures
        assert figures["completed"] == 25


def test_a_cancelled_run_keeps_what_it_had_and_says_that_it_is_partial():
    job = Job("run", run_on_servers(make, SERVERS, Limits()))
    for _ in range(6):
        job.work()
    job.cancel()
    done(job)
    assert job.state is JobState.CANCELLED
    [outcome] = job.results
    assert not outcome.result.is_complete
    assert len(outcome.result.series) > 0
    figures = outcome.figures(TARGETS)
    assert figures["completed"] + figures["failed"] + figures["unfinished"] == len(outcome.result.facts)
    assert any("partial" in warning for warning in figures["warnings"])


def test_a_job_that_is_cancelled_in_line_ends_without_beginning():
    job = Job("run", run_on_servers(make, SERVERS, Limits()))
    job.cancel()
    assert (done(job).state, job.results) == (JobState.CANCELLED, [])


@pytest.mark.parametrize(
    ("limits", "told"),
    [
        (Limits(max_load_ticks=40), "stopped at 40 ticks, the limit of this site"),
        (Limits(max_load_seconds=0), "stopped after 0 s, the limit of this site"),
    ],
)
def test_a_limit_ends_a_run_with_a_message(limits: Limits, told: str):
    job = done(Job("run", run_on_servers(make, SERVERS[:1], limits)))
    assert job.state is JobState.DONE
    assert told in job.notes[0]
    assert not job.results[0].result.is_complete


def test_too_many_requests_are_refused_with_number_and_remedy():
    job = done(Job("run", run_on_servers(make, SERVERS, Limits(max_load_requests=10))))
    assert job.state is JobState.FAILED
    assert job.problem == ("the load has 25 requests; this site runs at most 10: take the first ones or a sample")


def test_a_mistake_in_the_code_is_told_and_ends_only_its_job(caplog: pytest.LogCaptureFixture):
    def broken(job: Job) -> Iterator[None]:
        yield
        raise ZeroDivisionError("oops")

    worker = JobWorker()
    bad, good = worker.start(Job("run", broken)), worker.start(Job("run", run_on_servers(make, SERVERS, Limits())))
    assert worker.wait(60)
    assert (bad.state, bad.problem) == (JobState.FAILED, "ZeroDivisionError: oops")
    assert good.state is JobState.DONE
    assert "a job of the workloads page failed" in caplog.text


def test_jobs_take_turns_and_the_others_wait_in_line():
    worker = JobWorker(at_once=2)
    first, second, third = (worker.start(Job("run", endless)) for _ in range(3))
    while not (first.results and second.results):
        pass
    assert worker.place(third) == 1
    assert third.state is JobState.WAITING
    first.cancel()
    while not third.results:
        pass
    for job in (second, third):
        job.cancel()
    assert worker.wait(10)
    assert {job.state for job in (first, second, third)} == {JobState.CANCELLED}


def test_a_sweep_has_the_figures_of_the_command_line():
    job = done(Job("sweep", sweep_rates(make, SERVERS[:1], TARGETS, [5.0, 50.0], Limits())))
    assert [figures for _, figures in job.results] == sweep(make(), SERVERS[0].config, TARGETS, [5.0, 50.0])


def test_a_cancelled_sweep_keeps_the_rates_that_were_done():
    job = Job("sweep", sweep_rates(make, SERVERS[:1], TARGETS, [5.0, 50.0, 500.0], Limits()))
    while not job.results:
        job.work()
    job.cancel()
    assert [figures["request_rate"] for _, figures in done(job).results] == [5.0]


def test_a_cache_replay_has_the_figures_of_the_command_line():
    prompts = prompts_of_load(GeneratedLoad(LOAD), 16)
    job = done(Job("cache", replay_cache(lambda: prompts, [64, 256, None])))
    assert job.results[0].figures() == replay(prompts, [64, 256, None], 12)
    rates = [figures.hit_rate for figures in job.results[0].figures()]
    assert rates == sorted(rates)
    assert rates[-1] > 0.2


def test_a_window_is_that_of_the_run():
    run = BigRun(SERVERS[0].config, GeneratedLoad(LOAD))
    run.run()
    job = done(Job("window", open_window(run, 20, 40)))
    assert job.results == [run.window(20, 40)]


def test_a_window_that_is_not_there_is_refused():
    run = BigRun(SERVERS[0].config, GeneratedLoad(LOAD))
    run.run()
    job = done(Job("window", open_window(run, 20, 10**6)))
    assert job.state is JobState.FAILED
    assert "this run has ticks 0 to" in job.problem


def test_closing_the_tab_or_starting_anew_cancels(monkeypatch: pytest.MonkeyPatch):
    worker = JobWorker()
    monkeypatch.setattr(visit, "worker", lambda: worker)
    mine = visit.LoadVisit()
    first = mine.start("run", "a", endless)
    second = mine.start("run", "b", endless)
    assert first.ended.wait(10)
    assert mine.is_computing
    mine.cancel()
    assert second.ended.wait(10)
    assert (first.state, second.state, mine.jobs) == (JobState.CANCELLED, JobState.CANCELLED, {})
    assert worker.wait(10)


def test_a_job_that_takes_long_is_looked_at_less_often():
    job = Job("run", endless)
    assert visit.look_every(job) == visit.LOOK_EVERY
    job.begun -= visit.LATER + 1
    assert visit.look_every(job) == visit.LOOK_LATER


@pytest.mark.parametrize("cost", REAL)
@pytest.mark.parametrize("name", EXAMPLES)
def test_every_example_can_be_served_by_every_machine(name: str, cost: str):
    load = replace(example_load(name, cost, 0), num_requests=12)
    result = BigRun(serving_config(cost), GeneratedLoad(load)).run()
    assert result.is_complete
    assert result.figures()["failed"] == 0


def test_an_impossible_setting_of_an_example_is_refused():
    with pytest.raises(ConfigError):
        replace(LOAD, rate=0.0)


class NoGpuError(Exception):
    """Stands for NVML's own."""


def fake_nvml(**changes: Any) -> SimpleNamespace:
    calls: dict[str, Any] = {
        "NVMLError": NoGpuError,
        "nvmlInit": lambda: None,
        "nvmlShutdown": lambda: None,
        "nvmlDeviceGetCount": lambda: 1,
        "nvmlDeviceGetHandleByIndex": lambda number: number,
        "nvmlDeviceGetMemoryInfo": lambda device: SimpleNamespace(used=20, total=80),
        "nvmlDeviceGetName": lambda device: b"Card",
        "nvmlDeviceGetUtilizationRates": lambda device: SimpleNamespace(gpu=37),
    }
    return SimpleNamespace(**calls | changes)


def no_driver() -> None:
    raise NoGpuError


@pytest.mark.parametrize(
    ("module", "told"),
    [
        (fake_nvml(), "Card 37 % busy, 25 % of its memory in use"),
        (fake_nvml(nvmlInit=no_driver), "n/a"),
        (fake_nvml(nvmlDeviceGetCount=lambda: 0), "n/a"),
    ],
)
def test_the_gpu_is_told_where_there_is_one(monkeypatch: pytest.MonkeyPatch, module: SimpleNamespace, told: str):
    monkeypatch.setattr("importlib.import_module", lambda name: module)
    assert gpu.gpu_utilisation() == told


def test_without_its_library_no_gpu_is_told(monkeypatch: pytest.MonkeyPatch):
    def missing(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr("importlib.import_module", missing)
    assert gpu.gpu_utilisation() == "n/a"

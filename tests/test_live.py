"""Live runs on a worker: turns, queue, commands, endings."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator

import pytest

from scheduler_core.backends.model_store import LoadedModel
from scheduler_core.backends.synthetic import SyntheticRunner
from scheduler_core.backends.transformers_runner import TransformersRunner
from scheduler_core.config import EngineConfig
from scheduler_core.engine import Engine
from scheduler_core.errors import ModelError, RequestError, TickscopeError
from scheduler_core.events import ConfigChanged
from scheduler_core.live import Factory, LiveRun, LiveState, ModelWorker, Report
from scheduler_core.output import ModelRunnerOutput, SchedulerOutput
from scheduler_core.request import RequestSpec
from scheduler_core.workload import Draft
from tests.helpers import create_engine, create_request, events, outputs
from tests.helpers import run as run_alone

PATIENCE = 60.0


class GatedRunner(SyntheticRunner):
    """Computes a tick only when it is let; logs whose tick it was."""

    def __init__(self, name: str, log: list[str]) -> None:
        super().__init__()
        self.name = name
        self.log = log
        self.gate = threading.Semaphore(0)
        self.entered = threading.Event()

    def execute_model(self, output: SchedulerOutput) -> ModelRunnerOutput:
        self.entered.set()
        assert self.gate.acquire(timeout=PATIENCE)
        self.log.append(self.name)
        return super().execute_model(output)


class BrokenRunner(SyntheticRunner):
    """Its copies of tables are gone: asking for a token's text raises."""

    def token_text(self, token_id: int) -> str:
        raise ZeroDivisionError("broken on purpose")


@pytest.fixture
def worker() -> Iterator[ModelWorker]:
    worker = ModelWorker(max_runs=2)
    yield worker
    worker.close()


def factory(*specs: RequestSpec, runner: SyntheticRunner | None = None) -> Factory:
    def make(report: Report) -> tuple[Engine, SyntheticRunner]:
        mine = runner or SyntheticRunner()
        engine = create_engine(mine)
        for spec in specs:
            engine.add_request(spec)
        return engine, mine

    return make


def reaches(run: LiveRun, *states: LiveState) -> bool:
    return run.wait(lambda run: run.state in states, PATIENCE)


def has_ticks(number: int) -> Callable[[LiveRun], bool]:
    def holds(run: LiveRun) -> bool:
        trace = run.trace()
        return trace is not None and len(trace.records) >= number

    return holds


def test_a_run_computes_to_its_end_and_equals_the_same_run_made_directly(worker: ModelWorker) -> None:
    specs = [create_request("a", 20, 6), create_request("b", 9, 3, arrival=2)]
    run = worker.start(factory(*specs))
    assert reaches(run, LiveState.DONE)
    assert run.trace() == run_alone(create_engine(), *specs)
    assert run.error == ""
    assert run.messages == ()


def test_runs_take_turns_tick_by_tick(worker: ModelWorker) -> None:
    log: list[str] = []
    runners = [GatedRunner("x", log), GatedRunner("y", log)]
    runs = [worker.start(factory(create_request("a", 4, 5), runner=runners[0]))]
    # The second comes while the first is in its tick, and has the next turn.
    assert runners[0].entered.wait(PATIENCE)
    runs.append(worker.start(factory(create_request("a", 4, 5), runner=runners[1])))
    assert reaches(runs[1], LiveState.RUNNING)
    for runner in runners:
        runner.gate.release(10)
    for run in runs:
        assert reaches(run, LiveState.DONE)
    assert log == ["x", "y"] * 5


def test_a_run_is_loaded_while_another_is_in_its_tick(worker: ModelWorker) -> None:
    runner = GatedRunner("x", [])
    worker.start(factory(create_request("a", 4, 2), runner=runner))
    assert runner.entered.wait(PATIENCE)
    other = worker.start(factory(create_request("a", 4, 2)))
    assert reaches(other, LiveState.RUNNING)
    assert runner.log == []
    runner.gate.release(10)
    assert reaches(other, LiveState.DONE)


def test_no_command_waits_for_the_tick_in_progress(worker: ModelWorker) -> None:
    runner = GatedRunner("x", [])
    run = worker.start(factory(create_request("a", 4, 50), runner=runner))
    assert runner.entered.wait(PATIENCE)
    future = run.send(create_request("b", 4, 2))
    run.reconfigure(EngineConfig())
    run.stop()
    assert not future.done()
    assert run.state is LiveState.RUNNING
    runner.gate.release(50)
    assert reaches(run, LiveState.STOPPED)


def test_runs_past_the_bound_wait_in_a_visible_queue(worker: ModelWorker) -> None:
    runners = [GatedRunner(name, []) for name in "wxyz"]
    lengths = (2, 50, 2, 2)
    runs = [
        worker.start(factory(create_request("a", 4, length), runner=runner))
        for runner, length in zip(runners, lengths, strict=True)
    ]
    for run in runs[:2]:
        assert reaches(run, LiveState.RUNNING)
    assert [run.queue_position for run in runs] == [0, 0, 1, 2]
    assert [run.state for run in runs[2:]] == [LiveState.QUEUED, LiveState.QUEUED]
    version = runs[3].version
    runners[0].gate.release(10)
    runners[1].gate.release(6)
    assert reaches(runs[0], LiveState.DONE)
    assert reaches(runs[2], LiveState.RUNNING)
    assert runs[3].queue_position == 1
    assert runs[3].version > version
    for runner in runners:
        runner.gate.release(100)
    for run in runs:
        assert reaches(run, LiveState.DONE)


def test_a_queued_run_that_is_cancelled_lets_the_next_move_up(worker: ModelWorker) -> None:
    runners = [GatedRunner(name, []) for name in "wxyz"]
    runs = [worker.start(factory(create_request("a", 4, 2), runner=runner)) for runner in runners]
    assert reaches(runs[1], LiveState.RUNNING)
    runs[2].cancel()
    assert runs[2].state is LiveState.STOPPED
    assert runs[3].queue_position == 1
    for runner in runners:
        runner.gate.release(10)
    assert reaches(runs[3], LiveState.DONE)


def test_loading_is_visible_and_does_not_hold_up_another_run(worker: ModelWorker) -> None:
    go_on = threading.Event()

    def slow(report: Report) -> tuple[Engine, SyntheticRunner]:
        report(0.25, "converting: 25 %")
        assert go_on.wait(PATIENCE)
        return factory(create_request("a"))(report)

    loading = worker.start(slow)
    other = worker.start(factory(create_request("a")))
    assert loading.wait(lambda run: run.progress == 0.25, PATIENCE)
    assert (loading.state, loading.progress_text, loading.trace()) == (LiveState.LOADING, "converting: 25 %", None)
    assert reaches(other, LiveState.DONE)
    go_on.set()
    assert reaches(loading, LiveState.DONE)


def test_a_model_that_cannot_be_loaded_fails_the_run_with_its_message(worker: ModelWorker) -> None:
    def make(report: Report) -> tuple[Engine, SyntheticRunner]:
        raise ModelError("no weights here; get them by: pip install weights")

    run = worker.start(make)
    assert reaches(run, LiveState.FAILED)
    assert run.error == "no weights here; get them by: pip install weights"
    with pytest.raises(RequestError, match="has ended"):
        run.send(create_request("b")).result(PATIENCE)


def test_a_request_sent_during_a_run_arrives_at_once_and_is_answered(worker: ModelWorker) -> None:
    runner = GatedRunner("x", [])
    run = worker.start(factory(create_request("a", 4, 6), runner=runner))
    runner.gate.release(2)
    assert run.wait(has_ticks(2), PATIENCE)
    future = run.send(create_request("b", 6, 3))
    runner.gate.release(50)
    future.result(PATIENCE)
    assert reaches(run, LiveState.DONE)
    trace = run.trace()
    assert trace is not None
    assert trace.request("b").arrival_time >= 2
    assert outputs(trace)["b"] == outputs(run_alone(create_engine(), create_request("b", 6, 3)))["b"]


def test_words_are_encoded_by_the_run_s_own_model(worker: ModelWorker) -> None:
    run = worker.start(factory(create_request("a")))
    run.send(Draft("b", "Hello there", max_tokens=3)).result(PATIENCE)
    assert reaches(run, LiveState.DONE)
    trace = run.trace()
    assert trace is not None
    assert trace.request("b").prompt_token_ids == SyntheticRunner().encode_chat("Hello there")


def test_sending_revives_a_run_that_was_done(worker: ModelWorker) -> None:
    run = worker.start(factory(create_request("a")))
    assert reaches(run, LiveState.DONE)
    before = run.trace()
    run.send(create_request("b", 6, 3)).result(PATIENCE)
    assert reaches(run, LiveState.DONE)
    after = run.trace()
    assert before is not None
    assert after is not None
    assert after.records[: len(before.records)] == before.records
    assert len(outputs(after)["b"]) == 3


def test_a_run_without_work_is_closed_after_its_time_and_keeps_its_trace() -> None:
    worker = ModelWorker(keep_seconds=0.0)
    run = worker.start(factory(create_request("a")))
    assert run.wait(lambda run: run.state is LiveState.DONE and run._made is None, PATIENCE)
    with pytest.raises(RequestError, match="has ended"):
        run.send(create_request("b")).result(PATIENCE)
    assert run.state is LiveState.DONE
    assert run.trace() is not None
    worker.close()


def test_the_oldest_of_too_many_open_runs_is_closed() -> None:
    worker = ModelWorker(max_kept=1)
    first = worker.start(factory(create_request("a")))
    assert reaches(first, LiveState.DONE)
    second = worker.start(factory(create_request("a")))
    assert reaches(second, LiveState.DONE)
    assert first.wait(lambda run: run._made is None, PATIENCE)
    assert second._made is not None
    worker.close()


def test_a_refused_request_says_why_and_the_run_goes_on(worker: ModelWorker) -> None:
    run = worker.start(factory(create_request("a")))
    with pytest.raises(RequestError, match="already"):
        run.send(create_request("a")).result(PATIENCE)
    with pytest.raises(RequestError, match="empty prompt"):
        run.send(Draft("c", "  ")).result(PATIENCE)
    assert reaches(run, LiveState.DONE)
    assert ["already" in message or "empty prompt" in message for message in run.messages] == [True, True]


def test_settings_change_between_ticks_and_fixed_ones_are_refused(worker: ModelWorker) -> None:
    runner = GatedRunner("x", [])
    run = worker.start(factory(create_request("a", 20, 6), runner=runner))
    assert runner.entered.wait(PATIENCE)
    config = create_engine().config
    changed = run.reconfigure(config.replace(chunk_size=5))
    fixed = run.reconfigure(config.replace(num_blocks=77))
    runner.gate.release(50)
    changed.result(PATIENCE)
    with pytest.raises(TickscopeError, match="num_blocks"):
        fixed.result(PATIENCE)
    assert reaches(run, LiveState.DONE)
    trace = run.trace()
    assert trace is not None
    assert [event.changes for event in events(trace, ConfigChanged)] == [(("chunk_size", "32", "5"),)]


def test_an_aborted_request_ends_and_others_go_on(worker: ModelWorker) -> None:
    runner = GatedRunner("x", [])
    run = worker.start(factory(create_request("a", 4, 40), create_request("b", 4, 3), runner=runner))
    assert runner.entered.wait(PATIENCE)
    future = run.abort("a")
    runner.gate.release(100)
    future.result(PATIENCE)
    assert reaches(run, LiveState.DONE)
    trace = run.trace()
    assert trace is not None
    assert len(outputs(trace)["b"]) == 3
    assert len(outputs(trace)["a"]) < 40


def test_a_run_ends_at_its_limit_of_ticks_and_says_so(worker: ModelWorker) -> None:
    run = worker.start(factory(create_request("a", 4, 40)), max_ticks=7)
    assert reaches(run, LiveState.STOPPED)
    trace = run.trace()
    assert trace is not None
    assert len(trace.records) == 7
    assert "limit of 7 ticks" in run.messages[-1]


def test_a_failure_in_one_run_leaves_the_other_alone(worker: ModelWorker, caplog: pytest.LogCaptureFixture) -> None:
    good = GatedRunner("x", [])
    run = worker.start(factory(create_request("a", 4, 3), runner=good))
    assert good.entered.wait(PATIENCE)
    bad = worker.start(factory(create_request("a", 4, 30), runner=BrokenRunner()))
    good.gate.release(50)
    assert reaches(bad, LiveState.FAILED)
    assert reaches(run, LiveState.DONE)
    assert bad.error == "ZeroDivisionError: broken on purpose"
    assert run.trace() == run_alone(create_engine(), create_request("a", 4, 3))
    assert "a live run failed" in caplog.text


def test_stopping_keeps_the_trace_and_cancelling_forgets_it(worker: ModelWorker) -> None:
    runners = [GatedRunner("x", []), GatedRunner("y", [])]
    runs = [worker.start(factory(create_request("a", 4, 40), runner=runner)) for runner in runners]
    # A run that has taken all its turns before the other is loaded would hold the worker at its gate.
    for run in runs:
        assert reaches(run, LiveState.RUNNING)
    for runner in runners:
        runner.gate.release(3)
    for run in runs:
        assert run.wait(has_ticks(3), PATIENCE)
    runs[0].stop()
    runs[1].cancel()
    for runner in runners:
        runner.gate.release(5)
    for run in runs:
        assert reaches(run, LiveState.STOPPED)
        assert run.wait(lambda run: run._worker.num_active == 0, PATIENCE)
    assert runs[0].trace() is not None
    assert runs[1].trace() is None
    assert [run._made for run in runs] == [None, None]


def test_a_run_cancelled_while_loading_holds_its_place_until_loading_ends_and_never_runs(worker: ModelWorker) -> None:
    go_on = threading.Event()
    runner = GatedRunner("x", [])

    def slow(report: Report) -> tuple[Engine, SyntheticRunner]:
        report(0.5, "half")
        assert go_on.wait(PATIENCE)
        return factory(create_request("a"), runner=runner)(report)

    run = worker.start(slow)
    assert run.wait(lambda run: run.progress == 0.5, PATIENCE)
    run.cancel()
    assert run.state is LiveState.STOPPED
    assert worker.num_active == 1
    go_on.set()
    assert run.wait(lambda run: worker.num_active == 0, PATIENCE)
    assert not runner.entered.is_set()
    assert (run.state, run.trace()) == (LiveState.STOPPED, None)


def test_the_version_grows_with_every_tick(worker: ModelWorker) -> None:
    runner = GatedRunner("x", [])
    run = worker.start(factory(create_request("a", 4, 40), runner=runner))
    seen = [run.version]
    for tick in range(1, 4):
        runner.gate.release()
        assert run.wait(has_ticks(tick), PATIENCE)
        seen.append(run.version)
    run.stop()
    runner.gate.release()
    assert seen == sorted(set(seen))


def test_closing_the_worker_answers_what_will_not_be_done() -> None:
    worker = ModelWorker(max_runs=1)
    runner = GatedRunner("x", [])
    first = worker.start(factory(create_request("a", 4, 40), runner=runner))
    queued = worker.start(factory(create_request("a")))
    future = queued.send(create_request("b"))
    assert runner.entered.wait(PATIENCE)
    runner.gate.release(5)
    worker.close()
    assert (first.state, queued.state) == (LiveState.STOPPED, LiveState.STOPPED)
    with pytest.raises(RequestError, match="ended before"):
        future.result(0)
    with pytest.raises(TickscopeError, match="closed"):
        worker.start(factory(create_request("a")))


@pytest.mark.model
def test_two_live_runs_of_the_real_model_at_once_give_the_outputs_of_solo_runs(
    worker: ModelWorker, model: LoadedModel
) -> None:
    questions = {"a": ("What is the capital of France?", "Name a fruit."), "b": ("Who wrote Hamlet?", "Say hello.")}

    def make(names: tuple[str, ...], report: Report | None = None) -> tuple[Engine, TransformersRunner]:
        runner = TransformersRunner(model)
        engine = Engine(EngineConfig(quantum=3, max_num_seqs=1), runner)
        for number, question in enumerate(names):
            engine.add_request(Draft(f"R{number}", question, max_tokens=10).spec(runner))
        return engine, runner

    runs = {name: worker.start(functools.partial(make, asked)) for name, asked in questions.items()}
    for name, run in runs.items():
        assert reaches(run, LiveState.DONE), run.error
        trace = run.trace()
        assert trace is not None
        assert outputs(trace) == outputs(make(questions[name])[0].run())

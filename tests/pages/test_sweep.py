"""The runs of a slider's positions, and the thread that makes them."""

from __future__ import annotations

import threading
import time

import pytest

from pages.components.sweep import _MAX_PARTIAL, LEAST_TRIED, MAX_WORK, Hole, Make, Sweep, SweepWorker, spread
from scheduler_core.engine import Engine
from scheduler_core.errors import ConfigError
from scheduler_core.sensitivity import read
from tests.helpers import create_engine, create_request

QUANTA = (1, 2, 3, 50, 60, None)


def crowd(quantum: int | None) -> Engine:
    """Three requests and one lane, ready to run."""
    engine = create_engine(max_num_seqs=1, quantum=quantum)
    for name in "ABC":
        engine.add_request(create_request(name, 8, max_tokens=6))
    return engine


def make(position: int) -> Engine:
    return crowd(QUANTA[position])


def finished(sweep: Sweep) -> Sweep:
    for _ in range(10_000):
        if sweep.is_done:
            return sweep
        sweep.work()
    raise AssertionError("the sweep does not end")


def begin(make: Make = make, tried: range | list[int] = range(6), max_ticks: int = 2000) -> Sweep:
    return Sweep(make, len(QUANTA), list(tried), max_ticks)


class Endless:
    """A run without end, which tells when it was worked on."""

    has_work = True

    def __init__(self) -> None:
        self.tick = 0
        self.stepped = threading.Event()

    def step(self) -> None:
        self.stepped.set()


def endless(run: Endless) -> Sweep:
    return Sweep(lambda _: run, 1, [0], 2000)  # type: ignore[arg-type,return-value]


def test_every_position_has_the_figures_of_its_run():
    assert finished(begin()).results == {i: read(crowd(quantum).run()) for i, quantum in enumerate(QUANTA)}


def test_a_stretch_of_equal_runs_has_its_reason():
    assert finished(begin()).reasons[3, 5] == "no request ever ran 50 ticks in one go"


def test_a_position_that_cannot_run_is_a_hole_and_the_others_stay():
    def refusing(position: int) -> Engine:
        if position == 4:
            raise ConfigError("quantum is 60; no such thing")
        return make(position)

    sweep = finished(begin(refusing))
    assert sweep.results[4] == Hole("quantum is 60; no such thing")
    assert set(sweep.results) == set(range(6))
    assert not any(first < 4 < last for first, last in sweep.reasons)


def test_a_run_cut_by_the_site_s_limit_is_a_hole():
    whole = len(crowd(1).run().records)
    assert finished(begin(tried=[0], max_ticks=whole - 1)).results[0] == Hole(
        f"cut at {whole - 1} ticks, the limit of this site"
    )
    assert not isinstance(finished(begin(tried=[0], max_ticks=whole)).results[0], Hole)


def test_small_runs_are_tried_everywhere_and_large_ones_from_end_to_end():
    assert spread(17, 300) == list(range(17))
    assert spread(17, 10 * MAX_WORK) == [0, 4, 8, 12, 16]
    assert len(spread(17, MAX_WORK // 9)) == 9
    assert spread(3, 10 * MAX_WORK) == [0, 1, 2]
    assert LEAST_TRIED == 5


def test_a_position_can_be_tried_later():
    sweep = finished(begin(tried=[0, 5]))
    sweep.ask(3)
    sweep.ask(3)
    assert not sweep.is_done
    assert set(finished(sweep).results) == {0, 3, 5}
    assert sweep.num_asked == 3


def test_a_sweep_lets_go_of_its_runs_when_all_is_known():
    sweep = finished(begin())
    assert sweep._make is None
    assert sweep._stretch is None


def test_the_thread_ends_when_nothing_is_left_to_do():
    worker = SweepWorker()
    sweep = worker.sweep("slot", "key", begin, 0)
    assert worker.wait(20)
    assert sweep.is_done
    assert not [thread for thread in threading.enumerate() if thread.name == "sweeps"]


def test_the_same_is_computed_once_for_all():
    worker = SweepWorker()
    first = worker.sweep("one", "key", begin, 0)
    assert worker.sweep("two", "key", begin, 0) is first
    assert worker.wait(20)
    assert worker.sweep("three", "key", begin, 5) is first


def test_two_visitors_do_not_wait_for_each_other():
    worker, long = SweepWorker(), Endless()
    worker.sweep("slow visitor", "endless", lambda: endless(long), 0)
    assert long.stepped.wait(20)
    quick = worker.sweep("quick visitor", "key", begin, 0)
    for _ in range(2000):
        if quick.is_done:
            break
        time.sleep(0.01)
    assert len(quick.results) == len(QUANTA)
    worker.sweep("slow visitor", "key", begin, 0)
    assert worker.wait(20)


def test_what_its_visitor_left_is_forgotten():
    worker, long = SweepWorker(), Endless()
    worker.sweep("visitor", "endless", lambda: endless(long), 0)
    worker.sweep("visitor", "key", begin, 0)
    assert worker.num_kept == 1
    assert worker.wait(20)
    assert worker.num_kept == 1


def test_what_another_still_wants_goes_on():
    worker, long = SweepWorker(), Endless()
    shared = worker.sweep("one", "endless", lambda: endless(long), 0)
    worker.sweep("two", "endless", lambda: endless(long), 0)
    worker.sweep("one", "key", begin, 0)
    assert worker.sweep("two", "endless", lambda: endless(long), 0) is shared
    worker.sweep("two", "key", begin, 0)
    assert worker.wait(20)


def test_what_nobody_asks_for_any_more_ends_by_itself():
    worker, long = SweepWorker(keep_seconds=0.05), Endless()
    sweep = worker.sweep("visitor", "endless", lambda: endless(long), 0)
    assert worker.wait(20)
    assert not sweep.is_done
    assert worker.num_kept == 0


def test_only_so_many_are_kept():
    worker = SweepWorker(max_kept=3)
    for number in range(6):
        worker.sweep("visitor", number, begin, 0)
        assert worker.wait(20)
    assert worker.num_kept == 3


def test_fewer_are_kept_of_those_that_were_tried_in_part():
    worker = SweepWorker()
    for number in range(20):
        worker.sweep("visitor", number, lambda: begin(tried=[0, 5]), 0)
        assert worker.wait(20)
    assert worker.num_kept == _MAX_PARTIAL + 1


def test_a_mistake_ends_its_own_sweep_only(caplog: pytest.LogCaptureFixture):
    def broken(position: int) -> Engine:
        raise ZeroDivisionError("oh")

    worker = SweepWorker()
    bad = worker.sweep("one", "bad", lambda: begin(broken), 0)
    good = worker.sweep("two", "good", begin, 0)
    assert worker.wait(20)
    assert bad.problem == "ZeroDivisionError: oh"
    assert not good.problem
    assert len(good.results) == 6
    assert "a sweep failed" in caplog.text

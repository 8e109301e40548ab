from __future__ import annotations

import random

import pytest

from scheduler_core.big_run.tick_series import LEVELS, MAX_BUCKETS, TickSeries
from scheduler_core.output import SchedulerOutput
from scheduler_core.trace import Counts, TickRecord


def record(tick: int, start: float, end: float, running: int = 0, tokens: int = 0) -> TickRecord:
    return TickRecord(tick, start, end, 0.0, SchedulerOutput(tick), (), Counts(0, running, 0, 0, tokens), None)


def series(*ticks: tuple[float, int, int, int]) -> TickSeries:
    """One of (seconds, running, tokens, preemptions) a tick."""
    made, now = TickSeries(), 0.0
    for tick, (seconds, running, tokens, preemptions) in enumerate(ticks):
        made.append(record(tick, now, now + seconds, running, tokens), preemptions)
        now += seconds
    return made


def test_a_bucket_has_the_mean_over_time_and_the_most_of_its_ticks() -> None:
    overview = series((1.0, 2, 10, 0), (3.0, 6, 30, 1), (4.0, 0, 0, 0)).overview(2)
    assert overview.edges_s == (0.0, 4.0, 8.0)
    assert overview.mean["running"] == (5.0, 0.0)
    assert overview.most["running"] == (6, 0)
    assert overview.tokens_per_s == (10.0, 0.0)
    assert overview.preemptions == (1, 0)
    assert overview.longest_tick_s == (3.0, 0.0)
    assert (overview.first_tick, overview.last_tick) == ((0, 2), (1, 2))


def test_a_tick_longer_than_a_bucket_shows_in_all_that_it_touches() -> None:
    overview = series((1.0, 1, 1, 0), (6.0, 7, 60, 0), (1.0, 1, 1, 0)).overview(4)
    assert overview.most["running"] == (7, 7, 7, 7)
    assert overview.mean["running"] == (4.0, 7.0, 7.0, 4.0)
    assert overview.tokens_per_s == pytest.approx((5.5, 10.0, 10.0, 5.5))


def test_an_overview_may_be_of_a_part() -> None:
    made = series(*[(1.0, running, 0, 0) for running in range(10)])
    overview = made.overview(2, start_s=2.0, end_s=6.0)
    assert overview.mean["running"] == (2.5, 4.5)
    assert overview.first_tick == (2, 4)


def test_nothing_is_lost_or_counted_twice_whatever_the_buckets() -> None:
    rng = random.Random(1)
    ticks = [
        (rng.choice([0.0, 0.01, 1.0, 30.0]), rng.randint(0, 9), rng.randint(0, 99), rng.randint(0, 2))
        for _ in range(500)
    ]
    made = series(*ticks)
    for buckets in (1, 7, 100, 4_000):
        overview = made.overview(buckets)
        width = made.end_s[-1] / buckets
        timed = [tick for tick in ticks if tick[0]]
        assert sum(overview.preemptions) == sum(tick[3] for tick in ticks)
        assert sum(overview.mean["running"]) * width == pytest.approx(sum(t[0] * t[1] for t in timed))
        assert sum(overview.tokens_per_s) * width == pytest.approx(sum(tick[2] for tick in ticks), rel=0.05)
        assert max(overview.most["running"]) == 9


def test_an_overview_never_has_more_buckets_than_a_browser_can_draw() -> None:
    assert len(series((1.0, 1, 1, 0)).overview(10**9).first_tick) == MAX_BUCKETS


def test_an_empty_run_has_an_empty_overview() -> None:
    assert TickSeries().overview().mean == dict.fromkeys(LEVELS, ())


def test_the_tick_at_a_time_is_the_one_that_goes_on_then() -> None:
    made = series((1.0, 0, 0, 0), (1.0, 0, 0, 0), (2.0, 0, 0, 0))
    assert [made.tick_at(seconds) for seconds in (0.0, 0.99, 1.0, 3.9, 4.0, 99.0)] == [0, 0, 1, 2, 2, 2]

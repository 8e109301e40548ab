from __future__ import annotations

import numpy as np
import pytest

from scheduler_core.load.config import LoadConfig
from scheduler_core.load.generator import GeneratedLoad


def times(**changes: object) -> np.ndarray:
    config = LoadConfig(**{"num_requests": 4_000, "seed": 7, **changes})  # type: ignore[arg-type]
    return np.array([request.arrival_time for request in GeneratedLoad(config)])


def variation(values: np.ndarray) -> float:
    gaps = np.diff(values)
    return float(gaps.std() / gaps.mean())


def test_a_constant_load_has_equal_gaps_from_the_start() -> None:
    assert times(arrivals="constant", rate=4.0, num_requests=5).tolist() == [0.0, 0.25, 0.5, 0.75, 1.0]


def test_a_poisson_load_keeps_its_rate_and_its_gaps_vary_as_much_as_their_mean() -> None:
    sent = times(arrivals="poisson", rate=5.0)
    assert len(sent) / sent[-1] == pytest.approx(5.0, rel=0.05)
    assert variation(sent) == pytest.approx(1.0, abs=0.06)


@pytest.mark.parametrize("burstiness", [0.1, 0.5, 4.0])
def test_gamma_gaps_vary_by_one_over_the_root_of_the_burstiness(burstiness: float) -> None:
    sent = times(arrivals="gamma", rate=2.0, burstiness=burstiness)
    assert variation(sent) == pytest.approx(burstiness**-0.5, rel=0.1)
    assert len(sent) / sent[-1] == pytest.approx(2.0, rel=0.2)


def test_a_gamma_load_of_burstiness_one_is_the_poisson_load() -> None:
    assert times(arrivals="gamma", burstiness=1.0).tolist() == times(arrivals="poisson").tolist()


def test_a_ramp_sends_as_many_in_each_part_as_its_rate_says_and_then_keeps_the_last_rate() -> None:
    sent = times(arrivals="ramp", rate=1.0, rate_end=9.0, ramp_s=100.0, burstiness=1e6, num_requests=1_000)
    assert np.sum(sent < 50.0) == pytest.approx(150, abs=2)  # the rate goes from 1 to 5
    assert np.sum(sent < 100.0) == pytest.approx(500, abs=2)
    assert np.sum((sent >= 100.0) & (sent < 120.0)) == pytest.approx(180, abs=2)


def test_a_ramp_may_fall_and_may_be_level() -> None:
    falling = times(arrivals="ramp", rate=9.0, rate_end=1.0, ramp_s=100.0, burstiness=1e6, num_requests=700)
    assert np.sum(falling < 50.0) == pytest.approx(350, abs=2)
    assert np.all(np.diff(falling) >= 0)
    level = times(arrivals="ramp", rate=2.0, rate_end=2.0, ramp_s=10.0, burstiness=1.0)
    assert np.allclose(level, times(arrivals="poisson", rate=2.0), atol=1e-5)


def test_bursts_are_silent_in_between_unless_a_rate_is_given_for_it() -> None:
    shape = {"arrivals": "onoff", "rate": 10.0, "on_s": 2.0, "off_s": 3.0, "num_requests": 2_000}
    silent = times(**shape) % 5.0
    assert np.all(silent <= 2.0 + 1e-6)
    murmuring = times(**shape, off_rate=1.0, burstiness=1e6) % 5.0
    assert np.mean(murmuring > 2.0) == pytest.approx(3 / 23, abs=0.01)


def test_all_at_once_is_all_at_the_start() -> None:
    assert set(times(arrivals="at_once", num_requests=9)) == {0.0}


@pytest.mark.parametrize("arrivals", ["poisson", "constant", "gamma", "ramp", "onoff"])
def test_arrivals_never_go_backwards_and_are_whole_microseconds(arrivals: str) -> None:
    sent = times(arrivals=arrivals, burstiness=0.2, rate=3.0, rate_end=30.0)
    assert sent[0] == 0.0
    assert np.all(np.diff(sent) >= 0)
    assert [round(value, 6) for value in sent.tolist()] == sent.tolist()

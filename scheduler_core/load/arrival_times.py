"""When requests are sent: gamma gaps, laid over a rate that may change in time.

Gaps have the shape b (the burstiness) and the mean 1: b = 1 is a Poisson process, less is burstier, more is evener, as
in vLLM's benchmark. They count expected arrivals, and the course of the rate turns those into seconds.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Times = NDArray[np.float64]


def gaps(random: np.random.Generator, burstiness: float | None, count: int) -> Times:
    """`count` gaps of mean 1; without a burstiness all are alike."""
    if burstiness is None:
        return np.ones(count)
    return random.gamma(burstiness, 1 / burstiness, count)


def expected_arrivals(random: np.random.Generator, burstiness: float | None, count: int) -> Times:
    """How many arrivals are expected until each of `count`; the first comes at once."""
    return np.concatenate([np.zeros(1), np.cumsum(gaps(random, burstiness, count - 1))])


def at_rate(expected: Times, rate: float) -> Times:
    """Seconds under a steady rate."""
    return expected / rate


def ramp(expected: Times, rate: float, rate_end: float, ramp_s: float) -> Times:
    """Seconds under a rate that goes straight from `rate` to `rate_end` in `ramp_s` seconds and then stays.

    Expected arrivals until t are rate * t + slope * t^2 / 2; this solves that for t.
    """
    slope = (rate_end - rate) / ramp_s
    in_ramp = (rate + rate_end) / 2 * ramp_s
    during = np.minimum(expected, in_ramp)
    # This form of the root does not cancel, and holds for a slope of 0.
    seconds = 2 * during / (rate + np.sqrt(np.maximum(rate * rate + 2 * slope * during, 0.0)))
    return seconds + (expected - during) / rate_end


def on_off(expected: Times, rate: float, off_rate: float, on_s: float, off_s: float) -> Times:
    """Seconds under bursts: `on_s` seconds of `rate`, then `off_s` of `off_rate`, over and over."""
    in_burst = rate * on_s
    in_cycle = in_burst + off_rate * off_s
    cycles = np.floor(expected / in_cycle)
    rest = expected - cycles * in_cycle
    quiet = np.maximum(rest - in_burst, 0.0) / off_rate if off_rate else np.zeros_like(rest)
    return cycles * (on_s + off_s) + np.minimum(rest, in_burst) / rate + quiet


def rounded(seconds: Times) -> list[float]:
    """Whole microseconds, which hide the last digits in which mathematics libraries may differ."""
    return [float(value) for value in np.rint(seconds * 1e6) / 1e6]

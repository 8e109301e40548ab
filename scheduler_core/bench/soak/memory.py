"""Whether a server's memory stays flat: the memory that it has for itself, over the last two thirds of a run.

What it has mapped from files (the store's pages, which the kernel may take back) is told but not judged. Flat is where
neither measure of growth exceeds the limit: the slope (Theil and Sen: the median of the slopes between all pairs, which
single peaks do not move) times the length of the stretch, and the difference between the medians of its two halves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

#: Growth in MiB that still counts as flat: the noise of an allocator under load.
LIMIT_MIB = 8.0
#: In a shorter run buffers and caches still fill.
SHORTEST_S = 180.0
_MOST_POINTS = 400


@dataclass(frozen=True, slots=True)
class MemorySample:
    """`seconds` after the load began; MiB."""

    seconds: float
    own: float
    mapped: float


@dataclass(frozen=True, slots=True)
class MemoryVerdict:
    """`is_flat` is None where the run was too short to tell. `by_halves` and `by_slope` are the growth in MiB."""

    is_flat: bool | None
    start_mib: float
    end_mib: float
    peak_mib: float
    by_slope: float
    by_halves: float
    limit_mib: float = LIMIT_MIB


def judge(samples: Sequence[MemorySample]) -> MemoryVerdict:
    """At least six samples, in order of time."""
    length = samples[-1].seconds
    judged = [each for each in samples if each.seconds >= length / 3]
    seconds = np.array([each.seconds for each in judged])
    own = np.array([each.own for each in judged])
    half = len(own) // 2
    by_halves = float(np.median(own[half:]) - np.median(own[:half]))
    by_slope = _slope(seconds, own) * float(seconds[-1] - seconds[0])
    flat = None if length < SHORTEST_S else max(by_halves, by_slope) <= LIMIT_MIB
    tenth = max(1, len(own) // 10)
    ends = float(np.median(own[:tenth])), float(np.median(own[-tenth:]))
    return MemoryVerdict(flat, *ends, max(each.own for each in samples), by_slope, by_halves)


def _slope(times: np.ndarray, values: np.ndarray) -> float:
    step = -(-len(times) // _MOST_POINTS)
    times, values = times[::step], values[::step]
    first, second = np.triu_indices(len(times), 1)
    return float(np.median((values[second] - values[first]) / (times[second] - times[first])))

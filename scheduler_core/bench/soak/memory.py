"""Whether a server's memory stays flat: the memory that it has for itself, over the last two thirds of a run.

What it has mapped from files (the store's pages, which the kernel may take back) is told but not judged. Copies of
preempted requests and blocks on their way to the store come and go with the load, a leak only comes: so the stretch is
cut into windows, and the least of each is taken. Flat is where neither measure of growth of these floors exceeds the
limit: their slope (Theil and Sen: the median of the slopes between all pairs) times the length of the stretch, and the
difference between the medians of its two halves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

#: Growth that still counts as flat, in MiB: the noise of an allocator under load. A leak of less is not seen.
LIMIT_MIB = 8.0
#: In a shorter run buffers and caches still fill.
SHORTEST_S = 180.0
#: With it the allocator gives back what is freed, instead of keeping the largest that there ever was.
ENVIRONMENT = {"MALLOC_MMAP_THRESHOLD_": str(128 * 1024), "MALLOC_ARENA_MAX": "2"}
_WINDOWS = 20


@dataclass(frozen=True, slots=True)
class MemorySample:
    """`seconds` after the load began; MiB."""

    seconds: float
    own: float
    mapped: float


@dataclass(frozen=True, slots=True)
class MemoryVerdict:
    """MiB. `is_flat` is None where the run was too short to tell; `by_halves` and `by_slope` are the floors' growth."""

    is_flat: bool | None
    first_floor: float
    last_floor: float
    peak: float
    by_slope: float
    by_halves: float
    limit: float = LIMIT_MIB


def judge(samples: Sequence[MemorySample]) -> MemoryVerdict:
    """At least six samples, in order of time."""
    length = samples[-1].seconds
    judged = [each for each in samples if each.seconds >= length / 3]
    parts = np.array_split(np.array([each.own for each in judged]), min(_WINDOWS, len(judged)))
    floors = np.array([part.min() for part in parts])
    half = len(floors) // 2
    by_halves = float(np.median(floors[half:]) - np.median(floors[:half]))
    by_slope = _slope(floors) * len(floors)
    flat = None if length < SHORTEST_S else max(by_halves, by_slope) <= LIMIT_MIB
    return MemoryVerdict(
        flat, float(floors[0]), float(floors[-1]), max(each.own for each in samples), by_slope, by_halves
    )


def _slope(floors: np.ndarray) -> float:
    """MiB for each window."""
    first, second = np.triu_indices(len(floors), 1)
    return float(np.median((floors[second] - floors[first]) / (second - first)))

"""The numbers of every tick in a few bytes each, and their overview in buckets of equal time."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scheduler_core.trace import TickRecord

Floats = NDArray[np.float64]

#: Levels as of the end of a tick; they hold during the tick in an overview.
LEVELS = ("waiting", "running", "used_blocks", "cached_blocks")
MAX_BUCKETS = 4_000


@dataclass(frozen=True, slots=True)
class Overview:
    """Bucket i goes from `edges_s[i]` to `edges_s[i + 1]` and overlaps the ticks `first_tick[i] .. last_tick[i]`.

    `mean` and `most` are those of each level over the time of the bucket, `tokens_per_s` what was computed in it,
    `preemptions` those of the ticks that end in it, `longest_tick_s` the longest tick with work that overlaps it.
    """

    edges_s: tuple[float, ...]
    first_tick: tuple[int, ...]
    last_tick: tuple[int, ...]
    mean: dict[str, tuple[float, ...]]
    most: dict[str, tuple[int, ...]]
    tokens_per_s: tuple[float, ...]
    preemptions: tuple[int, ...]
    longest_tick_s: tuple[float, ...]


class TickSeries:
    """One value of each kind a tick: 36 bytes together."""

    def __init__(self) -> None:
        self.end_s = array("d")
        self.levels = {name: array("i") for name in LEVELS}
        self.scheduled_tokens = array("i")
        self.preemptions = array("i")

    def __len__(self) -> int:
        return len(self.end_s)

    def append(self, record: TickRecord, preemptions: int) -> None:
        """Take in the next tick."""
        counts, levels = record.counts, self.levels
        self.end_s.append(record.end)
        levels["waiting"].append(counts.waiting)
        levels["running"].append(counts.running)
        levels["used_blocks"].append(counts.used_blocks)
        levels["cached_blocks"].append(counts.cached_blocks)
        self.scheduled_tokens.append(counts.scheduled_tokens)
        self.preemptions.append(preemptions)

    def is_same(self, tick: int, record: TickRecord) -> bool:
        """Whether `record` says of `tick` what was taken in."""
        counts = record.counts
        return (
            self.end_s[tick] == record.end
            and self.scheduled_tokens[tick] == counts.scheduled_tokens
            and all(column[tick] == getattr(counts, name) for name, column in self.levels.items())
        )

    def tick_at(self, seconds: float) -> int:
        """The tick that goes on at `seconds`; the last one after the end."""
        return min(int(np.searchsorted(self._ends(), seconds, side="right")), max(len(self) - 1, 0))

    def overview(self, buckets: int = 1_000, start_s: float = 0.0, end_s: float | None = None) -> Overview:
        """The time from `start_s` to `end_s` (None = the end of the run) in at most `buckets` parts of equal length."""
        buckets = max(1, min(buckets, MAX_BUCKETS))
        until = self.end_s[-1] if end_s is None and len(self) else end_s or 0.0
        if not len(self) or until <= start_s:
            return Overview((start_s,), (), (), dict.fromkeys(LEVELS, ()), dict.fromkeys(LEVELS, ()), (), (), ())
        return self._buckets(np.linspace(start_s, until, buckets + 1))

    def _buckets(self, edges: Floats) -> Overview:
        ends, last = self._ends(), len(self) - 1
        first = np.minimum(np.searchsorted(ends, edges[:-1], side="right"), last)
        final = np.minimum(np.searchsorted(ends, edges[1:], side="left"), last)
        spans = np.diff(ends, prepend=0.0)
        tokens = np.asarray(self.scheduled_tokens, dtype=np.float64)
        busy = np.where(tokens > 0, spans, 0.0)
        preempted = np.concatenate([[0], np.cumsum(np.asarray(self.preemptions, dtype=np.int64))])
        places = np.searchsorted(ends, edges, side="right")
        levels = {name: np.asarray(column, dtype=np.float64) for name, column in self.levels.items()}
        return Overview(
            tuple(edges.tolist()),
            tuple(first.tolist()),
            tuple(final.tolist()),
            {name: _rates(ends, values * spans, edges) for name, values in levels.items()},
            {name: tuple(int(v) for v in _most(values, first, final)) for name, values in levels.items()},
            _rates(ends, tokens, edges),
            tuple(np.diff(preempted[places]).tolist()),
            tuple(_most(busy, first, final).tolist()),
        )

    def _ends(self) -> Floats:
        return np.asarray(self.end_s, dtype=np.float64)


def _rates(ends: Floats, amounts: Floats, edges: Floats) -> tuple[float, ...]:
    """Amount per second in each bucket, where every tick's amount is spread evenly over its time."""
    times = np.concatenate([[0.0], ends])
    sums = np.concatenate([[0.0], np.cumsum(amounts)])
    return tuple((np.diff(np.interp(edges, times, sums)) / np.diff(edges)).tolist())


def _most(values: Floats, first: NDArray[np.intp], final: NDArray[np.intp]) -> Floats:
    """The largest value of the ticks `first .. final` of each bucket; the last of one may be the first of the next."""
    largest: Any = np.maximum.reduceat(values, first)
    found: Floats = np.maximum(largest, values[final])
    return found

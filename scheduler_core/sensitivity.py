"""How a run answers to a setting: the figures of one run, and which of several runs are the very same."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from scheduler_core.events import ChunkSteered, Event, SliceExpired, TokenSampled
from scheduler_core.metrics import RequestMetrics, percentile, request_metrics, totals, waiting_by_cause
from scheduler_core.trace import TickRecord, Trace

#: A 90th percentile of fewer requests is little more than the largest of them.
LEAST_FOR_P90 = 10


@dataclass(frozen=True, slots=True)
class Reading:
    """The figures of one run by name (None where it has no such figure), and a digest of all that it decided."""

    figures: dict[str, float | None]
    decisions: str


@dataclass(frozen=True, slots=True)
class _Facts:
    """What the figures are taken from, counted once for all of them."""

    trace: Trace
    requests: list[RequestMetrics]
    totals: dict[str, int | float]

    @property
    def ttfts(self) -> list[float]:
        return [figures.ttft_s for figures in self.requests if figures.ttft_s is not None]


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure of a whole run: its name and meaning for people, how to take it, and the least requests it needs."""

    words: str
    meaning: str
    is_time: bool
    take: Callable[[_Facts], float | None]
    least: int = 1


def _worst_wait(facts: _Facts) -> float | None:
    return max((waiting.queued_s + waiting.preempted_s for waiting in waiting_by_cause(facts.trace)), default=None)


def _largest_gap(facts: _Facts) -> float | None:
    return max((m.worst_gap_s for m in facts.requests if m.worst_gap_s is not None), default=None)


def _mean_ttft(facts: _Facts) -> float | None:
    return sum(facts.ttfts) / len(facts.ttfts) if facts.ttfts else None


def _p90_ttft(facts: _Facts) -> float | None:
    done = [m.ttft_s for m in facts.requests if m.is_completed and m.ttft_s is not None]
    return percentile(done, 90) if len(done) >= LEAST_FOR_P90 else None


FIGURES: dict[str, Figure] = {
    "worst_wait": Figure(
        "worst wait", "The longest that any request spent waiting, before its first lane or out of it again.", True,
        _worst_wait,
    ),
    "largest_gap": Figure(
        "largest token gap", "The longest pause between two tokens of one answer.", True, _largest_gap
    ),
    "mean_ttft": Figure(
        "mean TTFT", "Time to first token, from the arrival on: the mean over all requests.", True, _mean_ttft
    ),
    "worst_ttft": Figure(
        "worst TTFT", "Time to first token, from the arrival on: the longest of all requests.", True,
        lambda facts: max(facts.ttfts, default=None),
    ),
    "p90_ttft": Figure(
        "90 % TTFT", "Time to first token, from the arrival on: nine of ten completed requests had it by then.", True,
        _p90_ttft, LEAST_FOR_P90,
    ),
    "run_time": Figure(
        "whole run", "From the first tick to the end of the last.", True, lambda facts: facts.totals["virtual_seconds"]
    ),
    "preemptions": Figure(
        "preemptions", "How often a request had to leave its lane.", False, lambda facts: facts.totals["preemptions"]
    ),
    "recomputed_tokens": Figure(
        "recomputed tokens", "Tokens that were computed again, because their KV had been lost.", False,
        lambda facts: facts.totals["recomputed_tokens"],
    ),
    "hit_tokens": Figure(
        "prefix hit tokens", "Prompt tokens that were found in the prefix cache at the first admission.", False,
        lambda facts: facts.totals["hit_tokens"],
    ),
}  # fmt: skip


def read(trace: Trace) -> Reading:
    """All figures of a run, and the digest of its decisions; raises `TraceError` for a trace of aggregates."""
    facts = _Facts(trace, request_metrics(trace), totals(trace))
    return Reading({name: figure.take(facts) for name, figure in FIGURES.items()}, decisions(trace))


def decisions(trace: Trace) -> str:
    """A digest of all that a run did, tick by tick; equal digests mean that a setting made no difference.

    The end of a slice and what chunk control goes by are left out: they show in what else happens if they decide
    anything.
    """
    digest = hashlib.sha256()
    for record in trace.records:
        digest.update(repr(_of_tick(record)).encode())
    return digest.hexdigest()


def _of_tick(record: TickRecord) -> tuple[object, ...]:
    batch = [(item.request_id, item.start, item.end) for item in record.output.scheduled]
    events = [_told(event) for event in record.events if not isinstance(event, SliceExpired | ChunkSteered)]
    return record.start, record.end, batch, events


def _told(event: Event) -> object:
    """An event without what is no decision: the text of a token, and those that were not drawn."""
    return (event.request_id, event.index, event.token_id) if isinstance(event, TokenSampled) else event


def stretches(runs: Sequence[str | None]) -> list[tuple[int, int]]:
    """The positions, as (first, last), in stretches of neighbours whose runs are the same; None is like no other."""
    starts = [0, *(i for i, (a, b) in enumerate(pairwise(runs), 1) if a is None or a != b)]
    return [(a, b - 1) for a, b in pairwise([*starts, len(runs)])] if runs else []


def same_as(runs: Sequence[str | None], at: int) -> list[tuple[int, int]]:
    """The stretches whose run is the one at position `at`, its own among them."""
    return [stretch for stretch in stretches(runs) if stretch[0] == at or runs[stretch[0]] == runs[at] is not None]

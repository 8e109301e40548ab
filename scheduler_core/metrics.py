"""Figures of a run, recounted from its events. Times are in seconds of the run's virtual clock.

TTFT = first token - arrival; TPOT = (E2E - TTFT) / (output tokens - 1); ITL = gaps between tokens of one request;
percentiles are linear between the closest ranks, over completed requests.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from scheduler_core.events import (
    LowerTierQueried,
    PrefixCacheQueried,
    RequestAdmitted,
    RequestFinished,
    RequestPreempted,
    TokenSampled,
)
from scheduler_core.events_table import EventRow as EventRow
from scheduler_core.events_table import events_table as events_table
from scheduler_core.lookup import configs, is_full, require_full
from scheduler_core.request import FinishReason, RequestSpec, RequestStatus
from scheduler_core.request_facts import RequestFacts
from scheduler_core.token_view import Chip as Chip
from scheduler_core.token_view import RequestText as RequestText
from scheduler_core.token_view import text_of as text_of
from scheduler_core.trace import TickRecord, Trace
from scheduler_core.whereabouts import COMPLETED as COMPLETED
from scheduler_core.whereabouts import Place, end_of, stays

CAUSES = tuple(place.value for place in Place)


@dataclass(frozen=True, slots=True)
class Waiting:
    """Where the time of a request went, from its arrival to its end (or to the end of the trace).

    `queued_s` before its first lane, `prefill_s` computing tokens that were there (also for the second time),
    `decode_s` generating one token a tick, `skipped_s` in a lane but left out of the batch, `preempted_s` out of
    its lane again. `is_over` tells whether it has ended.
    """

    request_id: str
    queued_s: float
    prefill_s: float
    decode_s: float
    skipped_s: float
    preempted_s: float
    is_over: bool

    @property
    def total_s(self) -> float:
        return self.queued_s + self.prefill_s + self.decode_s + self.skipped_s + self.preempted_s


@dataclass(frozen=True, slots=True)
class RequestMetrics:
    """What became of one request; None where a figure is not defined (yet)."""

    id: str
    status: RequestStatus
    finish_reason: FinishReason | None
    message: str
    num_prompt_tokens: int
    num_cached_tokens: int
    num_output_tokens: int
    output_token_ids: tuple[int, ...]
    num_preemptions: int
    recomputed_tokens: int | None
    ttft_s: float | None
    tpot_s: float | None
    mean_itl_s: float | None
    worst_gap_s: float | None
    itls: tuple[float, ...]
    e2e_s: float | None
    queue_s: float
    preempted_s: float

    @property
    def is_completed(self) -> bool:
        return self.finish_reason in COMPLETED


@dataclass(frozen=True, slots=True)
class Summary:
    """How many requests ended how, and percentiles over the completed ones (name -> percentile -> seconds)."""

    completed: int
    refused: int
    aborted: int
    failed: int
    unfinished: int
    percentiles: dict[str, dict[int, float | None]]


@dataclass(frozen=True, slots=True)
class Series:
    """One value a tick, for charts."""

    tick: tuple[int, ...]
    start_s: tuple[float, ...]
    end_s: tuple[float, ...]
    wall_s: tuple[float, ...]
    waiting: tuple[int, ...]
    running: tuple[int, ...]
    used_blocks: tuple[int, ...]
    cached_blocks: tuple[int, ...]
    scheduled_tokens: tuple[int, ...]
    token_budget: tuple[int, ...]
    is_idle: tuple[bool, ...]


@dataclass(slots=True)
class _Tally:
    """What the walk over the ticks has seen of one request."""

    spec: RequestSpec
    status: RequestStatus = RequestStatus.WAITING
    finish_reason: FinishReason | None = None
    message: str = ""
    num_cached_tokens: int = 0
    num_preemptions: int = 0
    recomputed_tokens: int = 0
    token_ids: list[int] = field(default_factory=list)
    token_times: list[float] = field(default_factory=list)
    end: float | None = None
    spent: dict[str, float] = field(default_factory=lambda: dict.fromkeys(CAUSES, 0.0))


def request_metrics(trace: Trace) -> list[RequestMetrics]:
    """The figures of every request, in order of sending; a summary record does not know the recomputed tokens."""
    metrics = [_metrics(tally) for tally in _tallies(trace)]
    return metrics if is_full(trace) else [replace(m, recomputed_tokens=None) for m in metrics]


def waiting_by_cause(trace: Trace) -> list[Waiting]:
    """Where the time of every request went, in order of sending; the parts add up to its latency."""
    require_full(trace)
    return [_waiting(tally) for tally in _tallies(trace)]


def totals(trace: Trace) -> dict[str, int | float]:
    """Counters of the whole run."""
    require_full(trace)
    queries = [e for record in trace.records for e in record.events if isinstance(e, PrefixCacheQueried)]
    below = [e for record in trace.records for e in record.events if isinstance(e, LowerTierQueried)]
    preemptions = [e for record in trace.records for e in record.events if isinstance(e, RequestPreempted)]
    items = [item for record in trace.records for item in record.output.scheduled]
    return {
        "ticks": len(trace.records),
        "preemptions": len(preemptions),
        "query_tokens": sum(q.query_tokens for q in queries if not q.self_hit),
        "hit_tokens": sum(q.hit_tokens for q in queries if not q.self_hit),
        "self_hit_tokens": sum(q.hit_tokens for q in queries if q.self_hit),
        "tier_hit_tokens": sum(q.hit_tokens for q in below if not q.self_hit),
        "recomputed_tokens": sum(item.recomputed_tokens for item in items),
        "bytes_saved": sum(p.bytes_saved for p in preemptions),
        "virtual_seconds": trace.records[-1].end - trace.records[0].start if trace.records else 0.0,
        "wall_seconds": sum(record.wall_seconds for record in trace.records),
    }


def summary(metrics: Sequence[RequestMetrics], ranks: Sequence[int] = (50, 90, 99)) -> Summary:
    """Percentiles of completed requests, and the count of all others."""
    done = [m for m in metrics if m.is_completed]
    values: dict[str, list[float]] = {
        "ttft_s": [m.ttft_s for m in done if m.ttft_s is not None],
        "tpot_s": [m.tpot_s for m in done if m.tpot_s is not None],
        "itl_s": [gap for m in done for gap in m.itls],
        "e2e_s": [m.e2e_s for m in done if m.e2e_s is not None],
    }
    reasons = [m.finish_reason for m in metrics]
    return Summary(
        completed=len(done),
        refused=reasons.count(FinishReason.REJECTED),
        aborted=reasons.count(FinishReason.ABORT),
        failed=reasons.count(FinishReason.ERROR),
        unfinished=reasons.count(None),
        percentiles={name: {q: percentile(list_, q) for q in ranks} for name, list_ in values.items()},
    )


def percentile(values: Iterable[float], q: float) -> float | None:
    """The q-th percentile (0 to 100), linear between the closest ranks as numpy's default; None without values."""
    if not 0 <= q <= 100:
        raise ValueError(f"percentile {q} is not from 0 to 100")
    ordered = sorted(values)
    if not ordered:
        return None
    place = (len(ordered) - 1) * q / 100
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def series(trace: Trace) -> Series:
    """Queue, memory and batch by tick; also for summary records."""
    records = trace.records
    return Series(
        tick=tuple(r.tick for r in records),
        start_s=tuple(r.start for r in records),
        end_s=tuple(r.end for r in records),
        wall_s=tuple(r.wall_seconds for r in records),
        waiting=tuple(r.counts.waiting for r in records),
        running=tuple(r.counts.running for r in records),
        used_blocks=tuple(r.counts.used_blocks for r in records),
        cached_blocks=tuple(r.counts.cached_blocks for r in records),
        scheduled_tokens=tuple(r.counts.scheduled_tokens for r in records),
        token_budget=tuple(config.max_num_batched_tokens for config in configs(trace)),
        is_idle=tuple(r.is_idle for r in records),
    )


def _tallies(trace: Trace) -> list[_Tally]:
    tallies = {spec.id: _Tally(spec) for spec in trace.requests}
    for record in trace.records:
        _read_events(record, tallies)
    for stay in stays(trace):
        tallies[stay.request_id].spent[stay.place.value] += stay.seconds
    return list(tallies.values())


def _read_events(record: TickRecord, tallies: dict[str, _Tally]) -> None:
    for event in record.events:
        match event:
            case RequestAdmitted():
                tallies[event.request_id].status = RequestStatus.RUNNING
            case RequestPreempted():
                tallies[event.request_id].status = RequestStatus.PREEMPTED
                tallies[event.request_id].num_preemptions += 1
            case PrefixCacheQueried() if not event.self_hit:
                tallies[event.request_id].num_cached_tokens = event.hit_tokens
            case LowerTierQueried() if not event.self_hit:
                tallies[event.request_id].num_cached_tokens += event.hit_tokens
            case TokenSampled():
                tallies[event.request_id].token_ids.append(event.token_id)
                tallies[event.request_id].token_times.append(record.end)
            case RequestFinished():
                _read_end(event, record, tallies[event.request_id])
            case _:
                pass
    for item in record.output.scheduled:
        tallies[item.request_id].recomputed_tokens += item.recomputed_tokens


def _read_end(event: RequestFinished, record: TickRecord, tally: _Tally) -> None:
    tally.status, tally.finish_reason, tally.message = RequestStatus.FINISHED, event.reason, event.message
    tally.end = end_of(event, record, tally.spec.arrival_time)


def _waiting(tally: _Tally) -> Waiting:
    spent = tally.spent
    return Waiting(
        tally.spec.id,
        queued_s=spent["queued"],
        prefill_s=spent["prefill"],
        decode_s=spent["decode"],
        skipped_s=spent["skipped"],
        preempted_s=spent["preempted"],
        is_over=tally.finish_reason is not None,
    )


def _metrics(tally: _Tally) -> RequestMetrics:
    facts = RequestFacts(
        tally.spec.id,
        tally.spec.arrival_time,
        len(tally.spec.prompt_token_ids),
        tally.token_times,
        tally.end,
        tally.finish_reason,
    )
    gaps = facts.itls_s
    return RequestMetrics(
        id=tally.spec.id,
        status=tally.status,
        finish_reason=tally.finish_reason,
        message=tally.message,
        num_prompt_tokens=len(tally.spec.prompt_token_ids),
        num_cached_tokens=tally.num_cached_tokens,
        num_output_tokens=len(tally.token_ids),
        output_token_ids=tuple(tally.token_ids),
        num_preemptions=tally.num_preemptions,
        recomputed_tokens=tally.recomputed_tokens,
        ttft_s=facts.ttft_s,
        tpot_s=facts.tpot_s,
        mean_itl_s=sum(gaps) / len(gaps) if gaps else None,
        worst_gap_s=max(gaps, default=None),
        itls=gaps,
        e2e_s=facts.e2e_s,
        queue_s=tally.spent["queued"],
        preempted_s=tally.spent["preempted"],
    )

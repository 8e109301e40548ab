"""Two runs of one workload side by side: where they part, what became of each request, and the totals.

Left and right are as on screen. Nothing is run here: everything is read from the two traces.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from scheduler_core.batch_story import chunk_story, drawn_texts
from scheduler_core.events import (
    ConfigChanged,
    Event,
    LowerTierQueried,
    PrefixCacheQueried,
    RequestAdmitted,
    RequestArrived,
    RequestFinished,
    RequestPreempted,
    RequestRefused,
    RequestRestored,
    RequestSkipped,
    TokenSampled,
)
from scheduler_core.lookup import request_in, require_full
from scheduler_core.metrics import RequestMetrics, percentile, request_metrics, totals
from scheduler_core.narration import narrate
from scheduler_core.output import ScheduledRequest
from scheduler_core.request import FinishReason, RequestStatus
from scheduler_core.trace import TickRecord, Trace
from scheduler_core.words import duration, number

#: What is told of a request whose fate differs, the most telling first.
_TOLD = (RequestRefused, RequestPreempted, RequestRestored, RequestAdmitted, RequestFinished, RequestArrived)
#: Which event tells what a request met with in a tick, the most telling first.
_STORIES = (
    RequestRefused,
    RequestPreempted,
    RequestRestored,
    LowerTierQueried,
    PrefixCacheQueried,
    RequestAdmitted,
    RequestFinished,
    RequestSkipped,
    RequestArrived,
)


@dataclass(frozen=True, slots=True)
class FirstDifference:
    """The first tick that differs, and what happened there on either side, in a sentence each."""

    tick: int
    left: str
    right: str


@dataclass(frozen=True, slots=True)
class Fate:
    """What became of a request in one run; times in virtual seconds, None where there is no such moment (yet)."""

    ttft_s: float | None
    worst_gap_s: float | None
    recomputed_tokens: int
    preemptions: int
    cached_tokens: int
    finish_s: float | None
    finish_reason: FinishReason | None
    output_token_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RequestDifference:
    """One request on both sides; None on the side that was never sent it."""

    id: str
    left: Fate | None
    right: Fate | None

    @property
    def says_the_same(self) -> bool:
        """Whether both answers are equal as far as both go."""
        if self.left is None or self.right is None:
            return True
        return all(a == b for a, b in zip(self.left.output_token_ids, self.right.output_token_ids, strict=False))


@dataclass(frozen=True, slots=True)
class TotalDifference:
    """A figure of the whole run on both sides; `is_time` tells seconds from counts, None means not defined."""

    name: str
    left: float | None
    right: float | None
    is_time: bool = False


def first_difference(left: Trace, right: Trace) -> FirstDifference | None:
    """Where the two runs part; None if every tick does the same, in the same time, with the same tokens."""
    require_full(left)
    require_full(right)
    for tick, (one, two) in enumerate(zip(left.records, right.records, strict=False)):
        if _decisions(one) != _decisions(two):
            return _decided_otherwise(left, right, tick)
        if (one.start, one.end) != (two.start, two.end):
            return FirstDifference(tick, _span(one), _span(two))
        if _tokens(one) != _tokens(two):
            return _said_otherwise(one, two)
    shorter = min(len(left.records), len(right.records))
    if shorter == max(len(left.records), len(right.records)):
        return None
    return FirstDifference(shorter, _end_or_story(left, shorter), _end_or_story(right, shorter))


def request_differences(left: Trace, right: Trace) -> list[RequestDifference]:
    """Every request of either side, in order of sending."""
    fates = [_fates(left), _fates(right)]
    ids = dict.fromkeys([*fates[0], *fates[1]])
    return [RequestDifference(request_id, fates[0].get(request_id), fates[1].get(request_id)) for request_id in ids]


def total_differences(left: Trace, right: Trace) -> list[TotalDifference]:
    """The figures of the whole run on both sides."""
    one, two = _totals(left), _totals(right)
    return [replace(a, right=b.left) for a, b in zip(one, two, strict=True)]


def verdict(left: Trace, right: Trace) -> str:
    """What the right side gains and loses against the left, in one sentence."""
    by_name = {total.name: total for total in total_differences(left, right)}
    parts = [
        _change(by_name["mean_ttft"], "the mean time to the first token", "shorter", "longer"),
        _change(by_name["worst_gap"], "the largest gap between two tokens of an answer", "shorter", "longer"),
        _change(by_name["duration"], "the whole run", "shorter", "longer"),
    ]
    changed = [part for part in parts if part]
    if not changed:
        return "Time to the first token, largest gap and length of the run are the same on both sides."
    return f"On the right, {_joined(changed)} than on the left."


# Where they part


Decision = tuple[object, ...]


def _decisions(record: TickRecord) -> tuple[object, object]:
    """What a tick decided, without the numbers that only accompany it."""
    batch = tuple((item.request_id, item.start, item.end) for item in record.output.scheduled)
    return batch, _by_request(record)


def _by_request(record: TickRecord) -> dict[str, set[Decision]]:
    found: dict[str, set[Decision]] = {}
    for decision in filter(None, map(_decision, record.events)):
        found.setdefault(str(decision[1]), set()).add(decision)
    return found


def _decision(event: Event) -> Decision | None:
    match event:
        case RequestAdmitted():
            return "admitted", event.request_id, event.hit_tokens
        case RequestPreempted():
            return "preempted", event.request_id, event.tokens_saved, event.tokens_lost
        case PrefixCacheQueried():
            return ("found", event.request_id, event.hit_tokens) if event.hit_tokens else None
        case LowerTierQueried():
            return ("loaded", event.request_id, event.hit_tokens) if event.hit_tokens else None
        case RequestRestored():
            return "restored", event.request_id, event.hit_tokens, event.tokens_copied
        case RequestFinished():
            return "finished", event.request_id, event.reason
        case RequestArrived() | RequestRefused():
            return type(event).__name__, event.request_id
        case _:
            return None


def _tokens(record: TickRecord) -> list[tuple[str, int]]:
    return [(event.request_id, event.token_id) for event in record.events if isinstance(event, TokenSampled)]


def _decided_otherwise(left: Trace, right: Trace, tick: int) -> FirstDifference:
    one, two = left.records[tick], right.records[tick]
    different = _different(one, two)
    if not different:
        return FirstDifference(tick, _order(one), _order(two))
    # The one sent first, whichever side is looked at first; what one side alone was sent comes last.
    sent = [[spec.id for spec in side.requests] for side in (left, right)]
    subject = min(different, key=lambda name: (max(_place(ids, name) for ids in sent), name))
    return FirstDifference(tick, _story(left, tick, subject, two), _story(right, tick, subject, one))


def _different(left: TickRecord, right: TickRecord) -> set[str]:
    """The requests whose fate differs most tellingly: those refused, preempted, let in, and so on, on one side only.

    Where the same happened to all, those of which more or less was computed, copied or found.
    """
    for kind in _TOLD:
        if different := _ids(left, kind) ^ _ids(right, kind):
            return different
    parts = [{(item.request_id, item.start, item.end) for item in side.output.scheduled} for side in (left, right)]
    if different := {request_id for request_id, _, _ in parts[0] ^ parts[1]}:
        return different
    one, two = _by_request(left), _by_request(right)
    return {request_id for request_id in one.keys() | two.keys() if one.get(request_id) != two.get(request_id)}


def _place(ids: Sequence[str], request_id: str) -> int:
    return ids.index(request_id) if request_id in ids else len(ids)


def _order(record: TickRecord) -> str:
    return f"The same was computed, in the order {', '.join(item.request_id for item in record.output.scheduled)}."


def _ids(record: TickRecord, kind: type[Any]) -> set[str]:
    return {event.request_id for event in record.events if isinstance(event, kind)}


def _story(trace: Trace, tick: int, request_id: str, other: TickRecord) -> str:
    """What one request did in a tick, or why it did nothing; what it met with on the other side too is left out."""
    record = trace.records[tick]
    item = next((item for item in record.output.scheduled if item.request_id == request_id), None)
    shared = _by_request(other).get(request_id, set())
    mine = [e for e in record.events if getattr(e, "request_id", None) == request_id and _decision(e) not in shared]
    event = min(filter(_can_be_told, mine), key=lambda event: _STORIES.index(type(event)), default=None)
    if event is not None and not (isinstance(event, RequestArrived) and item is not None):
        told = narrate(event, trace, tick)
        # These say how a request came in, not what was then computed.
        entered = isinstance(event, (RequestAdmitted, RequestRestored, PrefixCacheQueried, LowerTierQueried))
        done = f" {_work(item, trace, record)}" if item and entered else ""
        return f"{told.lead} {told.text}".strip() + done
    if item is not None:
        return _work(item, trace, record)
    return _idleness(trace, tick, request_id)


def _can_be_told(event: Event) -> bool:
    """A lookup that found nothing is no story."""
    is_lookup = isinstance(event, (PrefixCacheQueried, LowerTierQueried))
    return type(event) in _STORIES and not (is_lookup and _decision(event) is None)


def _work(item: ScheduledRequest, trace: Trace, record: TickRecord) -> str:
    if item.is_decode:
        return f"{item.request_id} generated a token."
    return chunk_story(item, trace, drawn_texts(record))


def _idleness(trace: Trace, tick: int, request_id: str) -> str:
    if request_id not in [spec.id for spec in trace.requests]:
        return f"There is no {request_id} on this side."
    now = request_in(trace.records[tick], request_id)
    if now is None:
        has_ended = any(request_in(record, request_id) for record in trace.records[:tick])
        return f"{request_id} {'had ended before' if has_ended else 'had not arrived yet'}."
    if now.status is RequestStatus.RUNNING:
        return f"{request_id} kept its lane, but nothing of it was computed."
    return f"{request_id} was waiting."


def _said_otherwise(left: TickRecord, right: TickRecord) -> FirstDifference:
    texts = [[(e.request_id, e.text) for e in side.events if isinstance(e, TokenSampled)] for side in (left, right)]
    (who, one), (_, two) = next((a, b) for a, b in zip(*texts, strict=True) if a != b)
    return FirstDifference(left.tick, f"{who} said “{one}”.", f"{who} said “{two}”.")


def _span(record: TickRecord) -> str:
    return f"The same was computed, in {duration(record.end - record.start)}, from second {number(record.start)} on."


def _end_or_story(trace: Trace, tick: int) -> str:
    if tick >= len(trace.records):
        return f"The run had ended with tick {len(trace.records) - 1}."
    scheduled = trace.records[tick].output.scheduled
    if scheduled:
        return f"The run went on: {_work(scheduled[0], trace, trace.records[tick])}"
    return "The run went on."


# Figures


def _fates(trace: Trace) -> dict[str, Fate]:
    arrivals = {spec.id: spec.arrival_time for spec in trace.requests}
    return {figures.id: _fate(figures, arrivals[figures.id]) for figures in request_metrics(trace)}


def _fate(figures: RequestMetrics, arrival: float) -> Fate:
    return Fate(
        ttft_s=figures.ttft_s,
        worst_gap_s=figures.worst_gap_s,
        recomputed_tokens=figures.recomputed_tokens or 0,
        preemptions=figures.num_preemptions,
        cached_tokens=figures.num_cached_tokens,
        finish_s=None if figures.e2e_s is None else arrival + figures.e2e_s,
        finish_reason=figures.finish_reason,
        output_token_ids=figures.output_token_ids,
    )


def _totals(trace: Trace) -> list[TotalDifference]:
    figures = request_metrics(trace)
    waits = [m.ttft_s for m in figures if m.ttft_s is not None]
    gaps = [m.worst_gap_s for m in figures if m.worst_gap_s is not None]
    whole = totals(trace)
    rows: list[tuple[str, float | None, bool]] = [
        ("mean_ttft", sum(waits) / len(waits) if waits else None, True),
        ("median_ttft", percentile(waits, 50), True),
        ("worst_ttft", max(waits, default=None), True),
        ("worst_gap", max(gaps, default=None), True),
        ("duration", whole["virtual_seconds"], True),
        ("ticks", whole["ticks"], False),
        ("completed", sum(m.is_completed for m in figures), False),
        ("preemptions", whole["preemptions"], False),
        ("recomputed_tokens", whole["recomputed_tokens"], False),
        ("hit_tokens", whole["hit_tokens"], False),
        ("bytes_saved", whole["bytes_saved"], False),
    ]
    return [TotalDifference(name, value, None, is_time) for name, value, is_time in rows]


def _change(total: TotalDifference, what: str, less: str, more: str) -> str:
    """Says "the whole run is 3 seconds shorter"; "" where nothing changed or one side has no such figure."""
    if total.left is None or total.right is None or number(total.left) == number(total.right):
        return ""
    change = total.right - total.left
    return f"{what} is {duration(abs(change))} {less if change < 0 else more}"


def _joined(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])}, and {parts[-1]}"


def settings_changed(left: Trace, right: Trace) -> bool:
    """Whether the two runs were asked for different things: other settings, then or later, or other requests."""
    changes = [[e for r in side.records for e in r.events if isinstance(e, ConfigChanged)] for side in (left, right)]
    return left.config != right.config or changes[0] != changes[1] or left.requests != right.requests

"""A run as a file for the Perfetto viewer (ui.perfetto.dev): requests and ticks as tracks, decisions as marks.

Source: the Trace Event Format of Chrome, the JSON that Perfetto reads: "X" complete slices, "i" instants, "C" counters,
"M" metadata; `ts` and `dur` are microseconds, here of virtual time in steps of a nanosecond.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from scheduler_core.events import (
    BlockEvicted,
    ChunkSteered,
    ConfigChanged,
    Event,
    FaultInjected,
    FaultSwitchedOn,
    LawBroken,
    LowerTierQueried,
    RequestAdmitted,
    RequestArrived,
    RequestFinished,
    RequestPreempted,
    RequestRefused,
    RequestRestored,
    RequestSkipped,
    SliceExpired,
    TokenSampled,
)
from scheduler_core.lookup import require_full
from scheduler_core.narration import narrate
from scheduler_core.steering_story import NAMES
from scheduler_core.trace import TickRecord, Trace
from scheduler_core.whereabouts import Place, Stay, end_of, stays

#: Numbers that no track has: the viewer takes a thread with the number of its process for the main one.
REQUESTS, SCHEDULER = 1_000_001, 1_000_002
TICKS = 1

_NAMES = {
    Place.QUEUED: "waiting",
    Place.PREFILL: "reading",
    Place.DECODE: "generating",
    Place.SKIPPED: "left out",
    Place.PREEMPTED: "preempted",
}

#: What is worth a mark; the rest is in the slices.
_DECISIONS = (
    RequestArrived,
    RequestRefused,
    RequestAdmitted,
    RequestSkipped,
    SliceExpired,
    RequestPreempted,
    RequestRestored,
    BlockEvicted,
    RequestFinished,
    ConfigChanged,
    FaultInjected,
    FaultSwitchedOn,
    LawBroken,
)

Fields = dict[str, Any]


def to_perfetto(trace: Trace) -> str:
    """The file, the same text for the same trace; raises `TraceError` for a trace of aggregates."""
    require_full(trace)
    document = {
        "displayTimeUnit": "ms",
        "otherData": {"title": trace.title, "scenario": trace.scenario, "clock": f"virtual, cost {trace.config.cost}"},
        "traceEvents": perfetto_events(trace),
    }
    return json.dumps(document, ensure_ascii=True, separators=(",", ":"))


def perfetto_events(trace: Trace) -> list[Fields]:
    """Metadata first, then everything in order of time."""
    threads = {spec.id: number for number, spec in enumerate(trace.requests, 1)}
    timed = [*_request_slices(trace, threads), *_tick_slices(trace), *_marks(trace, threads), *_counters(trace)]
    return [*_metadata(threads), *sorted(timed, key=lambda event: event["ts"])]


def _metadata(threads: dict[str, int]) -> Iterator[Fields]:
    named = [(REQUESTS, number, request_id) for request_id, number in threads.items()]
    for pid, name in ((REQUESTS, "Requests"), (SCHEDULER, "Scheduler")):
        yield {"ph": "M", "pid": pid, "name": "process_name", "args": {"name": name}}
        yield {"ph": "M", "pid": pid, "name": "process_sort_index", "args": {"sort_index": -pid}}
    for pid, tid, name in [*named, (SCHEDULER, TICKS, "Ticks")]:
        yield {"ph": "M", "pid": pid, "tid": tid, "name": "thread_name", "args": {"name": name}}
        yield {"ph": "M", "pid": pid, "tid": tid, "name": "thread_sort_index", "args": {"sort_index": tid}}


def _request_slices(trace: Trace, threads: dict[str, int]) -> Iterator[Fields]:
    """A slice for every tick in the batch; waits that follow one another are one."""
    open_waits: dict[str, list[Stay]] = {}
    for stay in stays(trace):
        waits = open_waits.setdefault(stay.request_id, [])
        if waits and (stay.item is not None or stay.place is not waits[0].place or stay.start != waits[-1].end):
            yield _wait(waits, threads)
            waits.clear()
        if stay.item is None:
            waits.append(stay)
        else:
            yield _work(stay, threads)
    for waits in open_waits.values():
        if waits:
            yield _wait(waits, threads)


def _wait(waits: list[Stay], threads: dict[str, int]) -> Fields:
    first, last = waits[0], waits[-1]
    args = {"from tick": first.record.tick, "to tick": last.record.tick}
    name = _NAMES[first.place]
    return _slice(REQUESTS, threads[first.request_id], "request", name, first.start, last.end, args)


def _work(stay: Stay, threads: dict[str, int]) -> Fields:
    item = stay.item
    assert item is not None
    name = _NAMES[stay.place]
    args: Fields = {"tick": stay.record.tick, "tokens": item.num_tokens, "position": item.start}
    if item.recomputed_tokens:
        args["recomputed tokens"] = item.recomputed_tokens
        name = "recomputing"
    for event in stay.record.events:
        if isinstance(event, RequestRestored) and event.request_id == stay.request_id and event.blocks_copied:
            name = "restoring"
            args["tokens copied back"] = event.tokens_copied
        if isinstance(event, LowerTierQueried) and event.request_id == stay.request_id and event.hit_tokens:
            name = "loading"
            args[f"tokens from {event.tier}"] = event.hit_tokens
        if isinstance(event, TokenSampled) and event.request_id == stay.request_id:
            args["generated"] = event.text
    return _slice(REQUESTS, threads[stay.request_id], "request", name, stay.start, stay.end, args)


def _tick_slices(trace: Trace) -> Iterator[Fields]:
    for record in trace.records:
        args = {
            "requests": len(record.output.scheduled),
            "tokens": record.output.num_scheduled_tokens,
            "measured ms": round(record.wall_seconds * 1_000, 3),
        }
        name = f"tick {record.tick}, idle" if record.is_idle else f"tick {record.tick}"
        yield _slice(SCHEDULER, TICKS, "tick", name, record.start, record.end, args)


def _marks(trace: Trace, threads: dict[str, int]) -> Iterator[Fields]:
    for record in trace.records:
        for event in record.events:
            if isinstance(event, _DECISIONS):
                yield _mark(trace, record, event, threads)


def _mark(trace: Trace, record: TickRecord, event: Event, threads: dict[str, int]) -> Fields:
    """An instant on the track of its request, or of the ticks."""
    told = narrate(event, trace, record.tick)
    request_id = getattr(event, "request_id", "") or getattr(event, "for_request", "")
    pid, tid = (REQUESTS, threads[request_id]) if request_id else (SCHEDULER, TICKS)
    return {
        "ph": "i",
        "s": "t",
        "pid": pid,
        "tid": tid,
        "ts": _micros(_moment(trace, record, event)),
        "cat": "decision",
        "name": told.lead,
        "args": {"tick": record.tick, "why": told.text, "event": type(event).__name__},
    }


def _moment(trace: Trace, record: TickRecord, event: Event) -> float:
    """Decisions fall as a tick begins; what came of it, as it ends."""
    match event:
        case RequestArrived():
            return trace.request(event.request_id).arrival_time
        case RequestFinished():
            return end_of(event, record, trace.request(event.request_id).arrival_time)
        case SliceExpired() | LawBroken():
            return record.end
        case _:
            return record.start


def _counters(trace: Trace) -> Iterator[Fields]:
    """Levels as of the end of each tick."""
    if trace.records:
        yield from _levels(trace.records[0].start, (0, 0), (0, 0))
    for record in trace.records:
        counts = record.counts
        yield from _levels(record.end, (counts.waiting, counts.running), (counts.used_blocks, counts.cached_blocks))
        for event in record.events:
            if isinstance(event, ChunkSteered):
                yield _size(record, event)


def _size(record: TickRecord, event: ChunkSteered) -> Fields:
    """What chunk control had set for that tick."""
    base = {"ph": "C", "pid": SCHEDULER, "ts": _micros(record.start)}
    return {**base, "name": NAMES[event.setting].capitalize(), "args": {"tokens": event.old}}


def _levels(time: float, requests: Iterable[int], blocks: Iterable[int]) -> Iterator[Fields]:
    base = {"ph": "C", "pid": SCHEDULER, "ts": _micros(time)}
    names = ("Waiting", "requests"), ("Running", "requests"), ("KV in use", "blocks"), ("KV findable", "blocks")
    for (name, unit), level in zip(names, (*requests, *blocks), strict=True):
        yield {**base, "name": name, "args": {unit: level}}


def _slice(pid: int, tid: int, category: str, name: str, start: float, end: float, args: Fields) -> Fields:
    return {
        "ph": "X",
        "pid": pid,
        "tid": tid,
        "ts": _micros(start),
        "dur": (_nanos(end) - _nanos(start)) / 1_000,
        "cat": category,
        "name": name,
        "args": args,
    }


def _nanos(seconds: float) -> int:
    return round(seconds * 1e9)


def _micros(seconds: float) -> float:
    return _nanos(seconds) / 1_000

"""A recorded run as the stage wants it: short strings of digits, a few hundred kilobytes at most.

Numbers travel as variable-length digits of a 64-letter alphabet, five bits a letter, and columns as runs, so a
value that stands still for 500 ticks costs three letters. `assets/player/codec.js` is the other half.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

from scheduler_core.config import EngineConfig
from scheduler_core.events import (
    BlockEvicted,
    ConfigChanged,
    Event,
    FaultInjected,
    LawBroken,
    LowerTierQueried,
    PreemptReason,
    PrefixCacheQueried,
    RequestAdmitted,
    RequestArrived,
    RequestFinished,
    RequestPreempted,
    RequestRefused,
    RequestRestored,
    SliceExpired,
    TokenSampled,
)
from scheduler_core.lookup import configs
from scheduler_core.narration import narrate_tick
from scheduler_core.request import FinishReason, RequestStatus
from scheduler_core.sentence import KINDS, Sentence
from scheduler_core.trace import TickRecord, Trace

VERSION = 1

#: Sentences of a tick that travel; the rest is counted, and listed in the table of events.
MAX_SENTENCES = 6
#: The order of the queue travels down to this place; the number of those waiting is always exact.
MAX_QUEUE = 64
#: Letters of a prompt that travel for tooltips.
MAX_PROMPT = 160

_DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
_WHERE = {
    RequestStatus.WAITING: 1,
    RequestStatus.RUNNING: 2,
    RequestStatus.PREEMPTED: 3,
    RequestStatus.FINISHED: 4,
}
_FINISHED = _WHERE[RequestStatus.FINISHED]
_FINISH_REASONS = tuple(FinishReason)
_PREEMPT_REASONS = tuple(PreemptReason)
_LEVELS = ("where", "scheduled", "again", "hit", "low", "slice", "saved", "class", "preemptions")
_RAMPS = ("computed", "waited")
_SETTINGS = (
    "max_num_batched_tokens",
    "max_num_seqs",
    "quantum",
    "chunk_size",
    "enable_chunked_prefill",
    "chunk_control",
    "chunk_moves",
    "enable_prefix_caching",
    "policy",
    "preemption_mode",
)


def pack(numbers: Iterable[int]) -> str:
    """Whole numbers from 0 up as letters, the low five bits first; 32 is added while more follow."""
    letters = []
    for number in numbers:
        while number > 31:
            letters.append(_DIGITS[32 + (number & 31)])
            number >>= 5
        letters.append(_DIGITS[number])
    return "".join(letters)


def pack_levels(values: Iterable[int]) -> str:
    """A column as runs: value, length, value, length, ..."""
    return pack(item for value, run in groupby(values) for item in (value, sum(1 for _ in run)))


def pack_ramps(values: Sequence[int]) -> str:
    """A column as runs of equal steps from 0: what grows by one a tick costs no more than what stands still."""
    steps = (value - before for before, value in zip((0, *values), values, strict=False))
    return pack_levels(2 * step if step >= 0 else -2 * step - 1 for step in steps)


def payload(trace: Trace) -> dict[str, Any]:
    """Everything the stage draws, derived from the recorded ticks alone; the same for the same trace."""
    if any(record.snapshot is None for record in trace.records):
        return {"v": VERSION, "message": "This run was recorded as a summary, so there are no ticks to play."}
    return {
        "v": VERSION,
        "title": trace.title or trace.scenario,
        "ticks": len(trace.records),
        "blocks": trace.config.num_blocks,
        "block_size": trace.config.block_size,
        "host_blocks": trace.config.num_swap_blocks,
        "unit": trace.config.cost == "unit",
        "backend": _backend(trace),
        "settings": _settings(trace),
        "requests": _requests(trace),
        "tiers": _tiers(trace),
        **_columns(trace),
        **_orders(trace),
        **_blocks(trace),
        **_clocks(trace),
        "events": _events(trace),
        **_narration(trace),
    }


def _backend(trace: Trace) -> dict[str, Any]:
    backend = trace.backend
    return {
        "kind": backend.kind,
        "recorded_kind": backend.recorded_kind,
        "model": backend.model,
        "device": backend.device,
        "bytes_per_token": backend.kv_bytes_per_token,
    }


def _settings(trace: Trace) -> list[list[Any]]:
    """The settings that are drawn: those at the start, then after each change, with the tick of the change."""
    found = [[0, _drawn_settings(trace.config_at(0) if trace.records else trace.config)]]
    for tick, config in enumerate(configs(trace)):
        drawn = _drawn_settings(config)
        if drawn != found[-1][1]:
            found.append([tick, drawn])
    return found


def _tiers(trace: Trace) -> list[str]:
    """The tiers below memory from which something was loaded, in the order in which they first gave something."""
    events = (event for record in trace.records for event in record.events if isinstance(event, LowerTierQueried))
    return list(dict.fromkeys(event.tier for event in events if event.hit_tokens))


def _drawn_settings(config: EngineConfig) -> dict[str, Any]:
    return {name: getattr(config, name) for name in _SETTINGS}


def _requests(trace: Trace) -> list[dict[str, Any]]:
    """The fixed facts of each request, and the pieces of text that it generates."""
    pieces: dict[str, list[str]] = {spec.id: [] for spec in trace.requests}
    samples: dict[str, list[int]] = {spec.id: [] for spec in trace.requests}
    for record in trace.records:
        for event in record.events:
            if isinstance(event, TokenSampled):
                pieces[event.request_id].append(event.text)
                samples[event.request_id].append(record.tick)
    longest = trace.config.max_model_len
    return [
        {
            "id": spec.id,
            "prompt": len(spec.prompt_token_ids),
            "limit": min(len(spec.prompt_token_ids) + spec.sampling.max_tokens, longest),
            "priority": spec.priority,
            "words": spec.prompt[:MAX_PROMPT],
            "pieces": pieces[spec.id],
            "samples": pack(_steps(samples[spec.id])),
        }
        for spec in trace.requests
    ]


def _steps(rising: Sequence[int]) -> list[int]:
    return [value - before for before, value in zip((0, *rising), rising, strict=False)]


def _columns(trace: Trace) -> dict[str, list[str]]:
    """A column a request and quantity; a finished request keeps its last values."""
    table = {name: [[0] * len(trace.records) for _ in trace.requests] for name in (*_LEVELS, *_RAMPS)}
    index = {spec.id: number for number, spec in enumerate(trace.requests)}
    hits, lows = [0] * len(trace.requests), [0] * len(trace.requests)
    for record in trace.records:
        _fill_snapshot(table, index, record, len(trace.records))
        _fill_batch(table, index, record)
        for event in record.events:
            if isinstance(event, RequestAdmitted):
                hits[index[event.request_id]] = event.hit_tokens
            elif isinstance(event, LowerTierQueried):
                lows[index[event.request_id]] += event.hit_tokens
            elif isinstance(event, RequestPreempted):
                hits[index[event.request_id]] = lows[index[event.request_id]] = 0
            elif isinstance(event, RequestRefused):
                row = index[event.request_id]
                table["where"][row][record.tick :] = [_FINISHED] * (len(trace.records) - record.tick)
        for row, (hit, low) in enumerate(zip(hits, lows, strict=True)):
            table["hit"][row][record.tick] = hit
            table["low"][row][record.tick] = low
    packed = {name: [pack_levels(column) for column in table[name]] for name in _LEVELS}
    return packed | {name: [pack_ramps(column) for column in table[name]] for name in _RAMPS}


def _fill_snapshot(table: dict[str, list[list[int]]], index: dict[str, int], record: TickRecord, length: int) -> None:
    assert record.snapshot is not None
    tick = record.tick
    for state in record.snapshot.requests:
        row = index[state.id]
        values = {
            "where": _WHERE[state.status],
            "computed": state.num_computed_tokens,
            "slice": state.slice_used,
            "saved": state.saved_tokens,
            "class": state.key_class,
            "waited": state.waited_ticks,
            "preemptions": state.num_preemptions,
        }
        for name, value in values.items():
            table[name][row][tick] = value
        if state.status is RequestStatus.FINISHED:
            for name, value in values.items():
                table[name][row][tick:] = [value] * (length - tick)


def _fill_batch(table: dict[str, list[list[int]]], index: dict[str, int], record: TickRecord) -> None:
    """Scheduled tokens, doubled, plus one for a decode; computed tokens as the batch would leave them."""
    for item in record.output.scheduled:
        row = index[item.request_id]
        table["scheduled"][row][record.tick] = 2 * item.num_tokens + item.is_decode
        table["again"][row][record.tick] = item.recomputed_tokens
        if table["where"][row][record.tick] == _FINISHED:
            table["computed"][row][record.tick :] = [item.end] * (len(table["computed"][row]) - record.tick)
        else:
            table["computed"][row][record.tick] = item.end


def _orders(trace: Trace) -> dict[str, str]:
    """Queue, lanes and batch as lists of request numbers, written down in the ticks in which they change."""
    index = {spec.id: number for number, spec in enumerate(trace.requests)}
    queues, lanes, batches = [], [], []
    for record in trace.records:
        assert record.snapshot is not None
        queues.append([index[name] for name in record.snapshot.waiting[:MAX_QUEUE]])
        lanes.append([index[name] for name in record.snapshot.running])
        batches.append([index[item.request_id] for item in record.output.scheduled])
    return {"queue": _pack_lists(queues), "running": _pack_lists(lanes), "batch": _pack_lists(batches)}


def _pack_lists(lists: Sequence[Sequence[int]]) -> str:
    """Lists that rarely change: ticks since the last change, length, items."""
    numbers: list[int] = []
    last: tuple[int, ...] = ()
    last_tick = 0
    for tick, items in enumerate(map(tuple, lists)):
        if items != last:
            numbers += [tick - last_tick, len(items), *items]
            last_tick, last = tick, items
    return pack(numbers)


def _blocks(trace: Trace) -> dict[str, Any]:
    """Block tables by request, published blocks, promised and host blocks, all as changes."""
    last: dict[str, tuple[int, ...]] = {spec.id: () for spec in trace.requests}
    changes: dict[str, list[int]] = {spec.id: [] for spec in trace.requests}
    changed_at = dict.fromkeys(last, 0)
    for record in trace.records:
        assert record.snapshot is not None
        seen = {state.id: state.block_ids for state in record.snapshot.requests}
        for name, table in last.items():
            now = seen.get(name, ())
            if now != table:
                keep = _common_length(table, now)
                changes[name] += [record.tick - changed_at[name], keep, len(now) - keep, *now[keep:]]
                changed_at[name], last[name] = record.tick, now
    snapshots = [record.snapshot for record in trace.records if record.snapshot is not None]
    return {
        "tables": [pack(changes[spec.id]) for spec in trace.requests],
        "published": _pack_sets([snapshot.published_blocks for snapshot in snapshots]),
        "promised": pack_levels(snapshot.promised_blocks for snapshot in snapshots),
        "host_used": pack_levels(snapshot.host_blocks_used for snapshot in snapshots),
    }


def _common_length(one: Sequence[int], other: Sequence[int]) -> int:
    length = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        length += 1
    return length


def _pack_sets(sets: Sequence[Sequence[int]]) -> str:
    """Sets that change by a few members: ticks since the last change, how many toggle, which."""
    numbers: list[int] = []
    last_tick, last = 0, frozenset[int]()
    for tick, members in enumerate(map(frozenset, sets)):
        toggled = sorted(members ^ last)
        if toggled:
            numbers += [tick - last_tick, len(toggled), *toggled]
            last_tick, last = tick, members
    return pack(numbers)


def _clocks(trace: Trace) -> dict[str, str]:
    """Virtual start and length of each tick and its measured length, in microseconds."""
    starts = [round(record.start * 1e6) for record in trace.records]
    return {
        "start": pack(_steps(starts)),
        "length": pack_levels(round((record.end - record.start) * 1e6) for record in trace.records),
        "wall": pack_levels(round(record.wall_seconds * 1e6) for record in trace.records),
    }


def _events(trace: Trace) -> str:
    """Events that are marked: ticks since the last, kind, request number plus one, and a number of the kind."""
    index = {spec.id: number for number, spec in enumerate(trace.requests)}
    numbers: list[int] = []
    last_tick = 0
    for record in trace.records:
        for event in record.events:
            mark = _mark(event)
            if mark is not None:
                kind, name, number = mark
                numbers += [record.tick - last_tick, kind, index.get(name, -1) + 1, number]
                last_tick = record.tick
    return pack(numbers)


def _mark(event: Event) -> tuple[int, str, int] | None:
    """The kind's number in `assets/player/run.js`, the request and what the tooltip needs."""
    match event:
        case RequestArrived():
            return 0, event.request_id, event.num_prompt_tokens
        case RequestRefused():
            return 1, event.request_id, 0
        case PrefixCacheQueried(hit_tokens=hit) if hit > 0:
            return 2, event.request_id, hit
        case RequestAdmitted():
            return 3, event.request_id, int(event.resumed)
        case RequestPreempted():
            return 4, event.request_id, _PREEMPT_REASONS.index(event.reason)
        case RequestRestored():
            return 5, event.request_id, event.tokens_copied
        case RequestFinished():
            return 6, event.request_id, _FINISH_REASONS.index(event.reason)
        case ConfigChanged():
            return 7, "", len(event.changes)
        case FaultInjected():
            return 8, event.request_id, 0
        case LawBroken():
            return 8, "", 0
        case SliceExpired():
            return 9, event.request_id, event.quantum
        case BlockEvicted():
            return 10, event.for_request, event.block_id
        case LowerTierQueried(hit_tokens=hit) if hit > 0:
            return 11, event.request_id, hit
    return None


def _narration(trace: Trace) -> dict[str, Any]:
    """Each different sentence once, and by tick how many there are and which."""
    index = {spec.id: number for number, spec in enumerate(trace.requests)}
    lines: dict[Sentence, int] = {}
    numbers: list[int] = []
    for record in trace.records:
        told = narrate_tick(trace, record.tick)
        shown = told[:MAX_SENTENCES]
        numbers += [len(told), len(shown), *(lines.setdefault(sentence, len(lines)) for sentence in shown)]
    return {
        "kinds": list(KINDS),
        "lines": [[KINDS.index(line.kind), index.get(line.request_id, -1) + 1, line.lead, line.text] for line in lines],
        "told": pack(numbers),
    }

"""Traces made by hand, tick by tick, and small engine runs, for the tests of the views."""

from __future__ import annotations

from collections.abc import Sequence

from scheduler_core.config import EngineConfig
from scheduler_core.events import Event, TokenSampled
from scheduler_core.output import BlockCopy, ScheduledRequest, SchedulerOutput
from scheduler_core.request import RequestSpec, RequestStatus, SamplingParams
from scheduler_core.trace import SCHEMA_VERSION, Backend, Counts, RequestSnapshot, Snapshot, TickRecord, Trace


def spec(request_id: str, prompt: int = 8, max_tokens: int = 4, arrival: float = 0.0, priority: int = 0) -> RequestSpec:
    """A request whose token ids are 100, 101, ..."""
    ids = tuple(range(100, 100 + prompt))
    return RequestSpec(request_id, ids, SamplingParams(max_tokens=max_tokens), arrival, priority)


def item(
    request_id: str, start: int, count: int, samples: bool = False, index: int = 0, recomputed: int = 0
) -> ScheduledRequest:
    """`count` tokens of a request from position `start`."""
    return ScheduledRequest(request_id, tuple(range(count)), start, (), samples, index, SamplingParams(), 0, recomputed)


def decode(request_id: str, start: int, index: int) -> ScheduledRequest:
    """One decoded token: output number `index`."""
    return item(request_id, start, 1, samples=True, index=index)


def sampled(request_id: str, index: int, text: str = "word") -> TokenSampled:
    return TokenSampled(request_id, index, 7, text, ())


def state(request_id: str, status: RequestStatus = RequestStatus.RUNNING, **changes: object) -> RequestSnapshot:
    """A request as of the end of a tick; any field can be given."""
    fields: dict[str, object] = {
        "id": request_id,
        "status": status,
        "finish_reason": None,
        "num_prompt_tokens": 8,
        "num_tokens": 8,
        "num_computed_tokens": 0,
        "num_cached_tokens": 0,
        "max_computed_tokens": 0,
        "num_preemptions": 0,
        "key_class": 0,
        "queue_number": 1,
        "slice_used": 0,
        "waited_ticks": 0,
        "saved_tokens": 0,
        "block_ids": (),
    }
    return RequestSnapshot(**(fields | changes))  # type: ignore[arg-type]


def snapshot(
    *requests: RequestSnapshot, running: Sequence[str] = (), waiting: Sequence[str] = (), **changes: object
) -> Snapshot:
    fields: dict[str, object] = {
        "free_blocks": (),
        "published_blocks": (),
        "promised_blocks": 0,
        "host_blocks_used": 0,
    }
    return Snapshot(requests, tuple(waiting), tuple(running), **(fields | changes))  # type: ignore[arg-type]


def tick(
    number: int,
    *items: ScheduledRequest,
    events: Sequence[Event] = (),
    snap: Snapshot | None = None,
    start: float | None = None,
    end: float | None = None,
    wall: float = 0.0,
    copies_out: Sequence[BlockCopy] = (),
) -> TickRecord:
    """A tick of one second unless `start` and `end` are given."""
    snap = snap or snapshot()
    begin = float(number) if start is None else start
    return TickRecord(
        number,
        begin,
        begin + 1.0 if end is None else end,
        wall,
        SchedulerOutput(number, items, tuple(copies_out)),
        tuple(events),
        Counts(len(snap.waiting), len(snap.running), 0, 0, sum(i.num_tokens for i in items)),
        snap,
    )


def trace(specs: Sequence[RequestSpec], *records: TickRecord, config: EngineConfig | None = None) -> Trace:
    texts = {token_id: f"t{token_id}" for s in specs for token_id in s.prompt_token_ids}
    backend = Backend("synthetic", kv_bytes_per_token=1024)
    return Trace(SCHEMA_VERSION, "", "", config or EngineConfig(), backend, tuple(specs), texts, tuple(records))

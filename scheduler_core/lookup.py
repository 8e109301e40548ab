"""Finding things in a trace: a tick, a request at a tick, the settings of every tick."""

from __future__ import annotations

from scheduler_core.chunk_range import in_force, is_steered
from scheduler_core.config import EngineConfig
from scheduler_core.errors import TraceError
from scheduler_core.events import ChunkSteered, ConfigChanged
from scheduler_core.request import RequestSpec
from scheduler_core.trace import RequestSnapshot, TickRecord, Trace
from scheduler_core.words import names


def record_at(trace: Trace, tick: int) -> TickRecord:
    """The record of a tick; raises `TraceError` with the bounds."""
    if not trace.records:
        raise TraceError(f"there is no tick {tick}; this run has not begun")
    if not 0 <= tick < len(trace.records):
        raise TraceError(f"there is no tick {tick}; this run has ticks 0 to {len(trace.records) - 1}")
    return trace.records[tick]


def spec_of(trace: Trace, request_id: str) -> RequestSpec:
    """The request of that id; raises `TraceError` naming those there are."""
    try:
        return trace.request(request_id)
    except KeyError:
        known = names([spec.id for spec in trace.requests])
        raise TraceError(f"there is no request {request_id!r} in this run, but {known}") from None


def request_in(record: TickRecord, request_id: str) -> RequestSnapshot | None:
    """The request as of the end of that tick; None if it was not there or the record keeps no snapshot."""
    requests = record.snapshot.requests if record.snapshot else ()
    return next((request for request in requests if request.id == request_id), None)


def request_before(trace: Trace, tick: int, request_id: str) -> RequestSnapshot | None:
    """The request as of the end of the tick before."""
    return request_in(trace.records[tick - 1], request_id) if tick else None


def configs(trace: Trace) -> list[EngineConfig]:
    """The configuration in force in every tick: the settings, with what chunk control has made of them."""
    config, result = trace.config, []
    size: int | None = None
    for record in trace.records:
        after = None
        for event in record.events:
            if isinstance(event, ConfigChanged):
                new = {name: EngineConfig.parse_field(name, text) for name, _, text in event.changes}
                config = config.replace(**new)
            elif isinstance(event, ChunkSteered):
                size, after = event.old, event.new
        result.append(in_force(config, size) if is_steered(config) else config)
        size = size if after is None else after
    return result


def is_full(trace: Trace) -> bool:
    """Whether every batch, event and snapshot was recorded."""
    return all(record.snapshot is not None for record in trace.records)


def require_full(trace: Trace) -> None:
    """Raises `TraceError` for a trace of aggregates."""
    if not is_full(trace):
        raise TraceError('the trace keeps aggregates only (record="summary"); record it in full to see this')

"""Where every request is in every tick, from its arrival to its end: the stays that add up to its latency."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from scheduler_core.events import RequestAdmitted, RequestFinished, RequestPreempted
from scheduler_core.output import ScheduledRequest
from scheduler_core.request import FinishReason, RequestSpec
from scheduler_core.trace import TickRecord, Trace

COMPLETED = (FinishReason.STOP, FinishReason.LENGTH)


class Place(Enum):
    """In the queue for its first lane; in the batch, reading or generating; in a lane but left out; out of its lane."""

    QUEUED = "queued"
    PREFILL = "prefill"
    DECODE = "decode"
    SKIPPED = "skipped"
    PREEMPTED = "preempted"


@dataclass(frozen=True, slots=True)
class Stay:
    """One request in one tick, from `start` to `end` in virtual time; `item` is its part of the batch, if any."""

    request_id: str
    record: TickRecord
    place: Place
    start: float
    end: float
    item: ScheduledRequest | None

    @property
    def seconds(self) -> float:
        return self.end - self.start


def end_of(event: RequestFinished, record: TickRecord, arrival_time: float) -> float:
    """A request ends with the tick that computed its last token; one that took no part ends as the tick begins."""
    took_part = event.reason in COMPLETED or any(
        item.request_id == event.request_id for item in record.output.scheduled
    )
    return max(record.end if took_part else record.start, arrival_time)


def stays(trace: Trace) -> Iterator[Stay]:
    """All stays of more than no time, tick by tick; those of one request follow one another without a gap."""
    live = {spec.id: spec for spec in trace.requests}
    places = dict.fromkeys(live, Place.QUEUED)
    for record in trace.records:
        ends: dict[str, float] = {}
        for event in record.events:
            match event:
                case RequestAdmitted():
                    places[event.request_id] = Place.SKIPPED
                case RequestPreempted():
                    places[event.request_id] = Place.PREEMPTED
                case RequestFinished():
                    ends[event.request_id] = end_of(event, record, live[event.request_id].arrival_time)
                case _:
                    pass
        yield from _in_tick(record, live, places, ends)
        for request_id in ends:
            del live[request_id]


def _in_tick(
    record: TickRecord, live: dict[str, RequestSpec], places: dict[str, Place], ends: dict[str, float]
) -> Iterator[Stay]:
    items = {item.request_id: item for item in record.output.scheduled}
    for request_id, spec in live.items():
        start, end = max(record.start, spec.arrival_time), ends.get(request_id, record.end)
        if end <= start:
            continue
        item = items.get(request_id)
        place = places[request_id] if item is None else Place.DECODE if item.is_decode else Place.PREFILL
        yield Stay(request_id, record, place, start, end, item)

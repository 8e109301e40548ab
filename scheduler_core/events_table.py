"""All events of a run as rows for people, and for a spreadsheet."""

from __future__ import annotations

from dataclasses import dataclass

from scheduler_core.lookup import require_full
from scheduler_core.narration import narrate
from scheduler_core.trace import Trace


@dataclass(frozen=True, slots=True)
class EventRow:
    """One event: `time` is the start of its tick in virtual seconds, `event` its name, `text` what happened."""

    tick: int
    time: float
    request: str
    event: str
    text: str


def events_table(trace: Trace) -> list[EventRow]:
    """Every event in order."""
    require_full(trace)
    rows = []
    for record in trace.records:
        for event in record.events:
            sentence = narrate(event, trace, record.tick)
            rows.append(EventRow(record.tick, record.start, sentence.request_id, type(event).__name__, sentence.whole))
    return rows

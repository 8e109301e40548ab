"""A place in a run that a lesson names by what happens there, so that it is found again after a new recording."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Self

from scheduler_core.errors import LessonError
from scheduler_core.events import EVENT_TYPES
from scheduler_core.trace import TickRecord, Trace

_KEYS = ("tick", "event", "request", "nth", "shift")
_WRITTEN = re.compile(
    r"(?:(?P<shift_only>[+-]\d+)|(?P<tick>\d+|last)|(?P<event>[A-Z][A-Za-z]+)(?:\.(?P<request>[^#+\s]+?))?"
    r"(?:#(?P<nth>\d+))?(?P<shift>[+-]\d+)?)"
)


@dataclass(frozen=True, slots=True)
class Stop:
    """The tick of the `nth` event of a name (of a request, if one is given) or a tick by number, and `shift` ticks on.

    A negative `tick` counts from the end of the run. With neither tick nor event it is relative to `here`.
    """

    tick: int | None = None
    event: str = ""
    request: str = ""
    nth: int = 1
    shift: int = 0

    @classmethod
    def of(cls, value: object) -> Self:
        """What a lesson says under `stop`: a tick, or a table; raises `LessonError`."""
        if isinstance(value, int) and not isinstance(value, bool):
            return cls(tick=value)
        if not isinstance(value, dict):
            raise LessonError(f"stop is {value!r}; it must be a tick, or a table of {', '.join(_KEYS)}")
        for key, part in value.items():
            if key not in _KEYS:
                raise LessonError(f"stop has no key {key!r}; the keys are {', '.join(_KEYS)}")
            if type(part) is not (str if key in ("event", "request") else int):
                raise LessonError(f"in stop, {key} is {part!r}, which is of the wrong type")
        stop = cls(**value)
        if (stop.tick is None) == (not stop.event):
            raise LessonError("stop must name either a tick or an event")
        return stop._checked()

    @classmethod
    def parse(cls, text: str) -> Self:
        """As after the @ of a placeholder: "7", "last", "-1", "RequestAdmitted.R4#2+1"; raises `LessonError`."""
        found = _WRITTEN.fullmatch(text)
        if found is None:
            raise LessonError(
                f"{text!r} is no place in a run; write a tick, a shift like -1, or Event.request#nth+shift"
            )
        if found["shift_only"]:
            return cls(shift=int(found["shift_only"]))
        if found["tick"]:
            return cls(tick=-1 if found["tick"] == "last" else int(found["tick"]))
        stop = cls(None, found["event"], found["request"] or "", int(found["nth"] or 1), int(found["shift"] or 0))
        return stop._checked()

    def _checked(self) -> Self:
        if self.event and self.event not in EVENT_TYPES:
            raise LessonError(f"there is no event {self.event!r}; the events are {', '.join(EVENT_TYPES)}")
        if self.nth < 1:
            raise LessonError(f"nth is {self.nth}; it must be at least 1")
        return self

    def find(self, trace: Trace, here: int = 0) -> int:
        """The tick in this run; raises `LessonError` if it does not have it."""
        tick = self._base(trace, here) + self.shift
        if not 0 <= tick < len(trace.records):
            raise LessonError(f"{self.words} is tick {tick}; this run has ticks 0 to {len(trace.records) - 1}")
        return tick

    def _base(self, trace: Trace, here: int) -> int:
        if self.tick is not None:
            return self.tick if self.tick >= 0 else len(trace.records) + self.tick
        if not self.event:
            return here
        ticks = [record.tick for record in trace.records for _ in range(self._times(record))]
        if len(ticks) < self.nth:
            raise LessonError(f"this run has {len(ticks)} of {self.words}, so there is no number {self.nth}")
        return ticks[self.nth - 1]

    def _times(self, record: TickRecord) -> int:
        kind = EVENT_TYPES[self.event]
        events = (event for event in record.events if isinstance(event, kind))
        return sum(not self.request or getattr(event, "request_id", "") == self.request for event in events)

    @property
    def words(self) -> str:
        """For messages: "RequestPreempted of R3"."""
        if self.event:
            return f"{self.event} of {self.request}" if self.request else self.event
        return f"the place {self.tick if self.tick is not None else self.shift}"

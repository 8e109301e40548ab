"""Why one request was preempted and not another: the rules of a preemption applied to those who could stay."""

from __future__ import annotations

from dataclasses import dataclass

from scheduler_core.config import EngineConfig
from scheduler_core.events import PreemptReason, RequestAdmitted, RequestPreempted
from scheduler_core.instant import longest
from scheduler_core.lookup import record_at, request_before, request_in
from scheduler_core.request import RequestStatus
from scheduler_core.trace import Trace
from scheduler_core.words import are, count

Key = tuple[int, int]


@dataclass(frozen=True, slots=True)
class VictimChoice:
    """One preemption, seen from the requests that ran beside the victim."""

    trace: Trace
    tick: int
    event: RequestPreempted

    @property
    def config(self) -> EngineConfig:
        return self.trace.config_at(self.tick)

    @property
    def others(self) -> tuple[str, ...]:
        """Who else had a lane as the tick began or got one in it."""
        before = self.trace.records[self.tick - 1].snapshot if self.tick else None
        running = (before.running if before else ()) + tuple(self._admitted())
        return tuple(request_id for request_id in dict.fromkeys(running) if request_id != self.event.request_id)

    def spared_because(self, other: str) -> str:
        """The rule by which `other` stayed, in one sentence."""
        if other == self.event.for_request:
            return f"{other} is the one that needed the room."
        if other in {victim.request_id for victim in preemptions(self.trace, self.tick)}:
            return f"{other} was preempted as well."
        if self.event.reason in (PreemptReason.MEMORY, PreemptReason.LANES):
            return self._better_rank(other) or f"{other} was not in a lane at that moment."
        return self._exempt(other) or self._not_eligible(other) or self._better_rank(other) or self._not_needed(other)

    def _admitted(self) -> list[str]:
        events = self.trace.records[self.tick].events
        return [event.request_id for event in events if isinstance(event, RequestAdmitted)]

    def _exempt(self, other: str) -> str:
        if other in self._admitted():
            return f"{other} got its lane in this very tick and cannot lose it in the same."
        for item in self.trace.records[self.tick].output.scheduled:
            is_last = item.samples and item.end + 1 >= longest(self.trace.request(other), self.config)
            if item.request_id == other and is_last:
                return f"{other} reaches its limit of tokens in this tick and leaves of its own accord."
        return ""

    def _not_eligible(self, other: str) -> str:
        """Neither its slice nor its class lets it be sent away."""
        before, quantum = request_before(self.trace, self.tick, other), self.config.quantum
        if before is None or (quantum is not None and before.slice_used >= quantum):
            return ""
        if self.event.reason is PreemptReason.SLICE:
            return f"{other} {_slice_left(quantum, before.slice_used)}."
        mine, theirs = before.key_class, self._incoming_class()
        if theirs is None or mine > theirs:
            return ""
        return f"{other} is in class {mine:,}, which is not worse than class {theirs:,} of {self.event.for_request}."

    def _better_rank(self, other: str) -> str:
        mine, theirs = self._key(other), self._key(self.event.request_id)
        if mine is None or theirs is None or mine >= theirs:
            return ""
        who = f"{other} ranks before {self.event.request_id}"
        if mine[0] == theirs[0]:
            return f"{who}: number {mine[1]:,} in line against {theirs[1]:,}."
        return f"{who}: {self._class_words(mine[0])} against {theirs[0]:,}."

    def _class_words(self, key_class: int) -> str:
        match self.config.policy:
            case "shortest":
                return f"{count(key_class, 'token')} to go"
            case "longest_prefix":
                return f"cache rank {key_class:,}"
            case _:
                return f"class {key_class:,}"

    def _not_needed(self, other: str) -> str:
        incoming = self.event.for_request
        return f"{other} would still rank before {incoming}, or its leaving was not needed for {incoming} to fit."

    def _key(self, request_id: str) -> Key | None:
        """The key with which the tick was decided; a running request keeps it from the tick before."""
        state = request_before(self.trace, self.tick, request_id)
        return None if state is None else (state.key_class, state.queue_number)

    def _incoming_class(self) -> int | None:
        state = request_in(self.trace.records[self.tick], self.event.for_request)
        return None if state is None or state.status is RequestStatus.FINISHED else state.key_class


def preemptions(trace: Trace, tick: int) -> list[RequestPreempted]:
    """The preemptions of a tick, in order."""
    return [event for event in record_at(trace, tick).events if isinstance(event, RequestPreempted)]


def _slice_left(quantum: int | None, used: int) -> str:
    if quantum is None:
        return "has no slice that could end"
    left = quantum - used
    return f"has used {used:,} of its {count(quantum, 'tick')}; {left:,} {are(left)} left"

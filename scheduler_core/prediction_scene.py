"""`Scene`: a tick as a question sees it, the state before it and what it then decided."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import takewhile

from scheduler_core.config import EngineConfig
from scheduler_core.events import (
    ConfigChanged,
    FaultInjected,
    PreemptReason,
    PrefixCacheQueried,
    RequestAdmitted,
    RequestArrived,
    RequestFinished,
    RequestPreempted,
    RequestRefused,
    RequestSkipped,
    SliceExpired,
    TokenSampled,
)
from scheduler_core.lookup import request_before
from scheduler_core.output import ScheduledRequest
from scheduler_core.request import FinishReason
from scheduler_core.trace import Snapshot, TickRecord, Trace

#: The causes that can be foreseen; lanes go away only when somebody changes the settings.
PREEMPTION_LABELS = {
    PreemptReason.SLICE.value: "Its slice is over, and another request waits for the room.",
    PreemptReason.MEMORY.value: "A request needs more KV blocks than are free.",
    PreemptReason.PUSH_OUT.value: "A waiting request of a better class needs the room.",
}


@dataclass(frozen=True, slots=True)
class Scene:
    """One tick of a full trace; everything is read from its events and from the snapshot before it."""

    trace: Trace
    tick: int

    @property
    def record(self) -> TickRecord:
        return self.trace.records[self.tick]

    @property
    def before(self) -> Snapshot | None:
        return self.trace.records[self.tick - 1].snapshot if self.tick else None

    @property
    def config(self) -> EngineConfig:
        return self.trace.config_at(self.tick)

    @property
    def salt(self) -> str:
        """Keys the lots drawn for the questions of this tick."""
        return f"{self.trace.scenario}|{len(self.trace.requests)}|{self.tick}|"

    # The state before the tick

    @property
    def running(self) -> tuple[str, ...]:
        return self.before.running if self.before else ()

    @property
    def waiting(self) -> tuple[str, ...]:
        return self.before.waiting if self.before else ()

    @property
    def arrived(self) -> tuple[str, ...]:
        """Who arrives as the tick begins and is not refused."""
        refused = {e.request_id for e in self.record.events if isinstance(e, RequestRefused)}
        arrived = [e.request_id for e in self.record.events if isinstance(e, RequestArrived)]
        return tuple(request_id for request_id in arrived if request_id not in refused)

    @property
    def candidates(self) -> tuple[str, ...]:
        """Who waits for a lane as the tick is decided."""
        return self.waiting + self.arrived

    @property
    def alive(self) -> tuple[str, ...]:
        return self.running + self.candidates

    @property
    def without_output(self) -> tuple[str, ...]:
        """Who has no token of its answer yet."""
        return tuple(request_id for request_id in self.alive if self._num_output(request_id) == 0)

    def was_preempted(self, request_id: str) -> bool:
        state = request_before(self.trace, self.tick, request_id)
        return state is not None and state.num_preemptions > 0

    def tokens_left(self, request_id: str) -> int:
        """Tokens to compute, without those that an entry finds in the cache or on the host."""
        if (item := self.scheduled.get(request_id)) is not None:
            return self._num_tokens(request_id) - item.start
        state = request_before(self.trace, self.tick, request_id)
        return self._num_tokens(request_id) - (state.num_computed_tokens if state else 0)

    # What the tick decided

    @property
    def is_disturbed(self) -> bool:
        """Whether something happens that no rule of the scheduler foretells."""
        return _is_disturbed(self.record)

    def is_disturbed_until(self, tick: int) -> bool:
        return any(_is_disturbed(record) for record in self.trace.records[self.tick : tick + 1])

    @property
    def victims(self) -> tuple[str, ...]:
        """Who had a lane before and loses it, in that order."""
        lost = [e.request_id for e in self.record.events if isinstance(e, RequestPreempted)]
        return tuple(request_id for request_id in dict.fromkeys(lost) if request_id in self.running)

    @property
    def admitted(self) -> tuple[str, ...]:
        events = self.record.events
        return tuple(dict.fromkeys(e.request_id for e in events if isinstance(e, RequestAdmitted)))

    @property
    def turned_away(self) -> tuple[RequestSkipped, ...]:
        """The first in the queue, where it was considered and not let in."""
        skipped = [e for e in self.record.events if isinstance(e, RequestSkipped)]
        return tuple(event for event in skipped if event.request_id in self.candidates)

    def has_news(self, about_victims: bool) -> bool:
        """Whether the answer may differ from the tick before: somebody came, went, or has used up its slice."""
        if about_victims and self.is_tight:
            return True
        before = self.trace.records[self.tick - 1].events if self.tick else ()
        moves = RequestArrived | RequestAdmitted | RequestPreempted | RequestFinished | SliceExpired | ConfigChanged
        is_moving = any(isinstance(event, moves) for event in before)
        return is_moving or bool(self.arrived or self.admitted or self.victims)

    @property
    def is_tight(self) -> bool:
        """Whether running requests need all the free blocks for their next token, or more, or all but one."""
        if self.before is None:
            return False
        size = self.config.block_size
        running = [state for state in self.before.requests if state.id in self.running]
        needed = sum(-(-state.num_tokens // size) > len(state.block_ids) for state in running)
        return 0 < needed >= len(self.before.free_blocks) - 1

    @property
    def has_contest(self) -> bool:
        """Whether a preemption was possible at all: somebody waits, and a rule could make room for it."""
        config = self.config
        pushes = config.priority_push_out and config.policy in ("priority", "mlfq")
        return bool(self.turned_away) and (config.quantum is not None or pushes)

    @property
    def scheduled(self) -> dict[str, ScheduledRequest]:
        return {item.request_id: item for item in self.record.output.scheduled}

    @property
    def lookups(self) -> tuple[PrefixCacheQueried, ...]:
        return tuple(event for event in self.record.events if isinstance(event, PrefixCacheQueried))

    @property
    def readers(self) -> tuple[str, ...]:
        """Who reads its prompt, or computes lost tokens again: a decode is always one token."""
        scheduled = self.scheduled
        readers = [request_id for request_id in self.alive if request_id in scheduled]
        readers = [request_id for request_id in readers if not scheduled[request_id].is_decode]
        left_out = [request_id for request_id in self.running if request_id not in scheduled]
        return tuple(readers + [request_id for request_id in left_out if self._is_reading(request_id)])

    def preemption_of(self, request_id: str) -> RequestPreempted:
        events = [e for e in self.record.events if isinstance(e, RequestPreempted)]
        return next(event for event in events if event.request_id == request_id)

    def lookup_of(self, request_id: str) -> PrefixCacheQueried:
        return next(event for event in self.lookups if event.request_id == request_id)

    def first_token_tick(self, request_id: str) -> int | None:
        """The tick at whose end the request has its first token; None if it never gets one."""
        for record in self.trace.records[self.tick :]:
            for event in record.events:
                if isinstance(event, TokenSampled) and event.request_id == request_id and event.index == 0:
                    return record.tick
        return None

    # What a guess could be

    def likely_hits(self, event: PrefixCacheQueried) -> list[int]:
        """All or nothing, as much as any request before has in common, whole blocks or not."""
        size, asked = self.config.block_size, event.query_tokens
        shared = sorted({self._common(event.request_id, other) for other in self._known() if other != event.request_id})
        rounded = [value // size * size for value in reversed(shared)]
        most = (asked - 1) // size * size
        return [0, *rounded, most, *reversed(shared), asked, event.hit_tokens + size, event.hit_tokens - size]

    def likely_chunks(self, left: int) -> list[int]:
        """Everything, nothing, or one of the bounds alone."""
        config, size = self.config, self.config.block_size
        decodes = sum(not self._is_reading(request_id) for request_id in self.running)
        bounds = [config.max_num_batched_tokens, config.max_num_batched_tokens - decodes]
        cap = [config.chunk_size] if config.chunk_size is not None else []
        return [left, *cap, *bounds, size, left - 1, left // 2, 1, 0]

    def likely_first_ticks(self, request_id: str) -> list[int]:
        """As if it had the whole budget from now on, or as if each chunk were as small as allowed."""
        left, config = self.tokens_left(request_id), self.config
        bounds = {config.max_num_batched_tokens, config.largest_chunk, config.block_size}
        soonest = sorted({self.tick + -(-left // bound) - 1 for bound in bounds})
        return [self.tick, *soonest, *(tick + len(self.candidates) for tick in soonest), self.tick + 1]

    def _num_output(self, request_id: str) -> int:
        state = request_before(self.trace, self.tick, request_id)
        return 0 if state is None else state.num_output_tokens

    def _num_tokens(self, request_id: str) -> int:
        return len(self.trace.request(request_id).prompt_token_ids) + self._num_output(request_id)

    def _is_reading(self, request_id: str) -> bool:
        state = request_before(self.trace, self.tick, request_id)
        if state is None:
            return True
        return state.num_output_tokens == 0 or state.num_tokens - state.num_computed_tokens > 1

    def _known(self) -> list[str]:
        """Who has been sent until now."""
        return [spec.id for spec in self.trace.requests if spec.arrival_time <= self.record.start]

    def _common(self, one: str, other: str) -> int:
        """Tokens that two prompts have in common at their beginning."""
        pairs = zip(self.trace.request(one).prompt_token_ids, self.trace.request(other).prompt_token_ids, strict=False)
        return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _is_disturbed(record: TickRecord) -> bool:
    for event in record.events:
        if isinstance(event, ConfigChanged | FaultInjected):
            return True
        if isinstance(event, RequestFinished) and event.reason is FinishReason.ABORT:
            return True
    return False

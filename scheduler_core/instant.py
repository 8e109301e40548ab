"""The state at an instant within a tick, replayed from its events: who runs, how many blocks and tokens are left."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from scheduler_core.config import EngineConfig
from scheduler_core.events import (
    BlocksAllocated,
    BlocksFreed,
    PrefixCacheQueried,
    RequestAdmitted,
    RequestFinished,
    RequestPreempted,
    RequestScheduled,
)
from scheduler_core.lookup import request_before
from scheduler_core.output import ScheduledRequest
from scheduler_core.request import RequestSpec
from scheduler_core.trace import TickRecord, Trace


@dataclass(frozen=True, slots=True)
class Instant:
    """Just before one event: `running` in the order of admission, blocks in nobody's table."""

    running: tuple[str, ...]
    free_blocks: int


def instant_before(trace: Trace, tick: int, index: int) -> Instant:
    """The state just before event number `index` of the tick."""
    before = trace.records[tick - 1].snapshot if tick else None
    running = dict.fromkeys(before.running if before else ())
    refs = Counter(block for request in (before.requests if before else ()) for block in request.block_ids)
    for event in trace.records[tick].events[:index]:
        match event:
            case RequestAdmitted():
                running[event.request_id] = None
            case RequestPreempted() | RequestFinished():
                running.pop(event.request_id, None)
            case PrefixCacheQueried():
                refs.update(event.hit_block_ids)
            case BlocksAllocated():
                refs.update(event.block_ids)
            case BlocksFreed():
                refs.subtract(event.block_ids)
            case _:
                pass
    used = sum(1 for held in refs.values() if held > 0)
    return Instant(tuple(running), trace.config.num_blocks - used)


def decision_instant(trace: Trace, tick: int) -> Instant:
    """The state when the batch was final, before the model ran."""
    events = trace.records[tick].events
    index = next((i for i, event in enumerate(events) if isinstance(event, RequestScheduled)), len(events))
    return instant_before(trace, tick, index)


def decodes_later(config: EngineConfig) -> bool:
    """Whether decodes are served after admission, if at all."""
    return config.batch_order == "prefill_first" or not config.mixed_batches


def budget_left(record: TickRecord, index: int, config: EngineConfig) -> int | None:
    """Tokens left when the waiting request of skip event `index` was considered; None if that cannot be told.

    "prefill_first" serves decodes after admission; if one of those then pushed a part-done prefill out, the tokens that
    had been given to it are not on record.
    """
    later = record.events[index:]
    is_before_decodes = decodes_later(config)
    if is_before_decodes and any(isinstance(event, RequestPreempted) for event in later):
        return None
    given = [e for e in later if isinstance(e, RequestScheduled) and not (is_before_decodes and e.is_decode)]
    return max(0, config.max_num_batched_tokens - sum(event.num_tokens for event in given))


def tokens_left(trace: Trace, tick: int, item: ScheduledRequest) -> int:
    """Tokens that the request had still to compute when it was scheduled."""
    if item.samples:
        return item.num_tokens
    before = request_before(trace, tick, item.request_id)
    known = len(trace.request(item.request_id).prompt_token_ids) if before is None else before.num_tokens
    return known - item.start


def longest(spec: RequestSpec, config: EngineConfig) -> int:
    """The most tokens that the request's sequence can get."""
    return min(len(spec.prompt_token_ids) + spec.sampling.max_tokens, config.max_model_len)

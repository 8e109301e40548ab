"""Why a request did, or did not do, what it did in a tick: the rules in their order, with the tick's numbers."""

from __future__ import annotations

from typing import assert_never

from scheduler_core.batch_story import chunk_story, drawn_texts
from scheduler_core.chunk_range import ChunkRange, is_steered
from scheduler_core.config import EngineConfig
from scheduler_core.events import (
    BlocksAllocated,
    Event,
    FaultInjected,
    LowerTierQueried,
    PreemptReason,
    PrefixCacheQueried,
    RequestAdmitted,
    RequestFinished,
    RequestPreempted,
    RequestRefused,
    RequestRestored,
)
from scheduler_core.explain_waiting import explain_left_out, explain_waiting
from scheduler_core.explanation import Check as Check
from scheduler_core.explanation import Explanation as Explanation
from scheduler_core.instant import decision_instant, tokens_left
from scheduler_core.lookup import record_at, request_in, require_full, spec_of
from scheduler_core.narration import narrate
from scheduler_core.output import ScheduledRequest
from scheduler_core.reasons import kept_and_lost, preemption_cause
from scheduler_core.remedies import steered_remedy
from scheduler_core.request import FinishReason
from scheduler_core.steering_story import NAMES as STEERED_NAMES
from scheduler_core.trace import Trace
from scheduler_core.victim_choice import VictimChoice, preemptions
from scheduler_core.words import count, moment, quoted, was

_END_KINDS = {
    FinishReason.STOP: "finished",
    FinishReason.LENGTH: "finished",
    FinishReason.ABORT: "aborted",
    FinishReason.REJECTED: "refused",
    FinishReason.ERROR: "failed",
}


def explain(trace: Trace, tick: int, request_id: str) -> Explanation:
    """What the request did in that tick and why; raises `TraceError` for an unknown request or tick."""
    record, spec = record_at(trace, tick), spec_of(trace, request_id)
    require_full(trace)
    if (end := _end(trace, tick, request_id)) is not None and end[0] < tick:
        return _ended(trace, *end)
    for item in record.output.scheduled:
        if item.request_id == request_id:
            return _ran(trace, tick, item)
    if end is not None:
        return _ended(trace, *end)
    if own := [event for event in preemptions(trace, tick) if event.request_id == request_id]:
        return _preempted(trace, tick, own[-1])
    state = request_in(record, request_id)
    if state is None:
        headline = f"{request_id} has not arrived yet."
        return Explanation(headline, (Check(None, f"It arrives at {moment(spec.arrival_time)}."),), "", "not_arrived")
    if record.snapshot is not None and request_id in record.snapshot.running:
        return explain_left_out(trace, tick, request_id)
    return explain_waiting(trace, tick, request_id)


def why_not(trace: Trace, tick: int, request_id: str) -> Explanation:
    """Why that request was not the one to be preempted in that tick."""
    record_at(trace, tick)
    spec_of(trace, request_id)
    require_full(trace)
    events = preemptions(trace, tick)
    if any(event.request_id == request_id for event in events):
        return explain(trace, tick, request_id)
    headline = f"{request_id} was not preempted in this tick."
    if not events:
        return Explanation(headline, (Check(None, "Nobody was."),), "", "spared")
    if not any(request_id in VictimChoice(trace, tick, event).others for event in events):
        return Explanation(headline, (Check(None, "It was not in a lane."),), "", "spared")
    checks = []
    for event in events:
        checks.append(Check(False, f"{event.request_id} had to leave. {preemption_cause(event, trace, tick)}"))
        checks.append(Check(True, VictimChoice(trace, tick, event).spared_because(request_id)))
    return Explanation(headline, tuple(checks), "", "spared")


def _end(trace: Trace, tick: int, request_id: str) -> tuple[int, RequestFinished] | None:
    """The tick and the event with which the request ended, if it has by the end of `tick`."""
    for record in trace.records[: tick + 1]:
        for event in record.events:
            if isinstance(event, RequestFinished) and event.request_id == request_id:
                return record.tick, event
    return None


def _ended(trace: Trace, tick: int, event: RequestFinished) -> Explanation:
    """It is over, in that tick or before: how, and when."""
    told: Event = event
    if event.reason is FinishReason.REJECTED:
        refusals = [e for e in trace.records[tick].events if isinstance(e, RequestRefused)]
        told = next((e for e in refusals if e.request_id == event.request_id), event)
    sentence = narrate(told, trace, tick)
    record = trace.records[tick]
    took_part = any(item.request_id == event.request_id for item in record.output.scheduled)
    when = Check(None, f"That was in tick {tick:,}, at {moment(record.end if took_part else record.start)}.")
    return Explanation(sentence.lead, (Check(None, sentence.text), when), "", _END_KINDS[event.reason])


def _ran(trace: Trace, tick: int, item: ScheduledRequest) -> Explanation:
    """It was in the batch: how it got in, how many tokens and why not more, what came of it."""
    record, who = trace.records[tick], item.request_id
    events = [event for event in record.events if getattr(event, "request_id", "") == who]
    drawn = drawn_texts(record)
    failed = [e for e in events if isinstance(e, RequestFinished) and e.reason is FinishReason.ERROR]
    if failed:
        return Explanation(f"{who} failed in this tick.", (Check(False, failed[0].message),), "", "failed")
    config = trace.config_at(tick)
    checks = [*_entry(trace, tick, events, config), *size_checks(trace, tick, item, config), *_blocks(events)]
    if not item.is_decode and who in drawn:
        checks.append(Check(None, f"All its tokens are computed, so the next one was drawn: {quoted(drawn[who])}."))
    checks += [*_slice(trace, tick, who, config), *_outcome(trace, tick, events)]
    text = quoted(drawn[who]) if who in drawn else "a token"
    headline = f"{who} generated {text}." if item.is_decode else chunk_story(item, trace, {})
    return Explanation(headline, tuple(checks), _size_remedy(trace, tick, item, config), "ran")


def _entry(trace: Trace, tick: int, events: list[Event], config: EngineConfig) -> list[Check]:
    """How it got into a lane, if it did so in this tick."""
    checks = []
    for event in events:
        if isinstance(event, RequestPreempted):
            cause = preemption_cause(event, trace, tick)
            checks.append(Check(None, f"It was preempted at the start of the tick. {cause} {kept_and_lost(event)}"))
        if isinstance(event, PrefixCacheQueried) and not any(isinstance(e, RequestRestored) for e in events):
            checks.append(hit_check(event, config))
        if isinstance(event, RequestRestored):
            checks.append(Check(True, narrate(event, trace, tick).text))
        if isinstance(event, LowerTierQueried):
            checks.append(Check(event.hit_tokens > 0 or None, narrate(event, trace, tick).whole))
        if isinstance(event, RequestAdmitted):
            used = len(decision_instant(trace, tick).running)
            sentence = narrate(event, trace, tick)
            verb = "came back to" if event.resumed else "got"
            checks.append(Check(True, f"It {verb} a lane ({used} of {config.max_num_seqs} are in use now)."))
            checks.append(Check(True, f"Memory: {sentence.text[0].lower()}{sentence.text[1:]}"))
            if not config.enable_prefix_caching:
                checks.append(Check(None, "The prefix cache is off."))
    return checks


def hit_check(event: PrefixCacheQueried, config: EngineConfig) -> Check:
    """How much the cache had, and why not more."""
    size, asked, hit = config.block_size, event.query_tokens, event.hit_tokens
    most = (asked - 1) // size * size
    got = f"{count(len(event.hit_block_ids), 'block')} ({hit:,} of {count(asked, 'token')}) came from the cache"
    if most == 0:
        few = f"only whole blocks of {size:,} before the last token could, and it has {count(asked, 'token')}"
        return Check(None, f"Nothing can come from the cache: {few}.")
    if hit == most:
        rule = f"only whole blocks of {size:,} count, and at least one token is computed"
        return Check(True, f"{got}; more is not possible: {rule}.")
    if hit == 0:
        return Check(None, f"The cache did not have its first block of {count(size, 'token')}.")
    return Check(True, f"{got}; the cache did not have the next block.")


def size_checks(trace: Trace, tick: int, item: ScheduledRequest, config: EngineConfig) -> list[Check]:
    """How many tokens it computed, and which bound was the smallest."""
    if item.is_decode:
        return [Check(True, f"It needed 1 token of the budget of {config.max_num_batched_tokens:,}.")]
    amount = count(item.num_tokens, "token")
    left = tokens_left(trace, tick, item)
    if item.samples:
        return [Check(True, f"It computed {amount}: all it had left.")]
    rest = f"{left:,} {was(left)} left."
    if _bound_by_chunk(item, config):
        return [Check(True, f"It computed {amount}: the largest chunk allowed. {rest}")]
    budget = f"the token budget of {config.max_num_batched_tokens:,} had no more for it"
    return [Check(False, f"It computed {amount}: {budget}. {rest}")]


def _bound_by_chunk(item: ScheduledRequest, config: EngineConfig) -> bool:
    return config.chunk_size is not None and item.num_tokens == config.chunk_size


def _size_remedy(trace: Trace, tick: int, item: ScheduledRequest, config: EngineConfig) -> str:
    """What would have let it compute more."""
    left = tokens_left(trace, tick, item)
    if item.samples or left == item.num_tokens:
        return ""
    if is_steered(config):
        return _steered_remedy(config)
    if _bound_by_chunk(item, config):
        is_full = trace.records[tick].output.num_scheduled_tokens >= config.max_num_batched_tokens
        both = " and a larger token budget" if is_full else ""
        return f"A larger chunk size{both} would let it read more in a tick."
    # A lone request may exceed the chunk size, so it was the budget alone that bounded it.
    is_capped = config.chunk_size is not None and item.num_tokens < config.chunk_size
    wanted = min(left, config.chunk_size) if is_capped and config.chunk_size is not None else left
    more_blocks = -(-(item.start + wanted) // config.block_size) - len(item.block_ids)
    if preemptions(trace, tick) or more_blocks > decision_instant(trace, tick).free_blocks - config.watermark:
        return "A larger token budget would let it read more in a tick, as far as memory lasts."
    budget = config.max_num_batched_tokens + wanted - item.num_tokens
    return f"With a token budget of {budget:,} it would have read {wanted:,}."


def _steered_remedy(config: EngineConfig) -> str:
    """Chunk control decides how much a tick reads, so what it goes by would have to change."""
    return f"Chunk control has set the {STEERED_NAMES[ChunkRange.of(config).setting]}; {steered_remedy(config)}"


def _blocks(events: list[Event]) -> list[Check]:
    taken = sum(len(event.block_ids) for event in events if isinstance(event, BlocksAllocated))
    return [Check(None, f"It took {count(taken, 'new block')} of KV memory.")] if taken else []


def _slice(trace: Trace, tick: int, who: str, config: EngineConfig) -> list[Check]:
    state = request_in(trace.records[tick], who)
    if config.quantum is None or state is None or state.finish_reason is not None:
        return []
    if state.slice_used >= config.quantum:
        over = f"Its slice of {count(config.quantum, 'tick')} is over; it runs on until somebody else needs the room."
        return [Check(None, over)]
    return [Check(None, f"It has used {state.slice_used:,} of its slice of {count(config.quantum, 'tick')}.")]


def _outcome(trace: Trace, tick: int, events: list[Event]) -> list[Check]:
    """Its end, or a fault that it got over."""
    told = [event for event in events if isinstance(event, RequestFinished | FaultInjected)]
    return [Check(None, narrate(event, trace, tick).whole) for event in told]


def _preempted(trace: Trace, tick: int, event: RequestPreempted) -> Explanation:
    """It had to leave: why, why it and not another, what was kept."""
    choice = VictimChoice(trace, tick, event)
    checks = [Check(False, preemption_cause(event, trace, tick))]
    others = [other for other in choice.others if other != event.for_request]
    checks += [Check(None, choice.spared_because(other)) for other in others]
    checks.append(Check(None, kept_and_lost(event)))
    remedy = _stay_remedy(event, trace, tick)
    return Explanation(f"{event.request_id} was preempted.", tuple(checks), remedy, "preempted")


def _stay_remedy(event: RequestPreempted, trace: Trace, tick: int) -> str:
    match event.reason:
        case PreemptReason.SLICE:
            return f"With a quantum above {event.slice_used:,} its slice would not have been over."
        case PreemptReason.MEMORY:
            return "More blocks, or fewer lanes, would keep memory from running short."
        case PreemptReason.PUSH_OUT:
            return "With push-out by class switched off it would have stayed."
        case PreemptReason.LANES:
            victims = [e for e in preemptions(trace, tick) if e.reason is PreemptReason.LANES]
            lanes = trace.config_at(tick).max_num_seqs + len(victims) - victims.index(event)
            return f"With {count(lanes, 'lane')} it would have stayed."
    assert_never(event.reason)

"""What happened in a tick, in sentences. Every number in them is read from the tick's events or snapshot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import assert_never

from scheduler_core.attempts import SERVED, next_attempt, split_attempt
from scheduler_core.batch_story import batch_story
from scheduler_core.events import (
    BlockEvicted,
    BlockPublished,
    BlocksAllocated,
    BlocksFreed,
    ChunkSteered,
    ConfigChanged,
    Event,
    FaultInjected,
    FaultSwitchedOn,
    LawBroken,
    LowerTierQueried,
    PrefixCacheQueried,
    RequestAdmitted,
    RequestArrived,
    RequestFinished,
    RequestPreempted,
    RequestRefused,
    RequestRestored,
    RequestScheduled,
    RequestSkipped,
    SliceExpired,
    TokenSampled,
)
from scheduler_core.fault_story import is_planned, planned_fault
from scheduler_core.lookup import record_at, request_in
from scheduler_core.reasons import kept_and_lost, preemption_cause, skip_cause
from scheduler_core.request import FinishReason
from scheduler_core.sentence import Sentence as Sentence
from scheduler_core.steering_story import is_news, steering_story
from scheduler_core.trace import TickRecord, Trace
from scheduler_core.words import TIERS, are, bracketed_size, count, duration, moment, names, quoted, size, was

#: Events that a tick's narration sums up instead of telling one by one.
_SUMMED = (RequestScheduled, TokenSampled, BlocksAllocated, BlockPublished, BlocksFreed, BlockEvicted)

#: What is told of a whole replica; see `replicas/grid.py`.
_OF_THE_REPLICA = {
    "replica_killed": "The replica was killed.",
    "replica_starting": "A new process starts in its place.",
    "replica_ready": "The replica is back.",
}


#: Name of a fault -> those that tell the same with more to it.
_TELLS_MORE: dict[str, set[str]] = {
    "forward": {"planned_raise"},
    "planned_copy_out": {"copy_out"},
    "planned_copy_in": {"copy_in", "load"},
}


def narrate_tick(trace: Trace, tick: int) -> tuple[Sentence, ...]:
    """The sentences of a tick, most important first; there is always at least one, and the first is the headline."""
    record = record_at(trace, tick)
    restored = {event.request_id for event in record.events if isinstance(event, RequestRestored)}
    arrived = [event for event in record.events if isinstance(event, RequestArrived)]
    faults = {event.name for event in record.events if isinstance(event, FaultInjected)}
    told = [
        narrate(event, trace, tick)
        for event in record.events
        if not isinstance(event, (*_SUMMED, RequestArrived, ChunkSteered))
        and not _is_told_elsewhere(event, restored, faults)
    ]
    told += [_crowd(arrived)] if len(arrived) > 2 else [narrate(event, trace, tick) for event in arrived]
    if "planned_worker_killed" not in faults:
        told.append(batch_story(trace, record) or _pause(trace, record))
    told += _evictions(record)
    told += [narrate(event, trace, tick) for event in record.events if is_news(event, trace, tick)]
    told.sort(key=lambda sentence: sentence.rank)
    return (replace(told[0], headline=True), *told[1:])


def _is_told_elsewhere(event: Event, restored: set[str], faults: set[str]) -> bool:
    if isinstance(event, RequestFinished):
        return event.reason is FinishReason.REJECTED
    if isinstance(event, FaultInjected):
        return bool(faults & _TELLS_MORE.get(event.name, set()))
    if isinstance(event, PrefixCacheQueried):
        return event.hit_tokens == 0 or event.request_id in restored
    if isinstance(event, LowerTierQueried):
        return event.hit_tokens == 0
    return isinstance(event, RequestAdmitted) and event.request_id in restored


def narrate(event: Event, trace: Trace, tick: int) -> Sentence:
    """The sentence for one event of that tick."""
    match event:
        case RequestArrived():
            return _arrived(event, trace)
        case RequestRefused():
            return Sentence(f"{event.request_id} was refused.", _sentence(event.message), "refused", event.request_id)
        case PrefixCacheQueried():
            return _queried(event, trace)
        case RequestAdmitted():
            return _admitted(event)
        case RequestScheduled():
            return _scheduled(event)
        case RequestSkipped():
            return _skipped(event, trace, tick)
        case SliceExpired():
            return _expired(event)
        case RequestPreempted():
            return _preempted(event, trace, tick)
        case RequestRestored():
            return _restored(event)
        case LowerTierQueried():
            return _loaded(event)
        case BlocksAllocated():
            return _memory(event.request_id, f"took {count(len(event.block_ids), 'block')}", event.block_ids)
        case BlocksFreed():
            return _memory(event.request_id, f"let go of {count(len(event.block_ids), 'block')}", event.block_ids)
        case BlockPublished():
            return _published(event)
        case BlockEvicted():
            return _evicted(event.for_request, (event.block_id,))
        case TokenSampled():
            return _sampled(event)
        case RequestFinished():
            return _finished(event, trace, tick)
        case ConfigChanged():
            return _changed(event)
        case ChunkSteered():
            return steering_story(event, trace, tick)
        case FaultInjected():
            return planned_fault(event, trace, tick) if is_planned(event) else _fault(event)
        case FaultSwitchedOn():
            return Sentence("A mistake is built into this run.", event.description, "fault")
        case LawBroken():
            return Sentence("A law is broken, and the run stops.", f"{event.law.text} But {event.detail}.", "law")
    assert_never(event)


def _sentence(message: str) -> str:
    """A message with a capital at the start and a full stop at the end."""
    message = message.strip()
    return message if not message else message[0].upper() + message[1:] + ("" if message[-1] in ".!?" else ".")


def _arrived(event: RequestArrived, trace: Trace) -> Sentence:
    text = f"Its prompt has {count(event.num_prompt_tokens, 'token')}; it may generate {event.max_tokens:,}."
    base, number = split_attempt(event.request_id)
    if number > 1 and trace.scenario == SERVED:
        text = f"It is attempt {number} at {base}. {text}"
    if trace.config.policy == "priority":
        text += f" Its priority is {event.priority}."
    return Sentence(f"{event.request_id} arrived.", text, "arrived", event.request_id)


def _crowd(events: Sequence[RequestArrived]) -> Sentence:
    """Several arrivals in one sentence."""
    sizes = sorted(event.num_prompt_tokens for event in events)
    span = f"{sizes[0]:,}" if sizes[0] == sizes[-1] else f"{sizes[0]:,} to {sizes[-1]:,}"
    text = f"Their prompts have {span} {'token' if sizes[-1] == 1 else 'tokens'}."
    return Sentence(f"{names([event.request_id for event in events])} arrived.", text, "arrived")


def _queried(event: PrefixCacheQueried, trace: Trace) -> Sentence:
    who, hit, asked = event.request_id, event.hit_tokens, event.query_tokens
    if hit == 0:
        return Sentence(f"{who} found nothing in the cache.", f"It asked for {count(asked, 'token')}.", "miss", who)
    blocks = count(len(event.hit_block_ids), "block")
    verb = are(len(event.hit_block_ids))
    if event.self_hit:
        lead = f"{who} found {hit:,} of its {count(asked, 'token')} still in the cache."
        return Sentence(lead, f"{blocks} {verb} attached again, so less has to be computed twice.", "hit", who)
    lead = f"{who} took {hit:,} of its {count(asked, 'token')} from the cache."
    return Sentence(lead, f"{blocks} {verb} attached; only {asked - hit:,} are left to compute.", "hit", who)


def _admitted(event: RequestAdmitted) -> Sentence:
    need = f"It needs {count(event.blocks_needed, 'new block')}; {event.blocks_free:,} {was(event.blocks_free)} free"
    if event.blocks_promised:
        need += f", {event.blocks_promised:,} {are(event.blocks_promised)} promised to running requests"
    lead = f"{event.request_id} came back to a lane." if event.resumed else f"{event.request_id} was admitted."
    return Sentence(lead, need + ".", "admitted", event.request_id)


def _scheduled(event: RequestScheduled) -> Sentence:
    who = event.request_id
    if event.is_decode:
        return Sentence(f"{who} was given 1 token.", f"It decodes at position {event.start:,}.", "scheduled", who)
    span = f"positions {event.start:,} to {event.start + event.num_tokens - 1:,}"
    again = f", {event.recomputed_tokens:,} of them for the second time" if event.recomputed_tokens else ""
    return Sentence(
        f"{who} was given {count(event.num_tokens, 'token')}.", f"It computes {span}{again}.", "scheduled", who
    )


def _expired(event: SliceExpired) -> Sentence:
    lead = f"{event.request_id} has used up its slice of {count(event.quantum, 'tick')}."
    return Sentence(lead, "It runs on until somebody else needs the room.", "expired", event.request_id)


def _restored(event: RequestRestored) -> Sentence:
    parts = []
    if event.hit_tokens:
        parts.append(f"{count(event.hit_tokens, 'token')} of KV {was(event.hit_tokens)} still in the cache")
    if event.blocks_copied:
        blocks = f"{count(event.blocks_copied, 'block')}{bracketed_size(event.bytes_copied)}"
        copied = f"{count(event.tokens_copied, 'token')} ({blocks}) {was(event.tokens_copied)}"
        parts.append(f"{copied} copied back from the host")
    text = " and ".join(parts) or "nothing had to be copied"
    return Sentence(f"{event.request_id} came back.", _sentence(text), "restored", event.request_id)


def _loaded(event: LowerTierQueried) -> Sentence:
    who, hit, place = event.request_id, event.hit_tokens, TIERS.get(event.tier, event.tier)
    asked = count(event.query_tokens, "token")
    if hit == 0:
        return Sentence(f"{who} found nothing {place}.", f"It asked for {asked} that memory did not have.", "miss", who)
    amount = f" ({size(event.num_bytes)})" if event.num_bytes else ""
    blocks = f"{count(len(event.block_ids), 'block')}{amount}"
    took = f", in {duration(event.seconds)}" if event.seconds else ""
    again = ", computed before its preemption" if event.self_hit else ""
    text = f"Memory lacked {asked}{again}; {blocks} {was(len(event.block_ids))} loaded{took}."
    return Sentence(f"{who} took {count(hit, 'token')} from the cache {place}.", text, "loaded", who)


def _memory(who: str, what: str, block_ids: Sequence[int]) -> Sentence:
    listed = ", ".join(str(block_id) for block_id in block_ids[:12]) + (", …" if len(block_ids) > 12 else "")
    return Sentence(f"{who} {what}.", f"Block {listed}." if len(block_ids) == 1 else f"Blocks {listed}.", "memory", who)


def _published(event: BlockPublished) -> Sentence:
    lead = f"Block {event.block_id} of {event.request_id} can be shared now."
    return Sentence(
        lead, f"It is full: number {event.index} of its sequence, key {event.key}.", "memory", event.request_id
    )


def _evicted(who: str, block_ids: Sequence[int]) -> Sentence:
    lead = f"{who} took {count(len(block_ids), 'block')} that {was(len(block_ids))} kept for reuse."
    held = "What it held" if len(block_ids) == 1 else "What they held"
    return Sentence(lead, f"{held} can no longer be found there.", "evicted", who)


def _sampled(event: TokenSampled) -> Sentence:
    best = next((c.prob for c in event.top if c.token_id == event.token_id), None)
    chance = "" if best is None else f" Its probability was {best:.0%}."
    lead = f"{event.request_id} generated {quoted(event.text)}."
    return Sentence(lead, f"It is output token number {event.index + 1}.{chance}", "token", event.request_id)


def _changed(event: ConfigChanged) -> Sentence:
    changes = "; ".join(f"{name} from {old} to {new}" for name, old, new in event.changes)
    return Sentence("Settings changed.", f"{changes}.", "config")


def _fault(event: FaultInjected) -> Sentence:
    failed = f"{event.name} failed for {event.request_id}." if event.request_id else f"{event.name} failed."
    lead = _OF_THE_REPLICA.get(event.name, failed)
    return Sentence(_sentence(lead), _sentence(event.detail), "fault", event.request_id)


def _finished(event: RequestFinished, trace: Trace, tick: int) -> Sentence:
    who, end = event.request_id, trace.records[tick].end
    state = request_in(trace.records[tick], who)
    made = 0 if state is None else state.num_output_tokens
    if event.reason is FinishReason.REJECTED:
        return Sentence(f"{who} never ran.", "It was refused.", "refused", who)
    if event.reason is FinishReason.ERROR:
        text = f"{_sentence(event.message)} It had generated {count(made, 'token')}.".lstrip()
        if again := next_attempt(trace, who):
            text += f" It is tried again as {again}."
        return Sentence(f"{who} failed.", text, "fault", who)
    if event.reason is FinishReason.ABORT:
        return Sentence(f"{who} was aborted.", f"It had generated {count(made, 'token')}.", "finished", who)
    took = duration(end - trace.request(who).arrival_time)
    why = f"It ended its text after {count(made, 'token')}"
    if event.reason is FinishReason.LENGTH:
        why = f"It reached its limit of {count(made, 'token')}"
        if made < trace.request(who).sampling.max_tokens:
            longest = f"the longest sequence allowed, {trace.config.max_model_len:,} tokens"
            why = f"With {count(made, 'token')} it reached {longest}"
    return Sentence(f"{who} finished.", f"{why}, {took} after it arrived.", "finished", who)


def _preempted(event: RequestPreempted, trace: Trace, tick: int) -> Sentence:
    text = f"{preemption_cause(event, trace, tick)} {kept_and_lost(event)}"
    return Sentence(f"{event.request_id} was preempted.", text, "preempted", event.request_id)


def _skipped(event: RequestSkipped, trace: Trace, tick: int) -> Sentence:
    who = event.request_id
    before = trace.records[tick - 1].snapshot if tick else None
    was_running = before is not None and who in before.running
    lead = f"{who} was skipped." if was_running else f"{who} has to wait."
    return Sentence(lead, skip_cause(event), "skipped", who)


def _evictions(record: TickRecord) -> list[Sentence]:
    taken: dict[str, list[int]] = {}
    for event in record.events:
        if isinstance(event, BlockEvicted):
            taken.setdefault(event.for_request, []).append(event.block_id)
    return [_evicted(request_id, block_ids) for request_id, block_ids in taken.items()]


def _pause(trace: Trace, record: TickRecord) -> Sentence:
    """Why nothing ran: nobody is there, or nobody could be let in."""
    if record.counts.waiting or record.counts.running:
        waiting = count(record.counts.waiting, "request")
        return Sentence("Nothing ran in this tick.", f"{waiting} {was(record.counts.waiting)} waiting.", "idle")
    following = [spec for spec in trace.requests if spec.arrival_time > record.start]
    if not following:
        return Sentence("Nothing to do.", "No further request is announced.", "idle")
    first = min(spec.arrival_time for spec in following)
    ids = [spec.id for spec in following if spec.arrival_time == first]
    verb = "arrives" if len(ids) == 1 else "arrive"
    return Sentence(f"Nothing to do until {names(ids)} {verb} at {moment(first)}.", "", "idle")

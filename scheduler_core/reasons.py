"""The reasons of decisions in plain words: why a request had to leave, why it was not let in, what was kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

from scheduler_core.events import ConfigChanged, PreemptReason, RequestPreempted, RequestSkipped, SkipReason
from scheduler_core.lookup import request_before, request_in
from scheduler_core.request import RequestStatus
from scheduler_core.trace import Trace
from scheduler_core.words import are, bracketed_size, count, every, was


def preemption_cause(event: RequestPreempted, trace: Trace, tick: int) -> str:
    """Why a request had to leave, in one sentence with numbers."""
    who, other = event.request_id, event.for_request
    match event.reason:
        case PreemptReason.SLICE:
            return _slice_cause(event, trace, tick)
        case PreemptReason.MEMORY if other == who:
            return "It needed more blocks than were free, and no running request ranked behind it."
        case PreemptReason.MEMORY:
            return f"{other} needed more blocks than were free; {who} ranked last of those running."
        case PreemptReason.PUSH_OUT:
            return f"{other}{class_comparison(trace, tick, other, who)} was waiting and needed the room."
        case PreemptReason.LANES:
            lanes = trace.config_at(tick).max_num_seqs
            return f"The settings changed: only {count(lanes, 'lane')} {are(lanes)} left, and it ranked last."
    assert_never(event.reason)


def _slice_cause(event: RequestPreempted, trace: Trace, tick: int) -> str:
    quantum, used = trace.config_at(tick).quantum, event.slice_used
    waiting = f"{event.for_request}{class_comparison(trace, tick, event.for_request, event.request_id)} was waiting"
    if quantum is None or used < quantum:
        return f"Its slice was over after {count(used, 'tick')}, and {waiting}."
    if used == quantum:
        return f"Its slice of {count(quantum, 'tick')} ended while {waiting}."
    return f"Its slice of {count(quantum, 'tick')} was over (it had run {used:,}), and {waiting}."


def class_comparison(trace: Trace, tick: int, other: str, victim: str) -> str:
    """Says ", of a better class (0 before 2)," where that is so, by the keys with which the tick was decided."""
    record = trace.records[tick]
    one, two = request_in(record, other), request_before(trace, tick, victim)
    if one is None or two is None or any(isinstance(event, ConfigChanged) for event in record.events):
        return ""
    if one.status is RequestStatus.FINISHED or one.key_class >= two.key_class:
        return ""
    match trace.config_at(tick).policy:
        case "shortest":
            return f", with fewer tokens to go ({one.key_class:,} against {two.key_class:,}),"
        case "longest_prefix":
            return f", with {count(two.key_class - one.key_class, 'more cached block')},"
        case _:
            return f", of a better class ({one.key_class:,} before {two.key_class:,}),"


def kept_and_lost(event: RequestPreempted) -> str:
    """What became of the KV of a preempted request, in one sentence."""
    lost = f"{count(event.tokens_lost, 'token')} of KV {was(event.tokens_lost)} dropped"
    if event.tokens_saved:
        blocks = f"{count(event.blocks_saved, 'block')}{bracketed_size(event.bytes_saved)}"
        kept = f"{count(event.tokens_saved, 'token')} of KV ({blocks}) {was(event.tokens_saved)} saved to the host"
        return f"{kept}; {lost}." if event.tokens_lost else f"{kept}."
    if event.tokens_lost:
        return f"Its {lost} and will be computed again, unless the prefix cache still holds them; its text is kept."
    return "It had computed nothing yet, so nothing was lost."


def skip_cause(event: RequestSkipped) -> str:
    """The rule that kept a request out of a tick, in one sentence with the event's numbers."""
    n = dict(event.numbers)
    match event.reason:
        case SkipReason.BUDGET:
            return f"The budget of {count(n['budget'], 'token')} has {n['budget_left']:,} left."
        case SkipReason.LANES:
            lanes = every(n["lanes"], "lane").capitalize()
            return "The only lane is taken." if n["lanes"] == 1 else f"{lanes} are taken."
        case SkipReason.MEMORY:
            return memory_cause(n)
        case SkipReason.BATCH_CLOSED:
            batch = "the request in it has" if n["running"] == 1 else f"{every(n['running'], 'request')} in it have"
            return f"The batch is closed until {batch} finished."
        case SkipReason.PREEMPTED_FOR_MEMORY:
            victims = count(n["preempted"], "request")
            return f"Memory ran short in this tick ({victims} had to leave), so nobody is let in."
        case SkipReason.JUST_PREEMPTED:
            return "A request that was preempted in this very tick stands before it and comes back in the next."
        case SkipReason.FINISHING:
            verbs = ("finishes", "makes") if n["finishing"] == 1 else ("finish", "make")
            who = count(n["finishing"], "request")
            return f"{who} {verbs[0]} in this tick and so {verbs[1]} room; nobody is pushed out."
        case SkipReason.TURN:
            kinds = ("prompts", "answers") if n["for_prompts"] else ("answers", "prompts")
            return f"Batches are not mixed, and this tick is for {kinds[0]}; the next is for {kinds[1]}."
    assert_never(event.reason)


def memory_cause(n: Mapping[str, int]) -> str:
    """Says "It needs 6 blocks; 14 are free, 9 are promised to running requests: 5 are left."."""
    free, promised, watermark = max(0, n["blocks_free"]), n.get("blocks_promised", 0), n.get("watermark", 0)
    text = f"It needs {count(n['blocks_needed'], 'block')}; {free:,} {are(free)} free"
    if promised:
        text += f", {promised:,} {are(promised)} promised to running requests"
    if watermark:
        text += f", {watermark:,} {are(watermark)} kept in reserve"
    left = memory_left(n)
    return text + (f": {left:,} {are(left)} left." if promised or watermark else ".")


def memory_left(n: Mapping[str, int]) -> int:
    """Blocks that the rule leaves to the request, of a memory skip's numbers."""
    return max(0, n["blocks_free"] - n.get("blocks_promised", 0) - n.get("watermark", 0))

"""Why a request was not in a tick's batch: the rules up to the first one that stopped it."""

from __future__ import annotations

from typing import assert_never

from scheduler_core.events import FaultInjected, RequestPreempted, RequestScheduled, SkipReason
from scheduler_core.explanation import Check, Explanation
from scheduler_core.instant import budget_left, longest
from scheduler_core.lookup import request_before, request_in
from scheduler_core.narration import narrate
from scheduler_core.reasons import memory_left, skip_cause
from scheduler_core.remedies import remedy
from scheduler_core.request import RequestStatus
from scheduler_core.skip import Skip, cached_blocks, skips
from scheduler_core.trace import Trace
from scheduler_core.words import are, count, names, ordinal


def explain_left_out(trace: Trace, tick: int, request_id: str) -> Explanation:
    """A request that keeps its lane but is not in the batch."""
    headline = f"{request_id} kept its lane but was left out of this tick."
    lane = Check(True, "It has a lane.")
    own = [skip for skip in skips(trace, tick) if skip.event.request_id == request_id and skip.was_running]
    if own:
        checks = (lane, Check(False, _stop_text(own[-1])))
        return Explanation(headline, checks, remedy("It", own[-1]), "left_out")
    events = trace.records[tick].events
    faults = [e for e in events if isinstance(e, FaultInjected) and e.request_id in (request_id, "")]
    return Explanation(headline, (lane, *(Check(False, narrate(e, trace, tick).whole) for e in faults)), "", "left_out")


def explain_waiting(trace: Trace, tick: int, request_id: str) -> Explanation:
    """A request in the queue: it is the first and something stops it, or it stands behind the first."""
    headline = f"{request_id} did not run in this tick."
    first = next((skip for skip in reversed(skips(trace, tick)) if not skip.was_running), None)
    if first is None:
        return Explanation(headline, (Check(None, "Nobody was considered for a lane in this tick."),), "", "waiting")
    if first.event.request_id == request_id:
        return Explanation(headline, (*_rules(first), *_slices(first)), remedy("It", first), "waiting")
    head = first.event.request_id
    queue = first.snapshot.waiting
    ahead = queue[: queue.index(request_id)]
    place = Check(False, f"It stands {ordinal(len(ahead) + 1)} of {len(queue)} in the queue, behind {names(ahead)}.")
    reason = Check(False, f"{head} is considered first and does not get in. {_stop_text(first)}")
    advice = f"The queue is served in order, so {head} has to get in first. {remedy(head, first)}".rstrip()
    return Explanation(headline, (place, reason), advice, "waiting")


def _rules(skip: Skip) -> tuple[Check, ...]:
    """The rules up to the one that failed, in the order in which they are asked."""
    stop = Check(False, _stop_text(skip))
    if skip.event.reason is SkipReason.BUDGET:
        return (_lane_check(skip), stop)
    if skip.event.reason is SkipReason.MEMORY:
        return (_lane_check(skip), _budget_check(skip), stop)
    return (stop,)


def _lane_check(skip: Skip) -> Check:
    used, lanes = len(skip.instant.running), skip.config.max_num_seqs
    return Check(True, f"A lane is free ({used} of {lanes} in use).")


def _budget_check(skip: Skip) -> Check:
    budget, left = skip.config.max_num_batched_tokens, budget_left(skip.record, skip.index, skip.config)
    return Check(True, "The token budget has some left." if left is None else _has_left(budget, left))


def _has_left(budget: int, left: int) -> str:
    return f"The token budget has {left:,} of {budget:,} left."


def _stop_text(skip: Skip) -> str:
    match skip.event.reason:
        case SkipReason.LANES:
            return f"{skip_cause(skip.event)[:-1]}, by {names(skip.instant.running)}."
        case SkipReason.BUDGET:
            return _budget_text(skip)
        case SkipReason.MEMORY:
            return _memory_text(skip)
        case SkipReason.JUST_PREEMPTED:
            return _just_preempted_text(skip)
        case SkipReason.FINISHING:
            who = _finishing(skip)
            verb = "finishes" if len(who) == 1 else "finish"
            return f"{names(who)} {verb} in this tick, which makes room, so nobody is pushed out for it."
        case SkipReason.BATCH_CLOSED | SkipReason.PREEMPTED_FOR_MEMORY | SkipReason.TURN:
            return skip_cause(skip.event)
    assert_never(skip.event.reason)


def _budget_text(skip: Skip) -> str:
    given = [e for e in skip.record.events if isinstance(e, RequestScheduled)]
    largest = sorted(given, key=lambda event: -event.num_tokens)[:4]
    shares = ", ".join(f"{event.request_id} {event.num_tokens:,}" for event in largest)
    more = " and others" if len(given) > len(largest) else ""
    return f"The token budget of {skip.numbers['budget']:,} is used up ({shares}{more})."


def _memory_text(skip: Skip) -> str:
    """Says "Memory: it needs 6 blocks; 14 are free, 9 are promised to R4, which is still reading: 5 are left."."""
    n = skip.numbers
    cached = cached_blocks(skip)
    beyond = f" beyond the {cached:,} found in the cache" if cached else ""
    free = max(0, n["blocks_free"])
    text = f"Memory: {_what_needs(skip)} needs {count(n['blocks_needed'], 'block')}{beyond}; {free:,} {are(free)} free"
    if skip.config.batch_order == "prefill_first":
        text += " beside what decodes need in this tick"
    if n["blocks_promised"]:
        text += f", {n['blocks_promised']:,} {are(n['blocks_promised'])} promised to {_readers(skip)}"
    if n["watermark"]:
        text += f", {n['watermark']:,} {are(n['watermark'])} kept in reserve"
    left = memory_left(n)
    return text + (f": {left:,} {are(left)} left." if left != free else ".")


def _what_needs(skip: Skip) -> str:
    state = request_in(skip.record, skip.event.request_id)
    if skip.config.admission == "first_chunk":
        return "its next chunk"
    return "its text so far" if state is not None and state.num_output_tokens else "its prompt"


def _readers(skip: Skip) -> str:
    """Who still has known tokens to compute, and so will need the promised blocks."""
    states = (request_in(skip.record, request_id) for request_id in skip.instant.running)
    reading = [s.id for s in states if s is not None and s.num_tokens - s.num_computed_tokens > 1]
    if not reading:
        return "running requests"
    return f"{names(reading)}, {'which is' if len(reading) == 1 else 'which are'} still reading"


def _just_preempted_text(skip: Skip) -> str:
    gone = {event.request_id for event in skip.record.events if isinstance(event, RequestPreempted)}
    queue = skip.snapshot.waiting
    place = queue.index(skip.event.request_id) if skip.event.request_id in queue else 0
    ahead = [request_id for request_id in queue[:place] if request_id in gone]
    verb, come = ("stands", "comes") if len(ahead) == 1 else ("stand", "come")
    if not ahead:
        return skip_cause(skip.event)
    return f"{names(ahead)}, preempted in this very tick, {verb} before it and {come} back in the next at the earliest."


def _finishing(skip: Skip) -> list[str]:
    """Those who reach their limit of tokens in this tick."""
    items = [item for item in skip.record.output.scheduled if item.samples]
    return [i.request_id for i in items if i.end + 1 >= longest(skip.trace.request(i.request_id), skip.config)]


def _slices(skip: Skip) -> tuple[Check, ...]:
    """What the slices of the running requests have to do with it."""
    quantum = skip.config.quantum
    could_help = skip.event.reason in (SkipReason.LANES, SkipReason.BUDGET, SkipReason.MEMORY)
    if quantum is None or not could_help or not skip.instant.running:
        return ()
    used = {i: request_before(skip.trace, skip.tick, i) for i in skip.instant.running}
    ran = [state for state in used.values() if state is not None and state.status is RequestStatus.RUNNING]
    over = [state.id for state in ran if state.slice_used >= quantum]
    if not over:
        return (Check(None, "No running request has used up its slice, so nobody has to leave for it."),)
    whose = f"The {'slice' if len(over) == 1 else 'slices'} of {names(over)} {are(len(over))} over"
    why = "it would still rank behind, or not fit even then, or they finish by themselves"
    return (Check(None, f"{whose}, but nobody has to leave: {why}."),)

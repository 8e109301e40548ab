"""Why a request was not in a tick's batch: the first rule that stopped it, and the smallest change that would not."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import assert_never

from scheduler_core.config import EngineConfig
from scheduler_core.events import (
    FaultInjected,
    RequestPreempted,
    RequestScheduled,
    RequestSkipped,
    SkipReason,
)
from scheduler_core.explanation import Check, Explanation, options
from scheduler_core.instant import Instant, budget_left, instant_before, longest, tokens_left
from scheduler_core.lookup import request_before, request_in
from scheduler_core.output import ScheduledRequest
from scheduler_core.reasons import memory_left, skip_cause
from scheduler_core.trace import Snapshot, TickRecord, Trace
from scheduler_core.words import are, count, names, ordinal


@dataclass(frozen=True, slots=True)
class Skip:
    """A skip event in its tick, with the state just before it."""

    trace: Trace
    tick: int
    index: int
    event: RequestSkipped
    instant: Instant

    @property
    def record(self) -> TickRecord:
        return self.trace.records[self.tick]

    @property
    def snapshot(self) -> Snapshot:
        snapshot = self.record.snapshot
        assert snapshot is not None
        return snapshot

    @property
    def config(self) -> EngineConfig:
        return self.trace.config_at(self.tick)

    @property
    def numbers(self) -> dict[str, int]:
        return dict(self.event.numbers)

    @property
    def was_running(self) -> bool:
        return self.event.request_id in self.instant.running


def skips(trace: Trace, tick: int) -> list[Skip]:
    """Every skip of the tick, in order."""
    events = trace.records[tick].events
    return [
        Skip(trace, tick, index, event, instant_before(trace, tick, index))
        for index, event in enumerate(events)
        if isinstance(event, RequestSkipped)
    ]


def explain_left_out(trace: Trace, tick: int, request_id: str) -> Explanation:
    """A request that keeps its lane but is not in the batch."""
    headline = f"{request_id} kept its lane but was left out of this tick."
    lane = Check(True, "It has a lane.")
    own = [skip for skip in skips(trace, tick) if skip.event.request_id == request_id and skip.was_running]
    if own:
        checks = (lane, Check(False, _budget_text(own[-1])))
        return Explanation(headline, checks, _budget_remedy("It", own[-1]), "left_out")
    events = trace.records[tick].events
    faults = [e for e in events if isinstance(e, FaultInjected) and e.request_id in (request_id, "")]
    return Explanation(headline, (lane, *(Check(False, f"{e.name}: {e.detail}.") for e in faults)), "", "left_out")


def explain_waiting(trace: Trace, tick: int, request_id: str) -> Explanation:
    """A request in the queue: it is the first and something stops it, or it stands behind the first."""
    headline = f"{request_id} did not run in this tick."
    first = next((skip for skip in reversed(skips(trace, tick)) if not skip.was_running), None)
    if first is None:
        return Explanation(headline, (Check(None, "Nobody was considered for a lane in this tick."),), "", "waiting")
    if first.event.request_id == request_id:
        return Explanation(headline, (*_rules(first), *_slices(first)), _remedy("It", first), "waiting")
    head = first.event.request_id
    queue = first.snapshot.waiting
    ahead = queue[: queue.index(request_id)]
    place = Check(False, f"It stands {ordinal(len(ahead) + 1)} of {len(queue)} in the queue, behind {names(ahead)}.")
    reason = Check(False, f"{head} is considered first and does not get in. {_stop_text(first)}")
    remedy = f"The queue is served in order, so {head} has to get in first. {_remedy(head, first)}".rstrip()
    return Explanation(headline, (place, reason), remedy, "waiting")


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
        case SkipReason.BATCH_CLOSED | SkipReason.PREEMPTED_FOR_MEMORY:
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
    cached = _cached_blocks(skip)
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


def _cached_blocks(skip: Skip) -> int:
    """Blocks that the lookup found, where the rule asks for room for the whole sequence."""
    state = request_in(skip.record, skip.event.request_id)
    if state is None or skip.config.admission == "first_chunk":
        return 0
    return -(-state.num_tokens // skip.config.block_size) - skip.numbers["blocks_needed"]


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
    over = [i for i, state in used.items() if state is not None and state.slice_used >= quantum]
    if not over:
        return (Check(None, "No running request has used up its slice, so nobody has to leave for it."),)
    whose = f"The {'slice' if len(over) == 1 else 'slices'} of {names(over)} {are(len(over))} over"
    why = "it would still rank behind, or not fit even then, or they finish by themselves"
    return (Check(None, f"{whose}, but nobody has to leave: {why}."),)


def _remedy(subject: str, skip: Skip) -> str:
    match skip.event.reason:
        case SkipReason.LANES:
            return _lanes_remedy(subject, skip)
        case SkipReason.BUDGET:
            return _budget_remedy(subject, skip)
        case SkipReason.MEMORY:
            return _memory_remedy(subject, skip)
        case SkipReason.BATCH_CLOSED:
            batch = f"{names(skip.instant.running)} {are(len(skip.instant.running))} done"
            return f"{subject} gets in when {batch}; another admission rule would not wait for that."
        case SkipReason.PREEMPTED_FOR_MEMORY | SkipReason.JUST_PREEMPTED | SkipReason.FINISHING:
            return f"{subject} is considered again in the next tick."
    assert_never(skip.event.reason)


def _lanes_remedy(subject: str, skip: Skip) -> str:
    lanes = skip.config.max_num_seqs
    more = skip.numbers["lanes_used"] - lanes + 1
    left = budget_left(skip.record, skip.index, skip.config)
    if left == 0:
        return f"{subject} needs a lane, and then tokens: the budget of this tick is used up as well."
    if left is None or not _surely_fits(skip):
        return f"{subject} needs a lane; only then is memory asked for ({_free(skip)})."
    later = "once one of those in a lane is done" if len(skip.instant.running) == lanes else ""
    return options(subject, [f"with {count(more, 'more lane')} ({lanes + more} in all)"], later)


def _budget_remedy(subject: str, skip: Skip) -> str:
    """The budget that serves all who come before it, and one token more; only claimed where memory would suffice."""
    items = skip.record.output.scheduled
    wanted = {item.request_id: _wanted(skip.trace, skip.tick, item, skip.config) for item in items}
    skipped = [_wanted_by_skipped(skip, o) for o in skips(skip.trace, skip.tick) if o.index < skip.index]
    needed = 1 + sum(wanted.values()) + sum(skipped)
    size = skip.config.block_size
    growth = sum(_more_blocks(i, wanted[i.request_id], size) for i in items) + sum(-(-w // size) for w in skipped)
    # Tokens that a preemption gave back, or that "prefill_first" gives to newcomers, are not on record.
    is_hidden = skip.config.batch_order == "prefill_first" or any(
        isinstance(event, RequestPreempted) for event in skip.record.events
    )
    if is_hidden or not _surely_fits(skip, growth):
        return f"{subject} needs a larger token budget; only then is memory asked for ({_free(skip)})."
    return options(subject, [f"with a token budget of {needed:,}"])


def _more_blocks(item: ScheduledRequest, tokens: int, block_size: int) -> int:
    """Blocks that the request would take beyond those it has if it computed that many tokens."""
    return max(0, -(-(item.start + tokens) // block_size) - len(item.block_ids))


def _wanted(trace: Trace, tick: int, item: ScheduledRequest, config: EngineConfig) -> int:
    """Tokens that a scheduled request would take if the budget had no end."""
    return _capped(tokens_left(trace, tick, item), config)


def _wanted_by_skipped(skip: Skip, other: Skip) -> int:
    state = request_before(skip.trace, skip.tick, other.event.request_id)
    if state is None or not other.was_running:
        return 0
    return _capped(state.num_tokens - state.num_computed_tokens, skip.config)


def _capped(tokens: int, config: EngineConfig) -> int:
    is_capped = config.enable_chunked_prefill and config.chunk_size is not None
    return min(tokens, config.chunk_size) if is_capped and config.chunk_size is not None else tokens


def _surely_fits(skip: Skip, growth: int = 0) -> bool:
    """Whether memory would let it in even if the cache held nothing for it and others took `growth` blocks more."""
    state, config = request_in(skip.record, skip.event.request_id), skip.config
    if state is None:
        return False
    if config.batch_order == "prefill_first":
        growth += len(skip.instant.running)  # the decodes, which are served later, may need a block each
    if skip.was_running:
        return 1 + growth <= skip.instant.free_blocks
    counts_promises = config.admission in ("whole_minus_promised", "when_empty")
    taken = max(growth, skip.snapshot.promised_blocks if counts_promises else 0)
    needed = -(-state.num_tokens // config.block_size)
    return needed <= skip.instant.free_blocks - taken - config.watermark


def _free(skip: Skip) -> str:
    free = skip.instant.free_blocks
    return f"{count(free, 'block')} {are(free)} free"


def _memory_remedy(subject: str, skip: Skip) -> str:
    n = skip.numbers
    missing = n["blocks_needed"] - (n["blocks_free"] - n["blocks_promised"] - n["watermark"])
    ways = [f"with {count(missing, 'more free block')}"]
    if n["watermark"] >= missing:
        ways.append(f"with a watermark of {n['watermark'] - missing:,}")
    if n["blocks_promised"] >= missing and skip.config.admission == "whole_minus_promised":
        ways.append("with an admission rule that does not count promises")
    return options(subject, ways, _who_makes_room(skip, missing))


def _who_makes_room(skip: Skip, missing: int) -> str:
    """The running request, nearest to its end, that alone holds enough blocks which nobody shares."""
    tables = [state for i in skip.snapshot.running if (state := request_in(skip.record, i)) is not None]
    holders = Counter(block for state in tables for block in state.block_ids)
    to_go = {s.id: longest(skip.trace.request(s.id), skip.config) - s.num_tokens for s in tables}
    for state in sorted(tables, key=lambda state: to_go[state.id]):
        own = sum(1 for block in state.block_ids if holders[block] == 1)
        # Blocks that the lookup found stay attached, so at worst all of them are among these.
        if own - _cached_blocks(skip) >= missing:
            left = f"{count(own, 'block')}, at most {count(to_go[state.id], 'token')} to generate"
            return f"once {state.id} is done ({left})"
    return ""

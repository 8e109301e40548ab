"""The smallest change that would have let a request run, claimed only where the tick's record proves it."""

from __future__ import annotations

from collections import Counter
from typing import assert_never

from scheduler_core.chunk_range import is_steered
from scheduler_core.config import EngineConfig
from scheduler_core.events import RequestPreempted, SkipReason
from scheduler_core.explanation import options
from scheduler_core.instant import budget_left, decodes_later, longest, tokens_left
from scheduler_core.lookup import request_before, request_in
from scheduler_core.output import ScheduledRequest
from scheduler_core.skip import Skip, cached_blocks, skips
from scheduler_core.trace import Trace
from scheduler_core.words import are, count, names


def remedy(subject: str, skip: Skip) -> str:
    """The smallest change that would let a waiting request in, as a sentence about `subject`."""
    match skip.event.reason:
        case SkipReason.LANES:
            return _lanes_remedy(subject, skip)
        case SkipReason.BUDGET:
            return budget_remedy(subject, skip)
        case SkipReason.MEMORY:
            return _memory_remedy(subject, skip)
        case SkipReason.BATCH_CLOSED:
            batch = f"{names(skip.instant.running)} {are(len(skip.instant.running))} done"
            return f"{subject} gets in when {batch}; another admission rule would not wait for that."
        case SkipReason.PREEMPTED_FOR_MEMORY | SkipReason.JUST_PREEMPTED | SkipReason.FINISHING:
            return f"{subject} is considered again in the next tick."
        case SkipReason.TURN:
            return f"{subject} could run in this tick if batches were mixed."
    assert_never(skip.event.reason)


def steered_remedy(config: EngineConfig) -> str:
    """What lets chunk control allow more tokens."""
    if config.chunk_control == "ramp":
        return "fixed, it would be as large as the settings allow."
    return f"a target above {config.chunk_target_ms:,} ms lets it allow more."


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


def budget_remedy(subject: str, skip: Skip) -> str:
    """The budget that serves all who come before it, and one token more; only claimed where memory would suffice."""
    if is_steered(skip.config) and skip.config.chunk_moves == "budget":
        return (
            f"{subject} needs a larger token budget, and chunk control has set this one; {steered_remedy(skip.config)}"
        )
    items = skip.record.output.scheduled
    wanted = {item.request_id: _wanted(skip.trace, skip.tick, item, skip.config) for item in items}
    skipped = [_wanted_by_skipped(skip, o) for o in skips(skip.trace, skip.tick) if o.index < skip.index]
    needed = 1 + sum(wanted.values()) + sum(skipped)
    size = skip.config.block_size
    growth = sum(_more_blocks(i, wanted[i.request_id], size) for i in items) + sum(-(-w // size) for w in skipped)
    # Tokens that a preemption gave back, or that "prefill_first" gives to newcomers, are not on record.
    is_hidden = decodes_later(skip.config) or any(isinstance(event, RequestPreempted) for event in skip.record.events)
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
        if own - cached_blocks(skip) >= missing:
            left = f"{count(own, 'block')}, at most {count(to_go[state.id], 'token')} to generate"
            return f"once {state.id} is done ({left})"
    return ""

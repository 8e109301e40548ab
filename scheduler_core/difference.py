"""Whether two runs of one workload differ, and if a changed setting made no difference, why not."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from scheduler_core.events import (
    BlockEvicted,
    Event,
    PreemptReason,
    RequestPreempted,
    RequestSkipped,
    SkipReason,
    SliceExpired,
)
from scheduler_core.trace import Trace
from scheduler_core.words import count

Schedule = tuple[tuple[tuple[str, int, int], ...], ...]


def schedule(trace: Trace) -> Schedule:
    """What was computed in each tick: (request, first token, past the last), in the order of the batch."""
    return tuple(
        tuple((item.request_id, item.start, item.end) for item in record.output.scheduled) for record in trace.records
    )


def makes_a_difference(before: Trace, after: Trace) -> bool:
    """Whether anything was computed at another time, or a request was preempted, saved or evicted otherwise."""
    return schedule(before) != schedule(after) or _losses(before) != _losses(after)


def why_no_difference(before: Trace, after: Trace) -> str:
    """Why the settings that changed between two equal runs never decided anything, in one sentence for each."""
    changes = after.config.changed_from(before.config)
    return " ".join(_sentence(name, old, new, before, after) for name, (old, new) in changes.items())


def reasons(before: Trace, after: Trace) -> list[str]:
    """The same without the names of the settings, each reason once."""
    changes = after.config.changed_from(before.config)
    return list(dict.fromkeys(_reason(name, old, new, before, after) for name, (old, new) in changes.items()))


def _losses(trace: Trace) -> list[tuple[int, Event]]:
    kinds = (RequestPreempted, BlockEvicted)
    return [(record.tick, event) for record in trace.records for event in record.events if isinstance(event, kinds)]


def _sentence(name: str, old: Any, new: Any, before: Trace, after: Trace) -> str:
    words = name.replace("_", " ")
    return f"{words} {_show(old)} to {_show(new)}: {_reason(name, old, new, before, after)}."


def _reason(name: str, old: Any, new: Any, before: Trace, after: Trace) -> str:
    match name:
        case "quantum":
            return _quantum(old, new, before, after)
        case "chunk_size" | "enable_chunked_prefill" | "cap_lone_request":
            return _chunk(after)
        case "chunk_control" | "chunk_target_ms" | "chunk_signal" | "chunk_moves" | "chunk_response":
            return _steering(name, after)
        case "max_num_batched_tokens":
            return f"no tick computed more than {count(_largest_batch(after), 'token')}"
        case "max_num_seqs":
            running = max((record.counts.running for record in after.records), default=0)
            return f"no more than {count(running, 'request')} ever ran at once"
        case "policy" | "aging" | "mlfq_levels" | "priority_push_out":
            return _order(name, after)
        case "enable_prefix_caching":
            return "no prompt began with a full block that was already computed"
        case "preemption_mode" | "num_swap_blocks":
            return _preemption(after)
        case "num_blocks" | "watermark" | "admission":
            return _memory(after)
        case "batch_order":
            return "the budget was never too small for all who ran" if not _skips(after, SkipReason.BUDGET) else _ALWAYS
        case "mixed_batches":
            return "no tick computed tokens of prompts and of answers"
        case "seed":
            return "every request takes its likeliest token, so nothing is drawn by chance"
        case "max_model_len":
            longest = max((_length(after, spec.id) for spec in after.requests), default=0)
            return f"no request grew past {count(longest, 'token')}"
        case _:
            return _ALWAYS


_ALWAYS = "each time it was asked, the answer was the same"


def _quantum(old: int | None, new: int | None, before: Trace, after: Trace) -> str:
    shortest = min(value for value in (old, new) if value is not None)
    if not any(_events(before, SliceExpired)) and not any(_events(after, SliceExpired)):
        return f"no request ever ran {count(shortest, 'tick')} in one go"
    if not any(event.reason is PreemptReason.SLICE for event in _events(after, RequestPreempted)):
        return f"no request ever ran {count(shortest, 'tick')} while another waited that could take its place"
    return _ALWAYS


def _chunk(after: Trace) -> str:
    parts = [item.num_tokens for record in after.records for item in record.output.scheduled if not item.is_decode]
    return f"no more than {count(max(parts, default=0), 'token')} of a prompt could enter a tick anyway"


def _steering(name: str, after: Trace) -> str:
    if after.config.chunk_control == "fixed" or not after.config.enable_chunked_prefill:
        return "nothing steers the chunks"
    if name != "chunk_control" and after.config.chunk_control == "ramp" and name != "chunk_moves":
        return "a ramp measures nothing"
    return _chunk(after)


def _order(name: str, after: Trace) -> str:
    if max((record.counts.waiting for record in after.records), default=0) <= 1:
        return "never more than one request waited, so there was no order to choose"
    if name == "mlfq_levels" and after.config.policy != "mlfq":
        return f"the policy is {after.config.policy}, which has no levels"
    if name in ("aging", "priority_push_out") and len({spec.priority for spec in after.requests}) == 1:
        return "all requests are of one class"
    return "it led to the same order"


def _preemption(after: Trace) -> str:
    if not any(_events(after, RequestPreempted)):
        return "no request was preempted"
    return "what was preempted came back in the same ticks either way"


def _memory(after: Trace) -> str:
    used = max((record.counts.used_blocks for record in after.records), default=0)
    if not _skips(after, SkipReason.MEMORY):
        return f"memory was never short: no more than {count(used, 'block')} were ever in use"
    return _ALWAYS


def _largest_batch(trace: Trace) -> int:
    return max((record.counts.scheduled_tokens for record in trace.records), default=0)


def _length(trace: Trace, request_id: str) -> int:
    ends = (item.end for record in trace.records for item in record.output.scheduled if item.request_id == request_id)
    return max(ends, default=0)


def _skips(trace: Trace, reason: SkipReason) -> Sequence[RequestSkipped]:
    return [event for event in _events(trace, RequestSkipped) if event.reason is reason]


def _events(trace: Trace, kind: type[Any]) -> Iterable[Any]:
    return (event for record in trace.records for event in record.events if isinstance(event, kind))


def _show(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return "off" if value is None else str(value)


def same_run(before: Trace, after: Trace) -> bool:
    """Whether two traces are of one workload, so that comparing them makes sense."""
    return before.requests == after.requests and _kind(before) == _kind(after)


def _kind(trace: Trace) -> str:
    return trace.backend.recorded_kind or trace.backend.kind

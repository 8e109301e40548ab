"""What chunk control did after a tick, in a sentence."""

from __future__ import annotations

from typing import assert_never

from scheduler_core.chunk_range import ChunkRange
from scheduler_core.events import ChunkSteered, Event, SteerReason
from scheduler_core.sentence import Sentence
from scheduler_core.trace import Trace
from scheduler_core.words import count, duration

#: The settings that are moved, in words.
NAMES = {"chunk_size": "chunk size", "max_num_batched_tokens": "token budget"}
_SIGNALS = {
    "tick": "the tick took",
    "itl_p99": "the 99th percentile of the last gaps between tokens (ITL p99) was",
    "measured_tick": "the model took, as measured,",
}
#: Told where they begin, even though nothing moves.
_HELD = (SteerReason.AT_LOWEST, SteerReason.NOT_MEASURED)


def steering(trace: Trace, tick: int) -> ChunkSteered | None:
    """What chunk control decided after that tick."""
    return next((e for e in trace.records[tick].events if isinstance(e, ChunkSteered)), None)


def is_news(event: Event, trace: Trace, tick: int) -> bool:
    """Whether a tick's narration tells it: a size that moved, or the first tick of a target that cannot be kept."""
    if not isinstance(event, ChunkSteered):
        return False
    if event.new != event.old:
        return True
    before = steering(trace, tick - 1) if tick else None
    is_first = before is None or before.reason is not event.reason
    silent = event.reason is SteerReason.NOT_MEASURED and trace.config_at(tick).chunk_signal != "measured_tick"
    return is_first and event.reason in _HELD and not silent


def steering_story(event: ChunkSteered, trace: Trace, tick: int) -> Sentence:
    """The decision and the figures behind it."""
    name = NAMES[event.setting]
    if event.new == event.old:
        lead = f"The {name} stays at {count(event.new, 'token')}."
    else:
        verb = "grows" if event.new > event.old else "shrinks"
        lead = f"The {name} {verb} from {event.old:,} to {count(event.new, 'token')}."
    return Sentence(lead, _why(event, trace, tick), "steered")


def _why(event: ChunkSteered, trace: Trace, tick: int) -> str:
    config = trace.config_at(tick)
    target = f"the target is {duration(event.target_s)}"
    seen = f"{_SIGNALS[config.chunk_signal]} {duration(event.measured_s)}"
    match event.reason:
        case SteerReason.TOO_SLOW | SteerReason.FASTER_THAN_NEEDED:
            return f"{seen[0].upper()}{seen[1:]}; {target}."
        case SteerReason.ON_TARGET:
            return f"{seen[0].upper()}{seen[1:]}, near enough: {target}."
        case SteerReason.AT_LOWEST:
            low = ChunkRange.of(trace.settings_at(tick)).low
            return f"The target cannot be kept: {seen} with the smallest size, {count(low, 'token')}; {target}."
        case SteerReason.AT_HIGHEST:
            return f"It is as large as the settings allow: {seen}; {target}."
        case SteerReason.NOTHING_TO_CUT:
            return f"Another size would not have changed this tick: {seen}; {target}."
        case SteerReason.NOT_MEASURED:
            return f"This tick has no time to go by; {target}."
        case SteerReason.RAMP:
            return "A ramp measures nothing: it grows while prompts are read, and begins anew after that."
    assert_never(event.reason)

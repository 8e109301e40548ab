"""What is told of a fault that was planned: what went wrong, and what became of those whom it met."""

from __future__ import annotations

from scheduler_core.attempts import next_attempt
from scheduler_core.events import FaultInjected, RequestFinished
from scheduler_core.request import FinishReason
from scheduler_core.sentence import Sentence
from scheduler_core.trace import Trace
from scheduler_core.words import are, count, names

_PLANNED = "planned_"
#: Kind of a fault that fails nobody -> what it comes to.
_HARMLESS = {
    "slow": "The call took longer, and nothing is lost.",
    "copy_out": "What was not saved is computed again.",
    "copy_in": "What was not brought back is computed again.",
    "store_full": "These blocks are not kept there.",
    "store_gone": "What it holds counts as not found, and is computed.",
}


def is_planned(event: FaultInjected) -> bool:
    """Whether somebody had this happen on purpose."""
    return event.name.startswith(_PLANNED)


def planned_fault(event: FaultInjected, trace: Trace, tick: int) -> Sentence:
    """The sentence for it."""
    kind = event.name.removeprefix(_PLANNED)
    if kind == "worker_killed":
        text = _killed(trace, tick)
    elif kind in _HARMLESS:
        text = _HARMLESS[kind]
    else:
        text = _failed(trace, tick, event.request_id)
    # A model that is slow in every tick is not what each tick is about.
    rank = "steered" if kind == "slow" else "fault"
    return Sentence(f"Planned fault: {event.detail}.", text, rank, event.request_id)


def _killed(trace: Trace, tick: int) -> str:
    before = trace.records[tick - 1].counts if tick else None
    alive = before.waiting + before.running if before else 0
    told = f"A new engine begins, which tries {count(alive, 'request')} again; " if alive else "A new engine begins; "
    return f"{told}what was in memory is lost, and the recording ends here."


def _failed(trace: Trace, tick: int, only: str) -> str:
    """Who failed in this tick, and as what they are tried again."""
    failed = [
        event.request_id
        for event in trace.records[tick].events
        if isinstance(event, RequestFinished) and event.reason is FinishReason.ERROR and only in ("", event.request_id)
    ]
    if not failed:
        return "The batch was computed again in parts, and nobody failed."
    again = {who: next_attempt(trace, who) for who in failed}
    tried = [who for who in failed if again[who]]
    rest = [who for who in failed if not again[who]]
    told = []
    if tried:
        told.append(f"{names(tried)} {are(len(tried))} tried again as {names([again[who] or '' for who in tried])}.")
    if rest:
        told.append(f"No further attempt at {names(rest)} is recorded.")
    return " ".join(told)

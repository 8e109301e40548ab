"""What is told of planned faults, in exact words, and of the attempts at a request."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduler_core.attempts import attempt_id, next_attempt, split_attempt
from scheduler_core.events import Event, FaultInjected, RequestFinished
from scheduler_core.narration import narrate, narrate_tick
from scheduler_core.request import FinishReason
from scheduler_core.trace import Trace
from tests.trace_builders import snapshot, spec, state, tick, trace


def served(*events: Event, ids: tuple[str, ...] = ("R1", "R2", "R1#2")) -> Trace:
    """A recorded gateway of one tick with these events."""
    made = trace([spec(name) for name in ids], tick(0, events=list(events), snap=snapshot(state("R1"), state("R2"))))
    return replace(made, scenario="served")


@pytest.mark.parametrize(
    ("kind", "detail", "words"),
    [
        ("slow", "the model was slow", "The call took longer, and nothing is lost."),
        ("copy_out", "a copy to the host failed", "What was not saved is computed again."),
        ("copy_in", "a copy from the host failed", "What was not brought back is computed again."),
        ("store_full", "a cache took nothing more (disk)", "These blocks are not kept there."),
        ("store_gone", "a cache did not answer", "What it holds counts as not found, and is computed."),
        ("worker_killed", "it died", "A new engine begins; what was in memory is lost, and the recording ends here."),
        ("raise", "the model raised", "The batch was computed again in parts, and nobody failed."),
    ],
)
def test_a_planned_fault_is_told_in_exact_words(kind: str, detail: str, words: str) -> None:
    event = FaultInjected(f"planned_{kind}", "", detail)
    assert narrate(event, served(event), 0).whole == f"Planned fault: {detail}. {words}"


def test_those_who_failed_are_told_with_the_attempt_that_follows() -> None:
    events: list[Event] = [
        FaultInjected("forward", "", "the model failed: planned"),
        FaultInjected("planned_raise", "", "the model raised"),
        *(RequestFinished(name, FinishReason.ERROR, "the model failed") for name in ("R1", "R2")),
    ]
    told = [sentence.whole for sentence in narrate_tick(served(*events), 0)]
    assert told[0] == (
        "Planned fault: the model raised. R1 is tried again as R1#2. No further attempt at R2 is recorded."
    )
    assert any(words.startswith("R1 failed.") and words.endswith("It is tried again as R1#2.") for words in told)
    assert not any("Forward" in words for words in told)


def test_ids_of_attempts_are_read_as_they_were_written() -> None:
    assert [attempt_id("R3", number) for number in (1, 2, 11)] == ["R3", "R3#2", "R3#11"]
    assert [split_attempt(name) for name in ("R3", "R3#2", "a#b#3")] == [("R3", 1), ("R3", 2), ("a#b", 3)]
    assert [split_attempt(name)[1] for name in ("#2", "R3#", "R3#1", "R3#x", "R3#٣", "R3#99999999")] == [1] * 6


def test_only_a_gateway_s_ids_are_read_as_attempts() -> None:
    made = served()
    assert (next_attempt(made, "R1"), next_attempt(made, "R1#2"), next_attempt(made, "R2")) == ("R1#2", None, None)
    assert next_attempt(replace(made, scenario="own"), "R1") is None

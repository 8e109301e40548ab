"""The requests that the naive scheduler and the real one are given: three long prompts and an urgent short one."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sent:
    """A request in words; `arrival` in seconds, a lower `priority` goes first."""

    id: str
    prompt: str
    max_tokens: int
    arrival: float = 0.0
    priority: int = 1


#: What the long prompts begin with, word by word.
COMMON = "Read the notes of our meeting and tell me in a few words what"

REQUESTS = (
    Sent("R1", f"{COMMON} Anna promised", 12),
    Sent("R2", f"{COMMON} Boris promised", 12),
    Sent("R3", f"{COMMON} Clara promised", 12),
    Sent("R4", "Quick: which of the rooms is free now?", 4, arrival=0.5, priority=0),
)

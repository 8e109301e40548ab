"""`Sentence`: a piece of narration, and the kinds there are."""

from __future__ import annotations

from dataclasses import dataclass

#: The kinds of sentence, most important first; those from "memory" on are told one by one only in the table of events.
KINDS = (
    "law",
    "fault",
    "preempted",
    "refused",
    "finished",
    "restored",
    "loaded",
    "hit",
    "admitted",
    "config",
    "arrived",
    "progress",
    "decode",
    "steered",
    "expired",
    "skipped",
    "evicted",
    "idle",
    "memory",
    "miss",
    "token",
    "scheduled",
)


@dataclass(frozen=True, slots=True)
class Sentence:
    """`lead` is set in bold, `text` goes on after it and may be empty.

    `request_id` is the request it is about, "" if none or several; `headline` marks the one sentence that
    stands for its tick.
    """

    lead: str
    text: str
    kind: str
    request_id: str = ""
    headline: bool = False

    @property
    def whole(self) -> str:
        return f"{self.lead} {self.text}".rstrip()

    @property
    def rank(self) -> int:
        """Smaller is more important."""
        return KINDS.index(self.kind)

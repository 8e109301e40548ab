"""What has been counted since the start, and whom to tell of what happens."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from scheduler_core.request import FinishReason

if TYPE_CHECKING:
    from scheduler_core.serving.stream import Stream
    from scheduler_core.serving.worker import Tick


#: The tier of blocks in the pool.
MEMORY = "memory"


@dataclass(slots=True)
class Counters:
    """submitted = finished + refused + aborted + dead + those in flight, at any time."""

    submitted: int = 0
    finished: int = 0
    refused: int = 0
    aborted: int = 0
    dead: int = 0
    retries: int = 0
    late_tokens: int = 0
    engine_restarts: int = 0
    prompt_tokens: int = 0
    output_tokens: int = 0
    preemptions: int = 0
    query_tokens: dict[str, int] = field(default_factory=dict)
    hit_tokens: dict[str, int] = field(default_factory=dict)

    def count_lookup(self, tier: str, queried: int, hit: int) -> None:
        """Tokens looked up in a tier at a first admission, and found there."""
        self.query_tokens[tier] = self.query_tokens.get(tier, 0) + queried
        self.hit_tokens[tier] = self.hit_tokens.get(tier, 0) + hit

    @property
    def hit_ratio(self) -> float:
        """Tokens found in any tier per token looked up in the first (0 to 1); 0 before any was."""
        queried = self.query_tokens.get(MEMORY, 0)
        return sum(self.hit_tokens.values()) / queried if queried else 0.0

    def count_end(self, reason: FinishReason) -> None:
        if reason in (FinishReason.STOP, FinishReason.LENGTH):
            self.finished += 1
        elif reason is FinishReason.REJECTED:
            self.refused += 1
        elif reason is FinishReason.ERROR:
            self.dead += 1
        else:
            self.aborted += 1


class Observer:
    """Hears of what takes time; this one listens to nothing."""

    def admitted(self, stream: Stream) -> None:
        """A request left the queue for the first time."""

    def token(self, stream: Stream, now: float) -> None:
        """A token is delivered; the stream's times are still those before it."""

    def ended(self, stream: Stream, now: float) -> None:
        """A request ended, in whatever way."""

    def ticked(self, tick: Tick) -> None:
        """The engine made a tick."""

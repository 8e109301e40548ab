"""What the scheduler hands to the model for one tick, and what comes back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from scheduler_core.request import SamplingParams


@dataclass(frozen=True, slots=True)
class ScheduledRequest:
    """One request's part of a tick's batch.

    `token_ids` stand at positions `start .. start + len(token_ids)` of the sequence; `block_ids` is its block
    table, long enough to hold them; when `samples` is true the model draws the output token number
    `output_index` (from 0) after the last of them. `seed` belongs to (run, request); with the position it keys
    the draw, so a text never depends on the schedule.
    """

    request_id: str
    token_ids: tuple[int, ...]
    start: int
    block_ids: tuple[int, ...]
    samples: bool
    output_index: int
    sampling: SamplingParams
    seed: int
    recomputed_tokens: int = 0

    @property
    def num_tokens(self) -> int:
        return len(self.token_ids)

    @property
    def end(self) -> int:
        return self.start + len(self.token_ids)

    @property
    def is_decode(self) -> bool:
        return len(self.token_ids) == 1 and self.samples and self.output_index > 0


@dataclass(frozen=True, slots=True)
class BlockCopy:
    """KV of one request moved between the device and the host, whole blocks in order of position.

    Out: the blocks of the table to save. In: `block_ids` receive the saved blocks from `first_block` on.
    """

    request_id: str
    block_ids: tuple[int, ...]
    first_block: int = 0


@dataclass(frozen=True, slots=True)
class BlockLoad:
    """KV of one request read from the store `tier` into `block_ids`, of which the first is number `first_block`."""

    request_id: str
    tier: str
    first_block: int
    block_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SchedulerOutput:
    """One tick's decisions: the ragged batch, and the copies to make before it (out first, then in, then loads)."""

    #: Older files do not have it.
    LATER: ClassVar[tuple[str, ...]] = ("loads",)

    tick: int
    scheduled: tuple[ScheduledRequest, ...] = ()
    copies_out: tuple[BlockCopy, ...] = ()
    copies_in: tuple[BlockCopy, ...] = ()
    loads: tuple[BlockLoad, ...] = ()

    @property
    def num_scheduled_tokens(self) -> int:
        return sum(item.num_tokens for item in self.scheduled)


@dataclass(frozen=True, slots=True)
class TokenProb:
    """One candidate for the next token with its probability (0 to 1)."""

    token_id: int
    text: str
    prob: float


@dataclass(frozen=True, slots=True)
class SampledToken:
    """A drawn token, its text, and the most likely candidates, best first."""

    token_id: int
    text: str = ""
    top: tuple[TokenProb, ...] = ()


@dataclass(frozen=True, slots=True)
class ModelRunnerOutput:
    """What the model computed in a tick: drawn tokens by request id, and requests that failed with a reason."""

    sampled: dict[str, SampledToken]
    wall_seconds: float = 0.0
    failed: dict[str, str] | None = None

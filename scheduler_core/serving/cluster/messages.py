"""What goes between a gateway and a replica: plain values, carried by Ray between its own processes."""

from __future__ import annotations

from dataclasses import dataclass

from scheduler_core.request import SamplingParams

#: Above it lie the halves of characters, which no text may hold.
_FIRST_HALF = 0xD800
_NUM_HALVES = 0x800
_NUM_CHARACTERS = 0x110000 - _NUM_HALVES


@dataclass(frozen=True, slots=True)
class Work:
    """One attempt at a request, for a gateway; the replica gives up after `timeout_s`, should nobody recall it."""

    prompt_token_ids: tuple[int, ...]
    sampling: SamplingParams
    priority: int
    salt: str
    attempt: int
    timeout_s: float
    gateway: str

    @property
    def prompt(self) -> str:
        """What Ray's router by prefix compares: the salt, then a character for each token."""
        return "".join(map(_character, (*self.salt.encode(), 0, *self.prompt_token_ids)))


def _character(token_id: int) -> str:
    place = token_id % _NUM_CHARACTERS
    return chr(place if place < _FIRST_HALF else place + _NUM_HALVES)


@dataclass(frozen=True, slots=True)
class Part:
    """What an attempt has come to since the last part.

    The first one tells how many seconds it waited and how much of the prompt was cached. The last one has a `reason`
    (a `FinishReason` by name), or `problem`, of a `kind`: "never_fits", "queue_full", or "failed".
    """

    token_ids: tuple[int, ...] = ()
    waited_s: float | None = None
    cached_tokens: int = 0
    reason: str | None = None
    kind: str | None = None
    problem: str = ""
    retry_after_s: int = 1


@dataclass(frozen=True, slots=True)
class ReplicaStatus:
    """A replica in figures; `rank` is its place among the replicas, which its successor takes."""

    rank: int
    pid: int
    in_flight: int
    running: int
    waiting: int
    free_blocks: int
    stalled: bool

"""A tick made by hand: what each request computes in it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import Self

from scheduler_core.output import ScheduledRequest, SchedulerOutput
from scheduler_core.request import SamplingParams

BLOCK_SIZE = 16
#: Any token serves: what a tick costs does not depend on the text.
_TOKEN = 100


@dataclass(frozen=True, slots=True)
class Part:
    """One request's part of a tick: `tokens` from position `start` on, and whether a token is drawn after them."""

    start: int
    tokens: int
    draws: bool

    @classmethod
    def decode(cls, context: int) -> Self:
        """The next token of a text that has `context` tokens."""
        return cls(context, 1, True)

    @property
    def end(self) -> int:
        return self.start + self.tokens

    @property
    def num_blocks(self) -> int:
        return -(-self.end // BLOCK_SIZE)


@dataclass(frozen=True, slots=True)
class TickShape:
    """All parts of a tick; their blocks lie one after the other from block 0 on."""

    parts: tuple[Part, ...]

    @property
    def num_blocks(self) -> int:
        return sum(part.num_blocks for part in self.parts)

    @property
    def title(self) -> str:
        return " + ".join(_words(part, len(list(same))) for part, same in groupby(self.parts))

    @property
    def output(self) -> SchedulerOutput:
        """The tick as the scheduler would hand it to the model."""
        items, first = [], 0
        for number, part in enumerate(self.parts):
            blocks = tuple(range(first, first + part.num_blocks))
            tokens = (_TOKEN,) * part.tokens
            items.append(ScheduledRequest(str(number), tokens, part.start, blocks, part.draws, 1, SamplingParams(), 0))
            first += part.num_blocks
        return SchedulerOutput(0, tuple(items))


def _words(part: Part, count: int) -> str:
    if part.tokens == 1 and part.draws:
        return f"{count} decode{'s' if count > 1 else ''} at {part.start}"
    times = f"{count} x " if count > 1 else ""
    return f"{times}{part.tokens} tokens from {part.start}{' and a draw' if part.draws else ''}"

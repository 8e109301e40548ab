"""The seconds of a preemption in each way, for one length after the other."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from scheduler_core.backends.base import ModelRunner
from scheduler_core.bench.model_ticks import ModelTicks
from scheduler_core.bench.tick_shape import BLOCK_SIZE, Part, TickShape

#: Who else runs while a request comes back.
COMPANY = TickShape((Part.decode(100),) * 7)
LONGEST = 2_048
#: Short lengths are measured several times a round, up to about so many tokens.
_TOKENS_A_ROUND = 128


@dataclass(slots=True)
class Samples:
    """Seconds of every turn at one length; `growth` is what the tokens add to a tick of `COMPANY`."""

    tokens: int
    copy_out: list[float] = field(default_factory=list)
    copy_in: list[float] = field(default_factory=list)
    alone: list[float] = field(default_factory=list)
    growth: list[float] = field(default_factory=list)


def lengths(longest: int) -> list[int]:
    """One block, and twice as much each time."""
    doubled = (BLOCK_SIZE << power for power in range(longest.bit_length()))
    return [tokens for tokens in doubled if tokens <= longest]


def measure(runner: ModelRunner, sizes: Sequence[int], rounds: int, say: Callable[[str], None]) -> list[Samples]:
    """`rounds` over all sizes, after one turn of the shortest and one of the longest to warm up."""
    blocks = -(-max(sizes) // BLOCK_SIZE)
    ticks = ModelTicks(runner, max(COMPANY.num_blocks + blocks, 2 * blocks))
    order = random.Random(0)
    for tokens in (min(sizes), max(sizes)):
        take_turn(ticks, Samples(tokens), order)
    results = [Samples(tokens) for tokens in sizes]
    for number in range(rounds):
        for samples in results:
            say(f"round {number + 1} of {rounds}: {samples.tokens} tokens")
            for _ in range(max(1, _TOKENS_A_ROUND // samples.tokens)):
                take_turn(ticks, samples, order)
    return results


def take_turn(ticks: ModelTicks, samples: Samples, order: random.Random) -> None:
    """Every way once; a tick comes before each copy, so that none finds its blocks in the processor's cache.

    Blocks are taken from all over the memory, as those of a server that has run for a while.
    """
    prompt = Part(0, samples.tokens, draws=False)
    drawn = order.sample(range(ticks.num_blocks), 2 * prompt.num_blocks)
    source, target = drawn[: prompt.num_blocks], drawn[prompt.num_blocks :]
    samples.alone.append(ticks.seconds(TickShape((prompt,))))
    decodes = ticks.seconds(COMPANY)
    saved, seconds = ticks.copy_out(source)
    samples.copy_out.append(seconds)
    samples.growth.append(ticks.seconds(TickShape((*COMPANY.parts, prompt))) - decodes)
    samples.copy_in.append(ticks.copy_in(saved, target))

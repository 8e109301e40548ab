"""The ticks that the cost model is fitted to."""

from __future__ import annotations

from scheduler_core.bench.tick_shape import Part, TickShape

#: Blocks of a copy out and in again.
COPIES = (1, 4, 16, 64)


def grid(largest: int | None = None) -> list[TickShape]:
    """Decodes, chunks and both together; only those with up to `largest` tokens in memory, if it is given."""
    shapes = [*_decodes(), *_chunks(), *_mixed()]
    return [shape for shape in shapes if largest is None or sum(part.end for part in shape.parts) <= largest]


def _decodes() -> list[TickShape]:
    return [TickShape((Part.decode(context),) * count) for context in (50, 200, 600) for count in (1, 2, 4, 8, 16)]


def _chunks() -> list[TickShape]:
    """First parts of long prompts, and last parts, after which a token is drawn."""
    places = ((0, False), (512, True))
    return [TickShape((Part(start, 1 << n, draws),)) for start, draws in places for n in range(4, 10)]


def _mixed() -> list[TickShape]:
    parts = [(7, 200, Part(0, tokens, False)) for tokens in (16, 64, 256)]
    parts += [(15, 200, Part(512, tokens, True)) for tokens in (32, 128)]
    parts += [(3, 600, Part(0, 128, True)), (3, 50, Part(512, 32, False))]
    return [TickShape((*(Part.decode(context),) * count, chunk)) for count, context, chunk in parts]

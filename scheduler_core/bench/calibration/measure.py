"""The seconds of ticks and copies that a machine is fitted to."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from scheduler_core.backends.base import ModelRunner
from scheduler_core.bench.calibration.shapes import COPIES
from scheduler_core.bench.model_ticks import ModelTicks
from scheduler_core.bench.tick_shape import TickShape


@dataclass(frozen=True, slots=True)
class Measured:
    """Seconds of every round, by tick; `copies` are out and in again, by number of blocks."""

    ticks: list[tuple[TickShape, list[float]]]
    copies: dict[int, list[float]]

    def add(self, more: Measured) -> None:
        """Take in further rounds of the same ticks and copies."""
        for (shape, seconds), (same, further) in zip(self.ticks, more.ticks, strict=True):
            assert shape == same
            seconds.extend(further)
        for blocks, further in more.copies.items():
            self.copies.setdefault(blocks, []).extend(further)

    def fastest(self) -> Measured:
        """Only the fastest round of each: what the machine does when nothing disturbs it."""
        ticks = [(shape, [min(seconds)]) for shape, seconds in self.ticks]
        return Measured(ticks, {blocks: [min(seconds)] for blocks, seconds in self.copies.items()})

    @property
    def medians(self) -> list[float]:
        return [statistics.median(seconds) for _, seconds in self.ticks]


def measure(runner: ModelRunner, shapes: Sequence[TickShape], rounds: int, say: Callable[[str], None]) -> Measured:
    """All shapes, then all copies, `rounds` times, after the smallest and the largest tick to warm up."""
    by_size = sorted(shapes, key=lambda shape: shape.output.num_scheduled_tokens)
    ticks = ModelTicks(runner, max(2 * max(COPIES), *(shape.num_blocks for shape in shapes)))
    for shape in (by_size[0], by_size[-1]):
        ticks.seconds(shape)
    result = Measured([(shape, []) for shape in shapes], {blocks: [] for blocks in COPIES})
    for _ in range(rounds):
        for shape, seconds in result.ticks:
            say(shape.title)
            seconds.append(ticks.seconds(shape))
        for blocks, seconds in result.copies.items():
            seconds.append(_round_trip(ticks, blocks, by_size[0]))
    return result


def _round_trip(ticks: ModelTicks, blocks: int, between: TickShape) -> float:
    """A copy out and in, with a tick before each so that the processor's cache has forgotten what is copied."""
    ticks.seconds(between)
    saved, seconds = ticks.copy_out(range(blocks))
    ticks.seconds(between)
    return seconds + ticks.copy_in(saved, range(blocks, 2 * blocks))

"""The real model under ticks and copies made by hand, and the seconds that they take."""

from __future__ import annotations

import time
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

from scheduler_core.backends import model_store
from scheduler_core.backends.base import ModelRunner
from scheduler_core.backends.transformers_runner import TransformersRunner
from scheduler_core.bench.tick_shape import BLOCK_SIZE, Part, TickShape
from scheduler_core.errors import BenchError

MEASURED_WITH = ("torch", "transformers", "numba", "numpy")


class ModelTicks:
    """A runner whose KV memory is full, as a busy server's is."""

    def __init__(self, runner: ModelRunner, num_blocks: int) -> None:
        runner.allocate(num_blocks, BLOCK_SIZE)
        self._runner = runner
        self.num_blocks = num_blocks
        self._fill()

    def seconds(self, shape: TickShape) -> float:
        """What one tick of this shape takes, as a run would record it."""
        done = self._runner.execute_model(shape.output)
        if done.failed:
            raise BenchError(f"a tick of {shape.title} failed: {next(iter(done.failed.values()))}")
        return done.wall_seconds

    def copy_out(self, block_ids: Sequence[int]) -> tuple[Any, float]:
        """The saved copy of these blocks, and the seconds that it took."""
        begin = time.perf_counter()
        saved = self._runner.copy_out(tuple(block_ids))
        return saved, time.perf_counter() - begin

    def copy_in(self, saved: Any, block_ids: Sequence[int]) -> float:
        """Seconds that it takes to write a saved copy to these blocks."""
        begin = time.perf_counter()
        self._runner.copy_in(saved, 0, tuple(block_ids))
        return time.perf_counter() - begin

    def _fill(self) -> None:
        """Computed values everywhere: memory that nobody wrote to is not there yet, and reading it costs nothing."""
        self.seconds(TickShape((Part(0, BLOCK_SIZE, draws=False),)))
        saved, _ = self.copy_out((0,))
        for block in range(1, self.num_blocks):
            self.copy_in(saved, (block,))


def load_runner() -> TransformersRunner:
    """The real model on the CPU, with the threads that the app would use."""
    return TransformersRunner(model_store.load(device="cpu"))


def versions() -> dict[str, str]:
    """Of what computes the model."""
    return {name: version(name) for name in MEASURED_WITH}

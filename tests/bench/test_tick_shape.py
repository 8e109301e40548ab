"""Ticks made by hand, and the model's memory under them."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler_core.bench.model_ticks import ModelTicks
from scheduler_core.bench.tick_shape import Part, TickShape
from scheduler_core.cost_model import Work
from scheduler_core.errors import BenchError
from scheduler_core.output import ModelRunnerOutput, SchedulerOutput


class FakeRunner:
    """Takes a millisecond for each token, and remembers which blocks were written and copied."""

    def __init__(self, failed: dict[str, str] | None = None) -> None:
        self.ticks: list[int] = []
        self.copied: list[tuple[str, tuple[int, ...]]] = []
        self.num_blocks = 0
        self._failed = failed

    def allocate(self, num_blocks: int, block_size: int) -> None:
        assert block_size == 16
        self.num_blocks = num_blocks

    def execute_model(self, output: SchedulerOutput) -> ModelRunnerOutput:
        assert max(block for item in output.scheduled for block in item.block_ids) < self.num_blocks
        self.ticks.append(output.num_scheduled_tokens)
        return ModelRunnerOutput({}, output.num_scheduled_tokens / 1_000, self._failed)

    def copy_out(self, block_ids: tuple[int, ...]) -> Any:
        self.copied.append(("out", block_ids))
        return block_ids

    def copy_in(self, saved: Any, first_block: int, block_ids: tuple[int, ...]) -> None:
        assert len(saved) >= first_block + len(block_ids)
        self.copied.append(("in", block_ids))


def test_a_shape_lays_its_requests_blocks_one_after_the_other() -> None:
    shape = TickShape((Part.decode(100), Part.decode(15), Part(32, 17, draws=False)))
    items = shape.output.scheduled
    assert [(item.start, item.num_tokens, item.block_ids, item.samples) for item in items] == [
        (100, 1, (0, 1, 2, 3, 4, 5, 6), True),
        (15, 1, (7,), True),
        (32, 17, (8, 9, 10, 11), False),
    ]
    assert shape.num_blocks == 12


def test_the_cost_model_counts_a_shape_as_any_other_tick() -> None:
    shape = TickShape((Part.decode(9), Part(0, 4, draws=False)))
    assert Work.of(shape.output) == Work(tokens=5, draws=1, pairs=10 + 10, kv_tokens=11 + 8)


@pytest.mark.parametrize(
    ("parts", "title"),
    [
        ((Part.decode(200),) * 7 + (Part(0, 64, draws=False),), "7 decodes at 200 + 64 tokens from 0"),
        ((Part.decode(50),), "1 decode at 50"),
        ((Part(512, 16, draws=True),) * 2, "2 x 16 tokens from 512 and a draw"),
    ],
)
def test_a_shape_says_what_is_in_it(parts: tuple[Part, ...], title: str) -> None:
    assert TickShape(parts).title == title


def test_the_memory_is_full_before_anything_is_measured() -> None:
    runner = FakeRunner()
    ModelTicks(runner, 5)  # type: ignore[arg-type]
    assert runner.ticks == [16]
    assert [blocks for way, blocks in runner.copied if way == "in"] == [(1,), (2,), (3,), (4,)]


def test_a_tick_that_the_model_cannot_compute_is_an_error_and_no_figure() -> None:
    runner = FakeRunner({"0": "the model computed values that are not numbers (NaN)"})
    with pytest.raises(BenchError, match=r"a tick of 16 tokens from 0 failed: .*NaN"):
        ModelTicks(runner, 5)  # type: ignore[arg-type]

"""Which setting chunk control moves, and between which values. Knows no controller."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from scheduler_core.config import EngineConfig

#: What a configuration calls the two things that can be moved -> the setting that is moved.
SETTINGS = {"chunk": "chunk_size", "budget": "max_num_batched_tokens"}


@dataclass(frozen=True, slots=True)
class ChunkRange:
    """`setting` is moved between `low` and `high` tokens, both included."""

    setting: str
    low: int
    high: int

    @classmethod
    def of(cls, config: EngineConfig) -> Self:
        """From a block up to what the settings allow; a budget leaves every lane its token."""
        high = config.largest_chunk
        low = config.block_size
        if config.chunk_moves == "budget":
            high, low = config.max_num_batched_tokens, max(low, config.max_num_seqs)
        return cls(SETTINGS[config.chunk_moves], min(low, high), high)

    def nearest(self, value: int) -> int:
        return min(max(value, self.low), self.high)


def is_steered(config: EngineConfig) -> bool:
    """Whether anything is moved at all: without chunks there is nothing to size."""
    return config.chunk_control != "fixed" and config.enable_chunked_prefill


def in_force(config: EngineConfig, value: int | None) -> EngineConfig:
    """The settings with what chunk control has made of them; None: it has not begun, and stands at the upper end."""
    if not is_steered(config):
        return config
    limits = ChunkRange.of(config)
    return config.replace(**{limits.setting: limits.high if value is None else limits.nearest(value)})

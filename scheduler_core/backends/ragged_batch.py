"""A tick's tokens side by side as arrays: which positions they stand at, which slots they write and which they see."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from scheduler_core.output import ScheduledRequest

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Chunk:
    """Several tokens of one request: rows `first .. end` of the batch, from position `start` on; all slots they see."""

    first: int
    end: int
    start: int
    seen: Ints

    @classmethod
    def make(cls, item: ScheduledRequest, end: int, block_size: int) -> Chunk:
        blocks = np.array(item.block_ids[: -(-item.end // block_size)], np.int64)
        seen = (blocks[:, None] * block_size + np.arange(block_size)).ravel()[: item.end]
        return cls(end - item.num_tokens, end, item.start, seen)


@dataclass(frozen=True, slots=True)
class RaggedBatch:
    """First the requests with a single token, one row each, then the chunks; all arrays but `tables` are flat.

    A slot is `block * block_size + place in the block`. `tables` `[singles, blocks]` is filled up with each row's
    first block, so that no row ever points to a block that is not its own.
    """

    items: tuple[ScheduledRequest, ...]
    ends: dict[str, int]
    block_size: int
    token_ids: Ints
    positions: Ints
    slots: Ints
    tables: Ints
    lengths: Ints
    chunks: tuple[Chunk, ...]

    @classmethod
    def make(cls, scheduled: Sequence[ScheduledRequest], block_size: int) -> RaggedBatch:
        singles = [item for item in scheduled if item.num_tokens == 1]
        long = [item for item in scheduled if item.num_tokens > 1]
        items = (*singles, *long)
        ends = dict(zip((i.request_id for i in items), accumulate(i.num_tokens for i in items), strict=True))
        tables = _tables(singles, block_size)
        chunks = tuple(Chunk.make(item, ends[item.request_id], block_size) for item in long)
        return cls(
            items,
            ends,
            block_size,
            np.array([token for item in items for token in item.token_ids], np.int64),
            np.array([position for item in items for position in range(item.start, item.end)], np.int64),
            np.concatenate([_slots_of(singles, block_size), *(chunk.seen[chunk.start :] for chunk in chunks)]),
            tables,
            np.array([item.end for item in singles], np.int64),
            chunks,
        )

    @property
    def num_singles(self) -> int:
        return len(self.lengths)

    def last_row(self, request_id: str) -> int:
        return self.ends[request_id] - 1


def _tables(singles: Sequence[ScheduledRequest], block_size: int) -> Ints:
    counts = [-(-item.end // block_size) for item in singles]
    tables = np.empty((len(singles), max(counts, default=0)), np.int64)
    for row, (item, count) in enumerate(zip(singles, counts, strict=True)):
        tables[row, :count] = item.block_ids[:count]
        tables[row, count:] = item.block_ids[0]
    return tables


def _slots_of(singles: Sequence[ScheduledRequest], block_size: int) -> Ints:
    return np.array(
        [item.block_ids[item.start // block_size] * block_size + item.start % block_size for item in singles], np.int64
    )

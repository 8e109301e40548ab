"""The prompts of a trace, one after another, through our own prefix cache and block pool.

Each prompt is served in no time and alone: it attaches its longest cached prefix, takes blocks for the rest, publishes
them and gives all of them back, the last one first. So the block pool's queue is the order of last use.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from scheduler_core.bench.cache.prompts import PromptBlocks, Prompts
from scheduler_core.block_pool import BlockPool
from scheduler_core.errors import BenchError
from scheduler_core.prefix_cache import CacheNamespace, PrefixCache

#: So many blocks take about a gigabyte here.
MAX_POOL_BLOCKS = 2_000_000


@dataclass(frozen=True, slots=True)
class CacheFigures:
    """`num_blocks` None = unbounded. Hits and queries count tokens of the measured requests, evictions all."""

    num_blocks: int | None
    hit_tokens: int
    query_tokens: int
    num_measured: int
    evictions: int
    blocks_used: int

    @property
    def hit_rate(self) -> float:
        """From 0 to 1."""
        return self.hit_tokens / self.query_tokens if self.query_tokens else 0.0


class CacheReplay:
    """KV memory of `num_blocks` blocks that serves prompts one after another.

    Of a prompt longer than the memory the first `num_blocks - 1` blocks stay: the rest goes through the last one.
    """

    def __init__(self, num_blocks: int) -> None:
        self.evictions = 0
        self._num_blocks = num_blocks
        self._cache = PrefixCache()
        self._pool = BlockPool(num_blocks, self._cache)

    @property
    def blocks_used(self) -> int:
        """Blocks that hold something."""
        return len(self._cache)

    def keys(self, prompt: PromptBlocks) -> list[bytes]:
        """One key for each block: the same in every memory."""
        keys: list[bytes] = []
        self._cache.extend_keys(keys, prompt.words, prompt.words_per_block, _namespace(prompt))
        return keys

    def serve(self, prompt: PromptBlocks, keys: Sequence[bytes]) -> int:
        """Serve one prompt with its `keys`; the tokens of its longest cached prefix."""
        size, namespace = prompt.words_per_block, _namespace(prompt)
        hits = self._cache.lookup(keys, prompt.words, size, namespace, len(keys))
        self._pool.touch(hits)
        table = hits + self._take(min(len(keys), self._num_blocks) - len(hits))
        kept = len(table)
        if len(keys) > kept > len(hits):
            kept -= 1
        for i in range(len(hits), kept):
            words = tuple(prompt.words[i * size : (i + 1) * size])
            self._cache.publish(table[i], keys[i], table[i - 1] if i else None, words, namespace)
        self._pool.release(table)
        return prompt.num_tokens_in(len(hits))

    def _take(self, count: int) -> list[int]:
        taken = self._pool.take(count)
        for block_id in taken:
            if self._cache.holds(block_id):
                self._cache.evict(block_id)
                self.evictions += 1
        return taken


@lru_cache(maxsize=8)
def _namespace_of(words_per_block: int) -> CacheNamespace:
    return CacheNamespace("trace", "", words_per_block, "", "")


def _namespace(prompt: PromptBlocks) -> CacheNamespace:
    # One object, which is compared faster than equal ones.
    return _namespace_of(prompt.words_per_block)


def replay(
    prompts: Prompts,
    sizes: Sequence[int | None],
    first_measured: int,
    progress: Callable[[int], None] | None = None,
) -> list[CacheFigures]:
    """Serve all prompts with memories of these `sizes`, and count from `first_measured` on.

    `progress(served)`. Raises `BenchError`.
    """
    memories = [CacheReplay(size) for size in _pool_sizes(prompts, sizes)]
    hits = [0] * len(memories)
    query = 0
    for number, make in enumerate(prompts):
        if progress and number % 500 == 0:
            progress(number)
        prompt = make()
        keys = memories[0].keys(prompt)
        hit = [memory.serve(prompt, keys) for memory in memories]
        if number >= first_measured:
            query += prompt.num_tokens
            hits = [before + now for before, now in zip(hits, hit, strict=True)]
    measured = len(prompts) - first_measured
    return [
        CacheFigures(size, hit_tokens, query, measured, memory.evictions, memory.blocks_used)
        for size, hit_tokens, memory in zip(sizes, hits, memories, strict=True)
    ]


def _pool_sizes(prompts: Prompts, sizes: Sequence[int | None]) -> list[int]:
    """Blocks of each memory: more than all prompts have are never used."""
    needed = max(1, sum(make().num_blocks for make in prompts))
    result = [needed if size is None else min(size, needed) for size in sizes]
    if sum(result) > MAX_POOL_BLOCKS:
        raise BenchError(
            f"the trace has {needed:,} blocks and the sizes have {sum(result):,} together; "
            f"at most {MAX_POOL_BLOCKS:,} are replayed: give fewer or smaller --num-blocks, or --first to take fewer "
            "requests"
        )
    return result

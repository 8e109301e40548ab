"""The prompts of a trace, one after another, through our own prefix cache and block pool.

Each prompt is served in no time and alone: it attaches its longest cached prefix, takes blocks for the rest, publishes
them and gives all of them back, the last one first. So the block pool's queue is the order of last use.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

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

    def serve(self, prompt: PromptBlocks) -> int:
        """Serve one prompt; the tokens of its longest cached prefix."""
        size = prompt.words_per_block
        namespace = CacheNamespace("trace", "", size, "", "")
        keys: list[bytes] = []
        self._cache.extend_keys(keys, prompt.words, size, namespace)
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


def replay(
    prompts: Prompts, num_blocks: int | None, first_measured: int, progress: Callable[[int], None] | None = None
) -> CacheFigures:
    """Serve all prompts, and count from `first_measured` on; `progress(served)`. Raises `BenchError`."""
    needed = sum(make().num_blocks for make in prompts)
    size = max(1, needed if num_blocks is None else min(num_blocks, needed))
    if size > MAX_POOL_BLOCKS:
        raise BenchError(
            f"the trace has {needed:,} blocks; a memory of at most {MAX_POOL_BLOCKS:,} is replayed: "
            "give a smaller --num-blocks, or --first to take fewer requests"
        )
    memory = CacheReplay(size)
    hit = query = 0
    for number, make in enumerate(prompts):
        prompt = make()
        hit_tokens = memory.serve(prompt)
        if number >= first_measured:
            hit += hit_tokens
            query += prompt.num_tokens
        if progress and number % 1_000 == 0:
            progress(number)
    measured = len(prompts) - first_measured
    return CacheFigures(num_blocks, hit, query, measured, memory.evictions, memory.blocks_used)

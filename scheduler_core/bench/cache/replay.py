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


class Replay:
    """All prompts, served by memories of these `sizes`; what counts comes from `first_measured` on.

    May be advanced and stopped; the figures so far can be had at any time. Raises `BenchError` for too large memories.
    """

    def __init__(self, prompts: Prompts, sizes: Sequence[int | None], first_measured: int) -> None:
        self.served = 0
        self._prompts = prompts
        self._sizes = sizes
        self._first_measured = first_measured
        self._memories = [CacheReplay(size) for size in _pool_sizes(prompts, sizes)]
        self._hits = [0] * len(self._memories)
        self._query = 0

    def __len__(self) -> int:
        return len(self._prompts)

    def advance(self, count: int) -> bool:
        """Serve up to `count` more prompts; whether any are left."""
        for make in self._prompts[self.served : self.served + count]:
            prompt = make()
            keys = self._memories[0].keys(prompt)
            hit = [memory.serve(prompt, keys) for memory in self._memories]
            if self.served >= self._first_measured:
                self._query += prompt.num_tokens
                self._hits = [before + now for before, now in zip(self._hits, hit, strict=True)]
            self.served += 1
        return self.served < len(self)

    def figures(self) -> list[CacheFigures]:
        """Of the prompts served so far."""
        measured = max(0, self.served - self._first_measured)
        return [
            CacheFigures(size, hit_tokens, self._query, measured, memory.evictions, memory.blocks_used)
            for size, hit_tokens, memory in zip(self._sizes, self._hits, self._memories, strict=True)
        ]


def replay(
    prompts: Prompts,
    sizes: Sequence[int | None],
    first_measured: int,
    progress: Callable[[int], None] | None = None,
) -> list[CacheFigures]:
    """Serve all prompts with memories of these `sizes`, and count from `first_measured` on.

    `progress(served)`. Raises `BenchError`.
    """
    run = Replay(prompts, sizes, first_measured)
    if progress:
        progress(0)
    while run.advance(500):
        if progress:
            progress(run.served)
    return run.figures()


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

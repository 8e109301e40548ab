"""Block tables of requests: what fits, what hits, what is published, what is saved on the host."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any

from scheduler_core.block_pool import BlockPool
from scheduler_core.config import EngineConfig
from scheduler_core.events import BlockEvicted, BlockPublished, BlocksAllocated, BlocksFreed, Event
from scheduler_core.laws import BrokenLaw, Law
from scheduler_core.prefix_cache import CacheEntry, CacheNamespace, KeyFunction, PrefixCache, block_key
from scheduler_core.request import Request


@dataclass(slots=True)
class FreeSpace:
    """Blocks that a request with certain hits could take, now or after others have left."""

    free: int
    promised: int
    _hits: frozenset[int]
    _refs: dict[int, int] = field(default_factory=dict)


class KVCacheManager:
    """Owns the pool and the cache; every change is told as an event.

    `tables` has the blocks of each running request, in order of position; a table that changes is a new one, so
    whoever has been given one may keep it.
    """

    #: What it is made of.
    cache_class: type[PrefixCache] = PrefixCache
    pool_class: type[BlockPool] = BlockPool

    def __init__(
        self, config: EngineConfig, weights: str, dtype: str, log: list[Event], key_function: KeyFunction = block_key
    ) -> None:
        self.config = config
        self.block_size = config.block_size
        self._model = weights, dtype
        self.cache = self.cache_class(key_function)
        self.pool = self.pool_class(config.num_blocks, self.cache)
        self.tables: dict[str, tuple[int, ...]] = {}
        self.num_promised = 0
        self.host_blocks: dict[str, int] = {}
        self.host_blocks_used = 0
        #: Contents that were given up, for whoever wants to keep them elsewhere; normally nobody does.
        self.evicted: deque[tuple[int, CacheEntry]] = deque(maxlen=0)
        self._promised: dict[str, int] = {}
        self._num_published: dict[str, int] = {}
        self._namespace = self._remembered_namespaces()
        self._log = log

    def _remembered_namespaces(self) -> Callable[[str, str], CacheNamespace]:
        """Kept, so that blocks of the same namespace share one object."""
        return lru_cache(maxsize=256)(partial(CacheNamespace, *self._model, self.block_size))

    def __getstate__(self) -> dict[str, Any]:
        """For checkpoints: all but the namespaces remembered."""
        return {name: value for name, value in self.__dict__.items() if name != "_namespace"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._namespace = self._remembered_namespaces()

    # What fits

    def blocks_for(self, num_tokens: int) -> int:
        return -(-num_tokens // self.block_size)

    def can_ever_fit(self, num_tokens: int) -> bool:
        return self.blocks_for(num_tokens) <= self.config.num_blocks

    def space(self, hits: Sequence[int]) -> FreeSpace:
        """Blocks that could be taken beside the `hits`, which must not be taken themselves."""
        free_hits = sum(1 for block_id in hits if self.pool.is_free(block_id))
        return FreeSpace(self.pool.num_free - free_hits, self.num_promised, frozenset(hits))

    def leave(self, space: FreeSpace, request: Request) -> None:
        """Count in what would come free if `request` left as well."""
        space.promised -= self._promised.get(request.id, 0)
        for block_id in self.tables[request.id]:
            refs = space._refs.get(block_id, self.pool.refs(block_id)) - 1
            space._refs[block_id] = refs
            if refs == 0 and block_id not in space._hits:
                space.free += 1

    # What hits

    def namespace(self, request: Request) -> CacheNamespace:
        return self._namespace(request.spec.salt, request.spec.adapter)

    def lookup(self, request: Request) -> list[int]:
        """Blocks that hold the longest known prefix; at least one token is left to compute."""
        if not self.config.enable_prefix_caching:
            return []
        namespace = self.namespace(request)
        self.cache.extend_keys(request.block_keys, request.token_ids, self.block_size, namespace)
        most = (request.num_tokens - 1) // self.block_size
        return self.cache.lookup(request.block_keys, request.token_ids, self.block_size, namespace, most)

    def num_known(self, request: Request, hits: Sequence[int]) -> int:
        """Tokens of a request that enters that need not be computed: they are in the `hits`, or saved on the host."""
        return max(request.num_saved_tokens, len(hits) * self.block_size)

    # Tables

    def attach(self, request: Request, hits: Sequence[int]) -> None:
        """Start a table with cached blocks; nothing can take them from now on."""
        assert request.id not in self.tables, f"{request.id} has a table already"
        self.pool.touch(hits)
        self.tables[request.id] = tuple(hits)
        self._num_published[request.id] = len(hits)

    def allocate(self, request: Request, num_tokens: int) -> bool:
        """Lengthen the table to hold `num_tokens`; False, and no change, if blocks are lacking."""
        table = self.tables[request.id]
        count = self.blocks_for(num_tokens) - len(table)
        if count <= 0:
            return True
        if not self.pool.can_take(count):
            return False
        taken = tuple(self.pool.take(count))
        for block_id in taken:
            if self.cache.holds(block_id):
                entry = self.cache.evict(block_id)
                self.evicted.append((block_id, entry))
                self._log.append(BlockEvicted(block_id, _short(entry.key), request.id))
        self.tables[request.id] = table + taken
        self._log.append(BlocksAllocated(request.id, taken))
        self._promise(request.id, max(0, self._promised.get(request.id, 0) - count))
        return True

    def promise(self, request: Request) -> None:
        """Set aside, for admission's sums, the blocks that the rest of the known tokens will need."""
        self._promise(request.id, max(0, self.blocks_for(request.num_tokens) - len(self.tables[request.id])))

    def free(self, request: Request) -> None:
        """Give up the table; published content stays findable."""
        table = self.tables.pop(request.id)
        self._num_published.pop(request.id)
        self._promise(request.id, 0)
        self.pool.release(table)
        self._log.append(BlocksFreed(request.id, table))

    def publish(self, request: Request) -> None:
        """Make the request's full, computed blocks findable."""
        if not self.config.enable_prefix_caching:
            return
        full = request.num_computed_tokens // self.block_size
        first = self._num_published[request.id]
        if first >= full:
            return
        namespace = self.namespace(request)
        self.cache.extend_keys(request.block_keys, request.token_ids, self.block_size, namespace)
        table = self.tables[request.id]
        for i in range(first, full):
            tokens = tuple(request.token_ids[i * self.block_size : (i + 1) * self.block_size])
            parent = table[i - 1] if i else None
            entry = self.cache.publish(table[i], request.block_keys[i], parent, tokens, namespace)
            parent_key = _short(entry.parent.key) if entry.parent else ""
            self._log.append(BlockPublished(table[i], _short(entry.key), parent_key, request.id, i))
        self._num_published[request.id] = full

    def is_writable(self, request: Request, start: int, end: int) -> bool:
        """Whether positions `start .. end` lie in blocks that only this request holds and that are not published."""
        table = self.tables[request.id]
        for block_id in table[start // self.block_size : self.blocks_for(end)]:
            if self.pool.refs(block_id) != 1 or self.cache.holds(block_id):
                return False
        return True

    # The host pool

    def can_save(self, num_blocks: int) -> bool:
        return self.host_blocks_used + num_blocks <= self.config.num_swap_blocks

    def reserve_host(self, request: Request, num_blocks: int) -> None:
        assert request.id not in self.host_blocks, f"{request.id} is saved already"
        self.host_blocks[request.id] = num_blocks
        self.host_blocks_used += num_blocks

    def release_host(self, request_id: str) -> None:
        self.host_blocks_used -= self.host_blocks.pop(request_id, 0)

    def _promise(self, request_id: str, count: int) -> None:
        self.num_promised += count - self._promised.pop(request_id, 0)
        if count:
            self._promised[request_id] = count

    def check_integrity(self) -> None:
        self.pool.check_integrity(self.tables.values())
        self.cache.check_integrity()
        if self.num_promised != sum(self._promised.values()):
            raise BrokenLaw(Law.ADMISSION, "the promised blocks do not add up")
        if self.host_blocks_used != sum(self.host_blocks.values()):
            raise BrokenLaw(Law.HOST, "the host blocks do not add up")
        if not 0 <= self.host_blocks_used <= self.config.num_swap_blocks:
            raise BrokenLaw(Law.HOST, f"{self.host_blocks_used} of {self.config.num_swap_blocks} host blocks are used")


def _short(key: bytes) -> str:
    return key.hex()[:16]

"""A tier below the pools of all replicas, in which a block is found once the tick that wrote it is over."""

from __future__ import annotations

from collections.abc import Sequence

from scheduler_core.backends.kv_bytes import KVBytes
from scheduler_core.storage.block import BlockAddress, FoundBlock
from scheduler_core.storage.block_store import BlockStore, Tier, TierStats
from scheduler_core.storage.memory_backing import MemoryBacking

#: More than any simulation here writes: nothing is evicted, so no answer depends on the writer's pace.
_LIMIT_BYTES = 1 << 34


def shared_tier() -> Tier:
    """An empty one, in memory."""
    return Tier(MemoryBacking(_LIMIT_BYTES, "shared"), max_pending_bytes=_LIMIT_BYTES)


class OneReplicasView:
    """The shared store as one replica sees it: what a tick writes goes out when the tick is over."""

    def __init__(self, store: BlockStore) -> None:
        self._store = store
        self._written: dict[BlockAddress, KVBytes] = {}

    def deliver(self) -> None:
        """The tick is over: let the others find what it wrote."""
        self._store.put(list(self._written.items()))
        self._written.clear()

    def get(self, chain: Sequence[BlockAddress]) -> list[FoundBlock]:
        return self._store.get(chain)

    def missing(self, chain: Sequence[BlockAddress]) -> list[BlockAddress]:
        return [address for address in self._store.missing(chain) if address not in self._written]

    def put(self, blocks: Sequence[tuple[BlockAddress, KVBytes]]) -> None:
        self._written.update(blocks)

    def stats(self) -> tuple[TierStats, ...]:
        return self._store.stats()

    def flush(self) -> None:
        self._store.flush()

    def clear(self, tier: str = "") -> None:
        self._written.clear()
        self._store.clear(tier)

    def close(self) -> None:
        """The store is not this replica's alone: who made it closes it."""

"""Several tiers as one store, the nearest first."""

from __future__ import annotations

from collections.abc import Sequence

from scheduler_core.backends.kv_bytes import KVBytes
from scheduler_core.storage.block import BlockAddress, FoundBlock
from scheduler_core.storage.block_store import BlockStore, TierStats


class Stack:
    """Asks each tier for what those before it lack; writes to all."""

    def __init__(self, tiers: Sequence[BlockStore]) -> None:
        self._tiers = tuple(tiers)

    def get(self, chain: Sequence[BlockAddress]) -> list[FoundBlock]:
        found: list[FoundBlock] = []
        while len(found) < len(chain):
            before = len(found)
            for tier in self._tiers:
                if len(found) < len(chain):
                    found += tier.get(chain[len(found) :])
            # A block in another tier may lead on to more in a nearer one.
            if len(found) == before or len(self._tiers) == 1:
                break
        return found

    def missing(self, chain: Sequence[BlockAddress]) -> list[BlockAddress]:
        wanted = {address for tier in self._tiers for address in tier.missing(chain)}
        return [address for address in chain if address in wanted]

    def put(self, blocks: Sequence[tuple[BlockAddress, KVBytes]]) -> None:
        for tier in self._tiers:
            wanted = set(tier.missing([address for address, _ in blocks]))
            tier.put([block for block in blocks if block[0] in wanted])

    def stats(self) -> tuple[TierStats, ...]:
        return tuple(each for tier in self._tiers for each in tier.stats())

    def flush(self) -> None:
        for tier in self._tiers:
            tier.flush()

    def clear(self, tier: str = "") -> None:
        for each in self._tiers:
            each.clear(tier)

    def close(self) -> None:
        for tier in self._tiers:
            tier.close()

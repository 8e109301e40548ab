"""Names of stored blocks, and blocks that were found."""

from __future__ import annotations

from typing import NamedTuple

from scheduler_core.backends.kv_bytes import KVBytes


class BlockAddress(NamedTuple):
    """One block of a chain: `key` and `parent` are the prefix cache's own, which hold salt and adapter."""

    namespace: str
    key: bytes
    parent: bytes
    token_ids: tuple[int, ...]

    @property
    def name(self) -> str:
        """The key in any store."""
        return f"{self.namespace}:{self.key.hex()}"


class FoundBlock(NamedTuple):
    """A block that was read and verified: the tier it came from, and its KV."""

    tier: str
    kv: KVBytes

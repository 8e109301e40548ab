"""Makes a store from what a user names: a folder for the disk, redis:// for the shared one, "memory" for tests."""

from __future__ import annotations

from pathlib import Path

from scheduler_core.storage.backing import Backing, StoreError
from scheduler_core.storage.block_store import MAX_PENDING_BYTES, BlockStore, Tier
from scheduler_core.storage.lmdb_backing import LmdbBacking
from scheduler_core.storage.memory_backing import MemoryBacking

DEFAULT_LIMIT_BYTES = 4 << 30
MIN_LIMIT_BYTES = 1 << 20


def open_store(
    place: str | Path,
    *,
    limit_bytes: int = DEFAULT_LIMIT_BYTES,
    max_pending_bytes: int = MAX_PENDING_BYTES,
) -> BlockStore:
    """The store at `place`; raises `StoreError`."""
    if limit_bytes < MIN_LIMIT_BYTES:
        raise StoreError(f"the limit of the store is {limit_bytes} bytes; it must be at least {MIN_LIMIT_BYTES}")
    return Tier(_backing(place, limit_bytes), max_pending_bytes)


def _backing(place: str | Path, limit_bytes: int) -> Backing:
    if str(place) == "memory":
        return MemoryBacking(limit_bytes)
    return LmdbBacking(place, limit_bytes)

"""Makes a store from what a user names: a folder for the disk, redis://... for the shared one, "memory" for tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from scheduler_core.storage.backing import Backing, StoreError
from scheduler_core.storage.block_store import MAX_PENDING_BYTES, BlockStore, Tier
from scheduler_core.storage.guarded_lmdb import GuardedLmdb
from scheduler_core.storage.memory_backing import MemoryBacking
from scheduler_core.storage.redis_backing import DEFAULT_TTL_SECONDS, RedisBacking
from scheduler_core.storage.stack import Stack

DEFAULT_LIMIT_BYTES = 4 << 30
MIN_LIMIT_BYTES = 1 << 20
_SHARED = ("redis://", "rediss://", "unix://")


def open_store(
    *places: str | Path,
    limit_bytes: int = DEFAULT_LIMIT_BYTES,
    ttl_seconds: int = DEFAULT_TTL_SECONDS,
    max_pending_bytes: int = MAX_PENDING_BYTES,
    wrap: Callable[[Backing], Backing] | None = None,
) -> BlockStore:
    """The store at the place, or at several, the nearest first; raises `StoreError`.

    `limit_bytes` bounds a folder, `ttl_seconds` the life of a shared block, `max_pending_bytes` what waits to be
    written. `wrap` puts something before each place, as planned faults.
    """
    if not places:
        raise StoreError("no place for the store is named; give a folder or redis://HOST:PORT")
    if limit_bytes < MIN_LIMIT_BYTES:
        raise StoreError(f"the limit of the store is {limit_bytes} bytes; it must be at least {MIN_LIMIT_BYTES}")
    if ttl_seconds < 1:
        raise StoreError(f"the life of a shared block is {ttl_seconds} seconds; it must be at least 1")
    backings = [_backing(str(place), limit_bytes, ttl_seconds) for place in places]
    tiers = [Tier(wrap(backing) if wrap else backing, max_pending_bytes) for backing in backings]
    return tiers[0] if len(tiers) == 1 else Stack(tiers)


def _backing(place: str, limit_bytes: int, ttl_seconds: int) -> Backing:
    if place == "memory":
        return MemoryBacking(limit_bytes)
    if place.startswith(_SHARED):
        return RedisBacking(place, ttl_seconds)
    if "://" in place:
        raise StoreError("the store is named by an address of an unknown kind; give a folder or redis://HOST:PORT")
    return GuardedLmdb(place, limit_bytes)

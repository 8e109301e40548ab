"""The fault museum: mistakes that real servers made, to be switched on in a run and seen.

A mistake replaces a part of the scheduler when a run is made; a run without mistakes is built of the plain parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast

from scheduler_core.admission import Admission
from scheduler_core.block_pool import BlockPool
from scheduler_core.errors import ConfigError
from scheduler_core.kv_cache_manager import KVCacheManager
from scheduler_core.laws import Law
from scheduler_core.output import SampledToken, ScheduledRequest
from scheduler_core.prefix_cache import CacheEntry, CacheNamespace, KeyFunction, PrefixCache
from scheduler_core.request import Request
from scheduler_core.scheduler import Scheduler
from scheduler_core.scheduling_pass import Pass

T = TypeVar("T")

#: Where the scenarios of the museum are.
FAULT_FOLDER = Path(__file__).resolve().parent.parent / "assets" / "faults"


class PublishesAtOnce(Scheduler):
    """Makes blocks findable when they are scheduled, whether or not they are then computed."""

    def _put_in_batch(self, now: Pass, request: Request, count: int) -> None:
        super()._put_in_batch(now, request, count)
        computed = request.num_computed_tokens
        request.num_computed_tokens += count
        self.kv.publish(request)
        request.num_computed_tokens = computed


class FreesParentsFirst(BlockPool):
    """Puts a table's first block in front of the others in the queue of free ones."""

    def release(self, table: Sequence[int]) -> None:
        super().release(table[::-1])


class TrustsShortKeys(PrefixCache):
    """Has keys that collide, and compares nothing where one is found."""

    def __init__(self, key_function: KeyFunction) -> None:
        super().__init__(_first_token)

    def lookup(
        self,
        keys: Sequence[bytes],
        token_ids: Sequence[int],
        block_size: int,
        namespace: CacheNamespace,
        max_blocks: int,
    ) -> list[int]:
        found: list[int] = []
        for key in keys[:max_blocks]:
            entries: list[CacheEntry] = self._by_key.get(key, [])
            if not entries:
                break
            found.append(next(iter(entries[0].blocks)))
        return found


def _first_token(parent: bytes, token_ids: Sequence[int], namespace: bytes) -> bytes:
    return token_ids[0].to_bytes(4, "little")


class LooksAtFirstChunks(Admission):
    """Lets in whoever has room for a first chunk, whatever rule is set."""

    def _blocks_to_enter(self, request: Request, end_of_chunk: int) -> int:
        return self._kv.blocks_for(end_of_chunk)


class CountsPlainTicks(Scheduler):
    """Counts every tick of a slice, also those that only compute again what was lost."""

    def _commit(self, request: Request, item: ScheduledRequest, token: SampledToken | None) -> None:
        if item.end <= request.max_computed_tokens:
            request.slice_used += 1
        super()._commit(request, item, token)


@dataclass(frozen=True, slots=True)
class Fault:
    """One mistake: the part that it replaces, the law that notices it, and what people are told of it."""

    part: type[Any]
    law: Law
    title: str
    description: str


#: Name -> mistake; each has its scenario, `<name>.toml`, in `FAULT_FOLDER`.
FAULTS = {
    "publish_before_compute": Fault(
        PublishesAtOnce,
        Law.COMPUTED,
        "Shared before it was computed",
        "Blocks can be found by others as soon as they are scheduled, before the model has computed them.",
    ),
    "evict_parent_first": Fault(
        FreesParentsFirst,
        Law.CHAIN,
        "The parent goes first",
        "When memory is short, the front of a cached prompt is given away before its end, which then nobody can find.",
    ),
    "compare_no_tokens": Fault(
        TrustsShortKeys,
        Law.HITS,
        "A key is taken for its content",
        "A cached block is found by a short key that other contents share, and its tokens are not compared.",
    ),
    "admit_by_first_chunk": Fault(
        LooksAtFirstChunks,
        Law.ADMISSION,
        "Room for the first chunk only",
        "Requests are let in if their first chunk fits, even where the rest of their prompt has no room.",
    ),
    "count_plain_ticks": Fault(
        CountsPlainTicks,
        Law.PROGRESS,
        "A slice that ends too early",
        "A slice also counts the ticks in which a request only computes again what its last preemption lost.",
    ),
}


@dataclass(frozen=True, slots=True)
class Parts:
    """The classes that a run is made of."""

    scheduler: type[Scheduler] = Scheduler
    kv_cache_manager: type[KVCacheManager] = KVCacheManager


def build_parts(faults: Sequence[str]) -> Parts:
    """The plain parts, or with some replaced; raises `ConfigError` for a mistake that the museum does not have."""
    if not faults:
        return Parts()
    for name in faults:
        if name not in FAULTS:
            raise ConfigError(f"there is no fault {name!r}; the faults are {', '.join(FAULTS)}")
    chosen = [FAULTS[name].part for name in dict.fromkeys(faults)]
    manager = _mixed(KVCacheManager, [])
    manager.cache_class = _mixed(PrefixCache, chosen)
    manager.pool_class = _mixed(BlockPool, chosen)
    scheduler = _mixed(Scheduler, chosen)
    scheduler.admission_class = _mixed(Admission, chosen)
    return Parts(scheduler, manager)


def _mixed(base: type[T], parts: Sequence[type[Any]]) -> type[T]:
    """A subclass of `base` that makes all of its mistakes among `parts`."""
    mistakes = tuple(part for part in parts if issubclass(part, base))
    return cast("type[T]", type(base.__name__, (*mistakes, base), {}))

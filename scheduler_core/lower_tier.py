"""What lies below the block pool: nothing, a store, or what a recorded run says that its store had answered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from scheduler_core.backends.base import CopyError
from scheduler_core.events import FaultInjected, LowerTierQueried, RequestAdmitted
from scheduler_core.storage.block import BlockAddress

if TYPE_CHECKING:
    from scheduler_core.backends.base import ModelRunner
    from scheduler_core.backends.kv_bytes import KVPacker
    from scheduler_core.kv_cache_manager import KVCacheManager
    from scheduler_core.prefix_cache import CacheEntry
    from scheduler_core.request import Request
    from scheduler_core.storage.block_store import BlockStore
    from scheduler_core.trace import Trace


class Found(NamedTuple):
    """Consecutive blocks of one tier; `saved` has for each what `copy_in` takes, or None if it has to be computed."""

    tier: str
    saved: tuple[Any, ...]


class LowerTier(Protocol):
    """Asked once at each admission."""

    @property
    def tier(self) -> str:
        """The nearest tier's name, under which a miss is told; "" if there is no tier."""
        ...

    def find(self, request: Request, first: int, end: int, tick: int) -> tuple[Found, ...]:
        """What there is of the request's blocks `first .. end`, without a gap from the first on."""
        ...

    def keep(self, blocks: Mapping[int, CacheEntry]) -> None:
        """Write behind the content of these blocks, which still hold it."""
        ...


class NoTier:
    """Nothing below."""

    tier = ""

    def find(self, request: Request, first: int, end: int, tick: int) -> tuple[Found, ...]:
        return ()

    def keep(self, blocks: Mapping[int, CacheEntry]) -> None:
        """Nowhere to write it."""


class StoreTier:
    """A store, asked with the very keys of the prefix cache, so that both keep tenants apart alike."""

    def __init__(self, store: BlockStore, kv: KVCacheManager, runner: ModelRunner, packer: KVPacker) -> None:
        self._store = store
        self._kv = kv
        self._runner = runner
        self._packer = packer
        self._namespace = packer.kv_format().namespace
        self.tier = store.stats()[0].tier

    def find(self, request: Request, first: int, end: int, tick: int) -> tuple[Found, ...]:
        chain = [self._address_at(request, index) for index in range(first, end)]
        found: list[Found] = []
        for block in self._store.get(chain):
            try:
                saved = self._packer.unpack(block.kv)
            except CopyError:
                break
            if found and found[-1].tier == block.tier:
                found[-1] = Found(block.tier, (*found[-1].saved, saved))
            else:
                found.append(Found(block.tier, (saved,)))
        return tuple(found)

    def keep(self, blocks: Mapping[int, CacheEntry]) -> None:
        addresses = {self._address(entry): block_id for block_id, entry in blocks.items()}
        wanted = self._store.missing(list(addresses))
        if not wanted:
            return
        try:
            packed = self._packer.pack(self._runner.copy_out(tuple(addresses[address] for address in wanted)))
        except CopyError:
            return
        self._store.put(list(zip(wanted, packed, strict=True)))

    def _address_at(self, request: Request, index: int) -> BlockAddress:
        size = self._kv.block_size
        parent = request.block_keys[index - 1] if index else b""
        tokens = tuple(request.token_ids[index * size : (index + 1) * size])
        return BlockAddress(self._namespace, request.block_keys[index], parent, tokens)

    def _address(self, entry: CacheEntry) -> BlockAddress:
        parent = entry.parent.key if entry.parent else b""
        return BlockAddress(self._namespace, entry.key, parent, entry.token_ids)


class RecordedTier:
    """Answers as the store of a recorded run did: the same in the same tick, and as far as it ever reached later on.

    The KV itself is not in a record; whoever replays computes it.
    """

    def __init__(self, trace: Trace) -> None:
        self._told: dict[tuple[int, str], list[LowerTierQueried]] = {}
        self._admitted: set[tuple[int, str]] = set()
        self._failed: set[tuple[int, str]] = set()
        for record in trace.records:
            for event in record.events:
                self._learn(record.tick, event)
        self.tier = next((event.tier for events in self._told.values() for event in events), "")

    def _learn(self, tick: int, event: object) -> None:
        match event:
            case LowerTierQueried():
                self._told.setdefault((tick, event.request_id), []).append(event)
            case RequestAdmitted():
                self._admitted.add((tick, event.request_id))
            case FaultInjected(name="load"):
                self._failed.add((tick, event.request_id))

    def find(self, request: Request, first: int, end: int, tick: int) -> tuple[Found, ...]:
        told = self._told.get((tick, request.id))
        if told is None:
            told = [] if (tick, request.id) in self._admitted else self._told_before(request.id)
        fails = (tick, request.id) in self._failed
        found: list[Found] = []
        for event in told:
            saved: list[Any] = [None] * event.found_blocks
            if fails and len(event.block_ids) < event.found_blocks:
                saved[len(event.block_ids)] = CopyError("loading failed in the recorded run")
            reached = first + sum(len(each.saved) for each in found)
            kept = saved[max(0, reached - event.first_block) : max(0, end - event.first_block)]
            if kept and event.first_block <= reached:
                found.append(Found(event.tier, tuple(kept)))
        return tuple(found)

    def _told_before(self, request_id: str) -> list[LowerTierQueried]:
        return next((events for (_, who), events in self._told.items() if who == request_id), [])

    def keep(self, blocks: Mapping[int, CacheEntry]) -> None:
        """A recorded run has written what it wrote."""

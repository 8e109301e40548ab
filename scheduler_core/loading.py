"""Blocks that come from a tier below the pool: found when a request enters, loaded before the batch, or not at all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from scheduler_core.events import Event, FaultInjected, LowerTierQueried, RequestScheduled
from scheduler_core.kv_cache_manager import KVCacheManager
from scheduler_core.laws import BrokenLaw, Law
from scheduler_core.lower_tier import Found, LowerTier, NoTier
from scheduler_core.output import BlockLoad, SchedulerOutput
from scheduler_core.request import Request
from scheduler_core.scheduling_pass import Pass

#: Virtual seconds for so many blocks of a tier.
LoadSeconds = Callable[[str, int], float]


class Loading:
    """Plans the loads of a tick, and deals with those that fail; makes none itself."""

    def __init__(self, kv: KVCacheManager, log: list[Event], block_bytes: int) -> None:
        self._kv = kv
        self._log = log
        self._block_bytes = block_bytes
        self._tier: LowerTier = NoTier()
        self._seconds: LoadSeconds = _no_time
        self._saved: dict[tuple[str, int], tuple[Any, ...]] = {}
        self._most_before: dict[str, int] = {}

    def attach(self, tier: LowerTier, seconds: LoadSeconds) -> None:
        """Ask `tier` from now on."""
        self._tier = tier
        self._seconds = seconds

    def saved(self, load: BlockLoad) -> tuple[Any, ...]:
        """For each block of a load of this tick what `copy_in` takes; None = it has to be computed."""
        return self._saved[load.request_id, load.first_block]

    def forget(self) -> None:
        """The loads of this tick are made."""
        self._saved.clear()
        self._most_before.clear()

    # Planning

    def find(self, now: Pass, request: Request, hits: Sequence[int], reserved: int) -> tuple[Found, ...] | None:
        """What lies below of a request that enters now and may take all blocks but the `reserved`; None = not asked.

        What is saved on the host is nearer, and is not asked for.
        """
        kv = self._kv
        if not self._tier.tier or not kv.config.enable_prefix_caching or request.num_saved_tokens:
            return None
        first, end = len(hits), self._most_blocks(request)
        room = kv.space(hits).free - reserved + first
        while end > first and kv.blocks_for(self._end_of_chunk(now, request, end)) > room:
            end -= 1
        return self._tier.find(request, first, end, now.tick) if end > first else None

    def _most_blocks(self, request: Request) -> int:
        """At least one token is left to compute."""
        return (request.num_tokens - 1) // self._kv.block_size

    def _end_of_chunk(self, now: Pass, request: Request, num_blocks: int) -> int:
        known = num_blocks * self._kv.block_size
        return known + now.chunker.chunk(request.num_tokens - known)

    def plan(
        self, now: Pass, request: Request, first: int, found: tuple[Found, ...] | None, most_before: int, self_hit: bool
    ) -> None:
        """Load what was found into the blocks of its table from `first` on, and tell what was asked."""
        if found is None:
            return
        size = self._kv.block_size
        asked = self._most_blocks(request) - first
        if not found:
            self._log.append(
                LowerTierQueried(request.id, self._tier.tier, asked * size, 0, first, 0, (), 0, 0.0, self_hit)
            )
        table, end = self._kv.tables[request.id], self._most_blocks(request)
        for each in found:
            count = len(each.saved)
            if not self._kv.is_writable(request, first * size, (first + count) * size):
                raise BrokenLaw(Law.WRITES, f"{request.id} would load into a shared block")
            blocks = table[first : first + count]
            now.loads.append(BlockLoad(request.id, each.tier, first, blocks))
            self._saved[request.id, first] = each.saved
            self._log.append(
                LowerTierQueried(
                    request.id,
                    each.tier,
                    (end - first) * size,
                    count * size,
                    first,
                    count,
                    blocks,
                    count * self._block_bytes,
                    self._seconds(each.tier, count),
                    self_hit,
                )
            )
            first += count
        self._most_before[request.id] = most_before

    # Failure

    def failed(
        self, request: Request, output: SchedulerOutput, load: BlockLoad, num_loaded: int, problem: str
    ) -> SchedulerOutput:
        """Keep what was loaded before, compute the rest from the next tick on; returns the batch without it."""
        end = load.first_block + num_loaded
        was_first = request.num_cached_tokens == request.num_computed_tokens
        request.num_computed_tokens = end * self._kv.block_size
        request.max_computed_tokens = max(self._most_before[request.id], request.num_computed_tokens)
        if was_first:
            request.num_cached_tokens = request.num_computed_tokens
        self._log[:] = [
            self._corrected(event, end) if _is_of(event, LowerTierQueried, request) else event
            for event in self._log
            if not _is_of(event, RequestScheduled, request)
        ]
        self._log.append(FaultInjected("load", request.id, f"{problem}; the rest will be computed"))
        loads = (_cut(each, end) if each.request_id == request.id else each for each in output.loads)
        return replace(
            output,
            scheduled=tuple(item for item in output.scheduled if item.request_id != request.id),
            loads=tuple(each for each in loads if each.block_ids),
        )

    def _corrected(self, event: Any, end: int) -> LowerTierQueried:
        """What was told, with only the blocks before `end` loaded."""
        kept = event.block_ids[: max(0, end - event.first_block)]
        seconds = self._seconds(event.tier, len(kept))
        told: LowerTierQueried = replace(
            event, block_ids=kept, hit_tokens=len(kept) * self._kv.block_size, seconds=seconds
        )
        return told


def _is_of(event: Event, kind: type[Any], request: Request) -> bool:
    return isinstance(event, kind) and event.request_id == request.id


def _cut(load: BlockLoad, end: int) -> BlockLoad:
    return replace(load, block_ids=load.block_ids[: max(0, end - load.first_block)])


def _no_time(tier: str, num_blocks: int) -> float:
    return 0.0

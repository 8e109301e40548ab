"""Requests go onto lanes and off them, with their KV; every move is told as an event."""

from __future__ import annotations

from collections.abc import Sequence

from scheduler_core.events import (
    Event,
    PreemptReason,
    PrefixCacheQueried,
    RequestAdmitted,
    RequestFinished,
    RequestPreempted,
)
from scheduler_core.kv_cache_manager import KVCacheManager
from scheduler_core.loading import Loading
from scheduler_core.lower_tier import Found
from scheduler_core.request import FinishReason, Request, RequestStatus
from scheduler_core.roster import Roster
from scheduler_core.scheduling_pass import Pass
from scheduler_core.swap import Swap


class Lanes:
    """Keeps a request's place, its blocks and its saved copy in step. Decides nothing."""

    def __init__(self, roster: Roster, kv: KVCacheManager, swap: Swap, loading: Loading, log: list[Event]) -> None:
        self._roster = roster
        self._kv = kv
        self._swap = swap
        self._loading = loading
        self._log = log

    def enter(self, now: Pass, request: Request, hits: Sequence[int], found: tuple[Found, ...] | None = None) -> int:
        """Give a waiting request a lane, its cached or saved KV, and blocks for its first chunk; returns its tokens.

        `found` are the blocks after the `hits` that a tier below has, None if none was asked.
        """
        self._tell_entry(request, hits)
        self._roster.start(request, now.tick)
        again, most_before = request.admitted_once, request.max_computed_tokens
        cached = (len(hits) + sum(len(each.saved) for each in found or ())) * self._kv.block_size
        request.begin_with(max(self._kv.num_known(request, hits), cached), len(hits), cached)
        now.enter(request)
        self._kv.attach(request, hits)
        count = now.chunker.chunk(request.num_tokens_left)
        fitted = self._kv.allocate(request, request.num_computed_tokens + count)
        assert fitted, f"{request.id} was admitted but does not fit"
        self._kv.promise(request)
        if request.num_saved_tokens:
            self._swap.restore(now, request, len(hits))
        self._loading.plan(now, request, len(hits), found, most_before, again)
        return count

    def _tell_entry(self, request: Request, hits: Sequence[int]) -> None:
        space = self._kv.space(hits)
        needed = self._kv.blocks_for(request.num_tokens) - len(hits)
        hit_tokens = len(hits) * self._kv.block_size
        resumed = request.status is RequestStatus.PREEMPTED
        if self._kv.config.enable_prefix_caching:
            self._log.append(
                PrefixCacheQueried(request.id, request.num_tokens, hit_tokens, tuple(hits), request.admitted_once)
            )
        self._log.append(RequestAdmitted(request.id, hit_tokens, needed, space.free, space.promised, resumed))

    def preempt(self, now: Pass, victim: Request, reason: PreemptReason, for_request: str) -> None:
        """Take a running request off its lane, saving its KV if the mode says so and the host has room."""
        now.take_out(victim)
        self._roster.stop(victim)
        blocks = self._swap.save(now, victim)
        self._log.append(self._preempted(victim, reason, for_request, blocks))
        self._kv.free(victim)
        if not blocks:
            victim.num_computed_tokens = 0
        victim.num_saved_tokens = victim.num_computed_tokens
        if reason is PreemptReason.SLICE:
            self._roster.step_down(victim)
        now.num_memory_victims += reason is PreemptReason.MEMORY
        now.leave(victim, self._roster.key(victim))

    def _preempted(
        self, victim: Request, reason: PreemptReason, for_request: str, blocks_saved: int
    ) -> RequestPreempted:
        computed = victim.num_computed_tokens
        return RequestPreempted(
            victim.id,
            reason,
            "swap" if blocks_saved else "recompute",
            for_request,
            tokens_saved=computed if blocks_saved else 0,
            tokens_lost=0 if blocks_saved else computed,
            blocks_saved=blocks_saved,
            bytes_saved=self._swap.bytes_in(blocks_saved),
            slice_used=victim.slice_used,
        )

    def requeue(self, now: Pass) -> None:
        for request in now.left:
            self._roster.waiting.add(request, now.tick)
        now.left.clear()

    def finish(self, request: Request, reason: FinishReason, message: str = "") -> None:
        """End a request that no longer waits, and free all it holds."""
        if request.id in self._roster.running:
            self._kv.free(request)
        self._swap.drop(request)
        self._roster.close(request, reason)
        self._log.append(RequestFinished(request.id, reason, message))

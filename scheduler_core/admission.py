"""Whether a waiting request may enter in this tick, and who would have to leave for it. Asks, and changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from scheduler_core.events import PreemptReason, SkipReason
from scheduler_core.kv_cache_manager import KVCacheManager
from scheduler_core.preemption import fewest
from scheduler_core.request import Request
from scheduler_core.roster import Roster
from scheduler_core.scheduling_pass import Obstacle, Pass

Leavers = tuple[tuple[Request, PreemptReason], ...]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What keeps a request out; or, if nothing does, who leaves before it enters, in this order."""

    obstacle: Obstacle | None = None
    leavers: Leavers = ()


class Admission:
    """The rules of admission in one pass; `reserved` blocks are kept for running requests whose turn is still to come.

    `hits` are always the cached blocks of the request that is asked about.
    """

    def __init__(self, kv: KVCacheManager, roster: Roster, now: Pass, reserved: int) -> None:
        self._config = roster.config
        self._kv = kv
        self._roster = roster
        self._now = now
        self._reserved = reserved

    def verdict(self, request: Request, hits: Sequence[int]) -> Verdict:
        """Whether `request` enters now."""
        if closed := self._closed_for(request):
            return Verdict(closed)
        if lack := self._lack(request, hits):
            return self._make_room(request, hits, lack)
        return Verdict()

    def _closed_for(self, request: Request) -> Obstacle | None:
        """Rules that no one's leaving can change."""
        now, key = self._now, self._roster.key
        if now.num_memory_victims:
            return Obstacle(SkipReason.PREEMPTED_FOR_MEMORY, (("preempted", now.num_memory_victims),))
        if any(key(left) < key(request) for left in now.left):
            return Obstacle(SkipReason.JUST_PREEMPTED)
        if self._config.admission == "when_empty" and not now.batch_open:
            return Obstacle(SkipReason.BATCH_CLOSED, (("running", len(self._roster.running)),))
        return None

    # What a request lacks

    def _lack(self, request: Request, hits: Sequence[int], leaving: Sequence[Request] = ()) -> Obstacle | None:
        """The lane, budget or memory that `request` lacks once `leaving` have left; None if it fits."""
        running = len(self._roster.running) - len(leaving)
        if running >= self._config.max_num_seqs:
            return Obstacle(SkipReason.LANES, (("lanes", self._config.max_num_seqs), ("lanes_used", running)))
        end = self._end_of_first_chunk(request, hits, leaving)
        if end is None:
            return self._now.no_budget()
        return self._lack_of_memory(self._blocks_to_enter(request, end) - len(hits), hits, running, leaving)

    def _end_of_first_chunk(self, request: Request, hits: Sequence[int], leaving: Sequence[Request]) -> int | None:
        """How far `request` would come in this tick, with the budget of those who leave; None if there is none."""
        now = self._now
        budget_left = now.chunker.budget_left + sum(now.items.get(r.id, 0) for r in leaving)
        known = self._kv.num_known(request, hits)
        chunk = now.chunker.chunk(request.num_tokens - known, budget_left)
        return known + chunk if chunk else None

    def _blocks_to_enter(self, request: Request, end_of_chunk: int) -> int:
        """Blocks for which admission wants to see room: the whole sequence, or as far as the first chunk goes."""
        first_only = self._config.admission == "first_chunk"
        return self._kv.blocks_for(end_of_chunk if first_only else request.num_tokens)

    def _lack_of_memory(
        self, needed: int, hits: Sequence[int], running: int, leaving: Sequence[Request]
    ) -> Obstacle | None:
        space = self._kv.space(hits)
        for other in leaving:
            self._kv.leave(space, other)
        free = space.free - self._reserved
        promised = space.promised if self._config.admission in ("whole_minus_promised", "when_empty") else 0
        watermark = self._config.watermark if running else 0
        if needed <= free - promised - watermark:
            return None
        numbers = (("blocks_needed", needed), ("blocks_free", free))
        return Obstacle(SkipReason.MEMORY, (*numbers, ("blocks_promised", promised), ("watermark", watermark)))

    # Who leaves

    def _make_room(self, request: Request, hits: Sequence[int], lack: Obstacle) -> Verdict:
        """Whether ending expired slices gives what is lacking, or else pushing out worse classes."""

        def fits(leaving: Sequence[Request]) -> bool:
            return self._lack(request, hits, leaving) is None

        expired = self._expired_behind(request)
        leaving = fewest(expired, fits)
        if not leaving and self._roster.policy.has_classes and self._config.priority_push_out:
            leaving = fewest(self._roster.worst_first({*expired, *self._worse_class(request)}), fits)
            finishing = [r for r in self._roster.running.values() if self._now.finishes(r)]
            if leaving and finishing and fits(finishing):
                return Verdict(Obstacle(SkipReason.FINISHING, (("finishing", len(finishing)),)))
        if not leaving:
            return Verdict(lack)
        return Verdict(leavers=self._with_reasons(leaving, expired))

    def _with_reasons(self, leaving: Sequence[Request], expired: Sequence[Request]) -> Leavers:
        slice_ended, pushed_out = PreemptReason.SLICE, PreemptReason.PUSH_OUT
        return tuple((r, slice_ended if r in expired else pushed_out) for r in self._roster.worst_first(leaving))

    def _expired_behind(self, request: Request) -> list[Request]:
        """Running requests with an expired slice that would rank behind `request` after it, worst first."""
        roster = self._roster
        own_class = roster.key(request)[0]
        # A new queue number is larger than any other, so the classes decide.
        behind = (r for r in roster.expired.values() if roster.policy.class_after_expiry(r) >= own_class)
        return roster.worst_first(r for r in behind if self._now.may_leave(r))

    def _worse_class(self, request: Request) -> list[Request]:
        roster = self._roster
        own_class = roster.key(request)[0]
        return [r for r in roster.running.values() if roster.key(r)[0] > own_class and self._now.may_leave(r)]

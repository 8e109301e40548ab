"""Whether a waiting request may enter in this tick, and who would have to leave for it. Asks, and changes nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
        now = self._now
        if now.num_memory_victims:
            return Obstacle(SkipReason.PREEMPTED_FOR_MEMORY, (("preempted", now.num_memory_victims),))
        if now.best_left is not None and now.best_left < self._roster.key(request):
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

        own_class = self._roster.key(request)[0]
        leaving = fewest(self._expired_behind(own_class), fits)
        if not leaving and self._roster.policy.has_classes and self._config.priority_push_out:
            leaving = fewest(self._all_behind(own_class), fits)
            finishing = [r for r in self._roster.running.values() if self._now.finishes(r)]
            if leaving and finishing and fits(finishing):
                return Verdict(Obstacle(SkipReason.FINISHING, (("finishing", len(finishing)),)))
        if not leaving:
            return Verdict(lack)
        return Verdict(leavers=tuple((r, self._reason(r, own_class)) for r in leaving))

    def _reason(self, leaving: Request, own_class: int) -> PreemptReason:
        return PreemptReason.SLICE if self._is_expired_behind(leaving, own_class) else PreemptReason.PUSH_OUT

    def _is_expired_behind(self, running: Request, own_class: int) -> bool:
        """Whether its slice has expired and it would then rank behind a request of `own_class`."""
        # A new queue number is larger than any other, so the classes decide.
        roster = self._roster
        return running.id in roster.expired and roster.policy.class_after_expiry(running) >= own_class

    def _expired_behind(self, own_class: int) -> Iterator[Request]:
        """Those that the end of their slice puts behind, worst first."""
        for _, running in self._now.expired:
            if self._is_expired_behind(running, own_class) and self._now.may_leave(running):
                yield running

    def _all_behind(self, own_class: int) -> Iterator[Request]:
        """Those and the ones of a worse class, worst first."""
        for (running_class, _), running in self._now.running:
            behind = running_class > own_class or self._is_expired_behind(running, own_class)
            if behind and self._now.may_leave(running):
                yield running

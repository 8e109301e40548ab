"""`Copies`: brings KV to the host and back, and to and from the tiers below; a failed one is computed again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from scheduler_core.backends.base import CopyError, ModelRunner
from scheduler_core.events import BlocksFreed, Event, RequestFinished
from scheduler_core.kv_cache_manager import KVCacheManager
from scheduler_core.lower_tier import LowerTier, NoTier
from scheduler_core.output import BlockCopy, BlockLoad, ScheduledRequest, SchedulerOutput
from scheduler_core.scheduler import Scheduler


class Copies:
    """`saved` is what is on the host, by request; `tier` what the tiers below answer and keep."""

    def __init__(
        self, scheduler: Scheduler, kv: KVCacheManager, runner: ModelRunner, log: Sequence[Event], block_size: int
    ) -> None:
        self.saved: dict[str, Any] = {}
        self.tier: LowerTier = NoTier()
        self._scheduler = scheduler
        self._kv = kv
        self._runner = runner
        self._log = log
        self._block_size = block_size

    def make(self, output: SchedulerOutput) -> SchedulerOutput:
        """Make the copies that the batch needs: out first, while the blocks still hold what is to be saved."""
        self._keep_evicted()
        self.save(output.copies_out)
        for copy in output.copies_in:
            try:
                self._runner.copy_in(self.saved[copy.request_id], copy.first_block, copy.block_ids)
            except CopyError as problem:
                output = self._scheduler.copy_in_failed(output, copy, str(problem))
        return self._load(output) if output.loads else output

    def save(self, copies: Iterable[BlockCopy]) -> None:
        """Bring blocks to the host."""
        for copy in copies:
            try:
                self.saved[copy.request_id] = self._runner.copy_out(copy.block_ids)
            except CopyError as problem:
                self._scheduler.copy_out_failed(copy.request_id, str(problem))

    def forget_saved(self) -> None:
        """Let go of what nobody has reserved on the host any more."""
        # Each reservation on the host has its copy, so equal numbers mean that none is left over.
        if len(self.saved) == len(self._kv.host_blocks):
            return
        for request_id in [i for i in self.saved if i not in self._kv.host_blocks]:
            del self.saved[request_id]

    # The tiers below

    def keep_finished(self) -> None:
        """Write behind what those who have ended leave in the cache."""
        if isinstance(self.tier, NoTier):
            return
        ended = {event.request_id for event in self._log if isinstance(event, RequestFinished)}
        for event in self._log:
            if isinstance(event, BlocksFreed) and event.request_id in ended:
                held = [block_id for block_id in event.block_ids if self._kv.cache.holds(block_id)]
                self.tier.keep({block_id: self._kv.cache.entry(block_id) for block_id in held})

    def _keep_evicted(self) -> None:
        """Write behind what was evicted while its blocks still hold it."""
        if self._kv.evicted:
            self.tier.keep(dict(self._kv.evicted))
            self._kv.evicted.clear()

    def _load(self, output: SchedulerOutput) -> SchedulerOutput:
        """Bring in what the tiers below have; what cannot be loaded is computed later, with all that follows it."""
        loads, failed = output.loads, set()
        for load in loads:
            if load.request_id in failed:
                continue
            for number, saved in enumerate(self._scheduler.loading.saved(load)):
                try:
                    self._load_block(output, load, number, saved)
                except CopyError as problem:
                    failed.add(load.request_id)
                    output = self._scheduler.load_failed(output, load, number, str(problem))
                    break
        self._scheduler.loading.forget()
        return output

    def _load_block(self, output: SchedulerOutput, load: BlockLoad, number: int, saved: Any) -> None:
        if isinstance(saved, CopyError):
            raise saved
        if saved is not None:
            self._runner.copy_in(saved, 0, load.block_ids[number : number + 1])
            return
        # A repeated run: the KV that was loaded is not in the record, but it is that of these tokens.
        item = next(item for item in output.scheduled if item.request_id == load.request_id)
        start = (load.first_block + number) * self._block_size
        tokens = tuple(self._scheduler.roster.requests[load.request_id].token_ids[start : start + self._block_size])
        again = ScheduledRequest(item.request_id, tokens, start, item.block_ids, False, 0, item.sampling, item.seed)
        self._runner.execute_model(SchedulerOutput(output.tick, (again,)))

"""What a preempted request keeps on the host: planned when it leaves, brought back when it returns, or lost."""

from __future__ import annotations

from scheduler_core.events import Event, FaultInjected, RequestRestored, RequestScheduled
from scheduler_core.kv_cache_manager import KVCacheManager
from scheduler_core.output import BlockCopy, SchedulerOutput
from scheduler_core.request import Request
from scheduler_core.scheduling_pass import Pass


class Swap:
    """Plans the copies between blocks and host, and deals with those that fail; makes none itself."""

    def __init__(self, kv: KVCacheManager, log: list[Event], block_bytes: int) -> None:
        self._kv = kv
        self._log = log
        self._block_bytes = block_bytes

    def bytes_in(self, num_blocks: int) -> int:
        return num_blocks * self._block_bytes

    def save(self, now: Pass, victim: Request) -> int:
        """Plan to save what a victim has computed; returns its blocks, or 0 if the mode or the host does not allow."""
        kv = self._kv
        blocks = kv.blocks_for(victim.num_computed_tokens)
        if kv.config.preemption_mode != "swap" or not blocks or not kv.can_save(blocks):
            return 0
        kv.reserve_host(victim, blocks)
        now.copies_out.append(BlockCopy(victim.id, kv.tables[victim.id][:blocks]))
        return blocks

    def restore(self, now: Pass, request: Request, num_hits: int) -> None:
        """Plan to copy in the saved blocks that the cache did not have."""
        kv = self._kv
        hit_tokens = num_hits * kv.block_size
        saved_blocks = kv.blocks_for(request.num_saved_tokens)
        tokens = max(0, request.num_saved_tokens - hit_tokens)
        blocks = max(0, saved_blocks - num_hits)
        if blocks:
            table = kv.tables[request.id]
            now.copies_in.append(BlockCopy(request.id, table[num_hits:saved_blocks], num_hits))
        else:
            kv.release_host(request.id)
        self._log.append(RequestRestored(request.id, hit_tokens, tokens, blocks, self.bytes_in(blocks)))
        request.num_saved_tokens = 0

    def drop(self, request: Request) -> None:
        """Forget what is saved of it, if anything is."""
        self._kv.release_host(request.id)
        request.num_saved_tokens = 0

    def save_failed(self, request: Request, problem: str) -> None:
        """What it held is lost and will be computed again."""
        self._lose("copy_out", request, 0, problem)

    def restore_failed(
        self, request: Request, output: SchedulerOutput, copy: BlockCopy, problem: str
    ) -> SchedulerOutput:
        """Keep what came from the cache, compute the rest from the next tick on; returns the batch without it."""
        self._log[:] = [e for e in self._log if not (isinstance(e, RequestScheduled) and e.request_id == request.id)]
        self._lose("copy_in", request, copy.first_block * self._kv.block_size, problem)
        return SchedulerOutput(
            output.tick,
            tuple(item for item in output.scheduled if item.request_id != request.id),
            output.copies_out,
            tuple(other for other in output.copies_in if other is not copy),
            output.loads,
        )

    def _lose(self, where: str, request: Request, tokens_kept: int, problem: str) -> None:
        self.drop(request)
        request.num_computed_tokens = tokens_kept
        self._log.append(FaultInjected(where, request.id, f"{problem}; its KV will be computed again"))

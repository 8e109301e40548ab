"""The laws that can be seen in the scheduler's own state after a tick."""

from __future__ import annotations

from scheduler_core.config import EngineConfig
from scheduler_core.kv_cache_manager import KVCacheManager
from scheduler_core.laws import BrokenLaw, Law
from scheduler_core.output import SchedulerOutput
from scheduler_core.roster import Roster


def check_integrity(roster: Roster, kv: KVCacheManager, output: SchedulerOutput) -> None:
    """Raise `BrokenLaw` unless every block, place, lane and batch is in order."""
    kv.check_integrity()
    _check_places(roster, kv)
    _check_lanes(roster, kv)
    _check_output(output, roster.config)


def _check_places(roster: Roster, kv: KVCacheManager) -> None:
    waiting = {r.id for r in roster.waiting}
    if len(waiting) != len(roster.waiting) or not waiting.isdisjoint(roster.running):
        raise BrokenLaw(Law.PLACE, "a request is in two places")
    if waiting | set(roster.running) != set(roster.requests):
        raise BrokenLaw(Law.PLACE, "a live request is nowhere")
    if set(kv.tables) != set(roster.running):
        raise BrokenLaw(Law.PLACE, "a block table belongs to nobody who runs")
    if not set(kv.host_blocks) <= waiting:
        raise BrokenLaw(Law.HOST, "a saved copy belongs to nobody who waits")


def _check_lanes(roster: Roster, kv: KVCacheManager) -> None:
    if len(roster.running) > roster.config.max_num_seqs:
        raise BrokenLaw(Law.LANES, f"{len(roster.running)} requests run in {roster.config.max_num_seqs} lanes")
    for request in roster.running.values():
        if len(kv.tables[request.id]) < kv.blocks_for(request.num_computed_tokens):
            raise BrokenLaw(Law.BLOCKS, f"{request.id} has computed more tokens than its blocks hold")


def _check_output(output: SchedulerOutput, config: EngineConfig) -> None:
    if any(item.num_tokens < 1 for item in output.scheduled):
        raise BrokenLaw(Law.BATCH, "a part of the batch has no token")
    used, budget = output.num_scheduled_tokens, config.max_num_batched_tokens
    if config.enable_chunked_prefill and used > budget:
        raise BrokenLaw(Law.BATCH, f"{used} tokens were scheduled with a budget of {budget}")

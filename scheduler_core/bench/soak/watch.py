"""Looks at a server while it is soaked: its memory every second, and how long its queue is."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from scheduler_core.bench.served.process import ServedProcess
from scheduler_core.bench.soak.memory import MemorySample

_SCRAPE_EVERY = 5


@dataclass(slots=True)
class Watched:
    """`longest_queue` and `fullest` (KV blocks in use, 0 to 1) are of a reading every five periods."""

    memory: list[MemorySample] = field(default_factory=list)
    longest_queue: float = 0.0
    fullest: float = 0.0
    readings: int = 0


async def watch(server: ServedProcess, seen: Watched, period_s: float) -> None:
    """Until cancelled; raises `BenchError` if the server does not answer any more."""
    clock = asyncio.get_running_loop().time
    began, turn = clock(), 0
    while True:
        memory = server.memory()
        seen.memory.append(MemorySample(clock() - began, memory.own, memory.mapped))
        if turn % _SCRAPE_EVERY == 0:
            metrics = await asyncio.to_thread(server.metrics)
            seen.longest_queue = max(seen.longest_queue, metrics["scheduler_queue_length"])
            seen.fullest = max(seen.fullest, metrics["kv_cache_usage_ratio"])
            seen.readings += 1
        turn += 1
        await asyncio.sleep(max(0.0, began + turn * period_s - clock()))

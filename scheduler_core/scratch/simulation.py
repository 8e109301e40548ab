"""Runs the naive scheduler under a virtual clock and tells what it did."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scheduler_core.scratch.naive import Device, Job, NaiveScheduler, State
from scheduler_core.scratch.virtual_loop import run_virtually

#: Longer than any run here: a slice that never ends.
NEVER = 1e6


@dataclass(frozen=True, slots=True)
class Observed:
    """What a run of the naive scheduler left behind; times in seconds of its virtual clock.

    `calls` are (request, piece, end of the call), `put_off` (request, time); `working` and `queued` are counts at the
    end, and `saved` is the cache.
    """

    calls: tuple[tuple[str, State, float], ...]
    put_off: tuple[tuple[str, float], ...]
    finished: Mapping[str, float]
    hits: tuple[str, ...]
    saved: Mapping[str, State]
    working: int
    queued: int

    def pieces_of(self, name: str) -> list[State]:
        """The pieces that the model read for a request, in order."""
        return [piece for caller, piece, _ in self.calls if caller == name]


def simulate(
    jobs: Sequence[tuple[float, Job]], *, seconds: float, piece_size: int = 4, slice_seconds: float = NEVER
) -> Observed:
    """Send each job at its time and watch for some virtual seconds."""

    async def main() -> Observed:
        scheduler = NaiveScheduler(Device(), piece_size, slice_seconds)
        loop = asyncio.get_running_loop()
        for at, job in jobs:
            if at > 0:
                loop.call_later(at, scheduler.send, job)
            else:
                scheduler.send(job)
        serving = asyncio.create_task(scheduler.serve())
        await asyncio.sleep(seconds)
        serving.cancel()
        return _observed(scheduler)

    return run_virtually(main)


def _observed(scheduler: NaiveScheduler) -> Observed:
    return Observed(
        tuple(scheduler.device.calls),
        tuple(scheduler.put_off),
        dict(scheduler.finished),
        tuple(scheduler.hits),
        dict(scheduler.saved),
        sum(not task.done() for task in scheduler.working),
        len(scheduler.line),
    )

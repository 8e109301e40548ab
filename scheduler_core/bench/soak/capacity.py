"""How many requests a second a gateway can end: clients in a closed loop, enough to keep all its lanes busy."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass

from scheduler_core.bench.soak.clients import SoakClients
from scheduler_core.bench.soak.plan import SoakRequest
from scheduler_core.errors import BenchError
from scheduler_core.request import FinishReason


@dataclass(frozen=True, slots=True)
class Capacity:
    """Requests that ended a second other than dead, and output tokens of theirs, over `seconds`.

    Each of `clients` sends its next request when its last has ended; the time begins when all have had one answer.
    To fail fast is no capacity, so the dead do not count.
    Faults, leavers and the check of the laws are part of it, as in the load afterwards; so is the client, which runs
    on the same machine.
    """

    clients: int
    seconds: float
    requests: int
    requests_per_s: float
    tokens_per_s: float


async def measure(requests: Iterator[SoakRequest], clients: int, seconds: float, soak_clients: SoakClients) -> Capacity:
    """Raises `BenchError` where nothing ended."""
    clock = asyncio.get_running_loop().time
    ended: list[int] = []
    warm, over = asyncio.Event(), asyncio.Event()
    waiting = clients

    async def one() -> None:
        nonlocal waiting
        await soak_clients.send(next(requests), clock())
        waiting -= 1
        if not waiting:
            warm.set()
        while not over.is_set():
            facts = await soak_clients.send(next(requests), clock())
            if warm.is_set() and not over.is_set() and facts.reason is not FinishReason.ERROR:
                ended.append(facts.num_output_tokens)

    async def window() -> float:
        await warm.wait()
        began = clock()
        await asyncio.sleep(seconds)
        over.set()
        return clock() - began

    try:
        async with asyncio.TaskGroup() as group:
            timed = group.create_task(window())
            for _ in range(clients):
                group.create_task(one())
    except* Exception as problems:
        first = problems.exceptions[0]
        why = f"an answer was lost while the capacity was measured: {type(first).__name__}: {first}"
        raise BenchError(why) from first
    if not ended:
        raise BenchError(f"no request ended within {seconds:g} s; measure longer, with more --minutes")
    took = timed.result()
    return Capacity(clients, took, len(ended), len(ended) / took, sum(ended) / took)

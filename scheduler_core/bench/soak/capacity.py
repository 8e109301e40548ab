"""How many requests a second a gateway can end: clients in a closed loop, enough to keep all its lanes busy."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass

from scheduler_core.bench.soak.clients import SoakClients
from scheduler_core.bench.soak.plan import SoakRequest
from scheduler_core.errors import BenchError


@dataclass(frozen=True, slots=True)
class Capacity:
    """Requests that ended a second, in whatever way, and output tokens that came, over `seconds`.

    Each of `clients` sends its next request when its last has ended. The first quarter of the time does not count.
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
    began = clock()
    stop = began + seconds
    ends: list[tuple[float, int]] = []

    async def one() -> None:
        while clock() < stop:
            facts = await soak_clients.send(next(requests), clock())
            ends.append((clock(), facts.num_output_tokens))

    await asyncio.gather(*(one() for _ in range(clients)))
    counted = [tokens for end, tokens in ends if began + seconds / 4 <= end < stop]
    window = seconds * 3 / 4
    if not counted:
        raise BenchError(f"no request ended within {window:g} s; measure longer, with more --minutes")
    return Capacity(clients, window, len(counted), len(counted) / window, sum(counted) / window)

"""Our own client: sends the same prompts at the same times, open loop."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from scheduler_core.bench.client.plan import Prompt
from scheduler_core.bench.client.turn import Turn
from scheduler_core.bench.served.client import Client, WireRequest, connected
from scheduler_core.errors import BenchError
from scheduler_core.load.sender import Sent, send_open_loop
from scheduler_core.request_facts import DEFAULT_TENANT, RequestFacts


@dataclass(frozen=True, slots=True)
class TextRequest:
    """A prompt in text, to be sent at a time."""

    id: str
    arrival_time: float
    prompt: Prompt
    tenant: str = DEFAULT_TENANT


def run(url: str, model: str, prompts: Sequence[Prompt], starts: Sequence[float]) -> Turn:
    """Raises `BenchError` if a request fails."""
    requests = [
        TextRequest(f"r{number}", start, prompt)
        for number, (prompt, start) in enumerate(zip(prompts, starts, strict=True))
    ]
    sent = asyncio.run(_send(url, model, sorted(requests, key=lambda each: each.arrival_time)))
    if failed := [each for each in sent if not each.facts.is_completed]:
        raise BenchError(f"{len(failed)} requests of our client failed, one with: {failed[0].error or 'an error'}")
    facts = [each.facts for each in sent]
    return Turn(
        tuple(each.arrival - facts[0].arrival for each in facts),
        tuple(each.ttft_s for each in facts if each.ttft_s is not None),
        tuple(gap for each in facts for gap in each.itls_s),
        sum(each.num_output_tokens for each in facts),
    )


async def _send(url: str, model: str, requests: Sequence[TextRequest]) -> list[Sent]:
    async with connected(url) as http:
        client = Client(http, model)

        async def send(request: TextRequest, planned: float) -> RequestFacts:
            wire = WireRequest(request.id, request.prompt.text, request.prompt.max_tokens)
            return await client.stream(wire, planned)

        return await send_open_loop(requests, send)

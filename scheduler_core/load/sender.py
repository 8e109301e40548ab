"""Sends a load on schedule, whatever is still outstanding (open loop). Knows nothing of how a request is sent."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from scheduler_core.load.checks import check_number
from scheduler_core.load.request import Outgoing
from scheduler_core.request import FinishReason
from scheduler_core.request_facts import RequestFacts

R = TypeVar("R", bound=Outgoing)

#: Sends one request and waits for its end. Told the planned arrival, which its facts have to keep: a sender that is
#: late must not make the server look fast.
Send = Callable[[R, float], Awaitable[RequestFacts]]


@dataclass(frozen=True, slots=True)
class Sent:
    """What became of a request; `late_s` is how much later than planned it went out, `error` why it failed."""

    facts: RequestFacts
    late_s: float
    error: str = ""


async def send_open_loop(
    load: Iterable[R], send: Send[R], *, speed: float = 1.0, stop: asyncio.Event | None = None
) -> list[Sent]:
    """Send every request at its time, on the clock of the running loop; `speed` 2 takes half the time.

    What `send` raises is told as a failed request. Once `stop` is set nothing more is sent, and those under way are
    cancelled and told as aborted.
    """
    check_number("speed", speed, 1e-3, 1e3)
    loop = asyncio.get_running_loop()
    start, stopped = loop.time(), stop or asyncio.Event()
    tasks: list[asyncio.Task[Sent]] = []
    try:
        for request in load:
            planned = start + request.arrival_time / speed
            if await _is_set_before(stopped, planned):
                break
            tasks.append(asyncio.create_task(_send(request, planned, send)))
        await _until_done(tasks, stopped)
    finally:
        # Nobody is left running, also where nobody waits for the load any more.
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return [task.result() for task in tasks]


async def _is_set_before(stopped: asyncio.Event, planned: float) -> bool:
    """Wait until the planned time; True, and at once, if the load is stopped first."""
    wait = planned - asyncio.get_running_loop().time()
    if wait <= 0:
        # Let those that were sent make a start, also where all come at once.
        await asyncio.sleep(0)
        return stopped.is_set()
    try:
        async with asyncio.timeout(wait):
            await stopped.wait()
    except TimeoutError:
        return False
    return True


async def _until_done(tasks: list[asyncio.Task[Sent]], stopped: asyncio.Event) -> None:
    """Until all have ended, or the load is stopped."""
    stopping: asyncio.Future[Any] = asyncio.ensure_future(stopped.wait())
    everything: asyncio.Future[Any] = asyncio.gather(*tasks)
    try:
        await asyncio.wait({stopping, everything}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopping.cancel()


async def _send(request: R, planned: float, send: Send[R]) -> Sent:
    clock = asyncio.get_running_loop().time
    late = max(0.0, clock() - planned)
    try:
        return Sent(await send(request, planned), late)
    except asyncio.CancelledError:
        return Sent(_ended(request, planned, clock(), FinishReason.ABORT), late, "the load was stopped")
    except Exception as problem:
        message = f"{type(problem).__name__}: {problem}"
        return Sent(_ended(request, planned, clock(), FinishReason.ERROR), late, message)


def _ended(request: Outgoing, planned: float, now: float, reason: FinishReason) -> RequestFacts:
    return RequestFacts(request.id, planned, 0, (), now, reason, tenant=request.tenant)

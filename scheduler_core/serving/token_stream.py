"""A response of server-sent events that notices at once when the client leaves, also while it waits for a token."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Any, TypeVar

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

T = TypeVar("T")
DONE = "data: [DONE]\n\n"


class EventStream(Response):
    """Sends each of `bodies` as an event; calls `close` in the end, whoever ends it and however early.

    A client that does not read holds its connection for at most `max_seconds`.
    """

    media_type = "text/event-stream"

    def __init__(
        self,
        bodies: AsyncGenerator[dict[str, Any]],
        headers: dict[str, str],
        close: Callable[[], None],
        max_seconds: float,
    ) -> None:
        self._bodies = bodies
        self._close = close
        self._max_seconds = max_seconds
        self.status_code = 200
        self.background = None
        self.init_headers({**headers, "cache-control": "no-cache", "x-accel-buffering": "no"})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            async with aclosing(self._bodies), asyncio.timeout(self._max_seconds):
                await unless_left(receive, self._pump(send))
        finally:
            self._close()

    async def _pump(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        async for body in self._bodies:
            await _send(send, event(body), True)
        await _send(send, DONE, True)
        await _send(send, "", False)


def event(body: dict[str, Any]) -> str:
    return f"data: {json.dumps(body, ensure_ascii=False)}\n\n"


async def _send(send: Send, text: str, more: bool) -> None:
    await send({"type": "http.response.body", "body": text.encode(), "more_body": more})


async def unless_left(receive: Receive, work: Awaitable[T]) -> T | None:
    """What `work` returns; it is cancelled, and the result None, if the client leaves before."""
    working = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(_gone(receive))
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        return working.result() if working.done() else None
    finally:
        for task in (working, leaving):
            task.cancel()
        await asyncio.gather(working, leaving, return_exceptions=True)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass

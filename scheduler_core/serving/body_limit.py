"""Refuses bodies that are too large before they are read, whatever their header says, or that never end."""

from __future__ import annotations

import asyncio
import time

from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from scheduler_core.serving.answers import error_body

#: Where the application finds when a request came, on the clock `time.monotonic`.
ARRIVED = "tickscope.arrived"


class BodyLimit:
    """ASGI middleware: 413 for a body of more than `max_bytes`, 408 for one that takes more than `max_seconds`."""

    def __init__(self, app: ASGIApp, max_bytes: int, max_seconds: float = 30.0) -> None:
        self._app = app
        self._max_bytes = max_bytes
        self._max_seconds = max_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope[ARRIVED] = time.monotonic()
        if self._announced(scope) > self._max_bytes:
            await self._too_large()(scope, receive, send)
            return
        seen, whole, began, refused = 0, False, False, False
        late_at = asyncio.get_running_loop().time() + self._max_seconds

        async def next_part() -> Message | Response:
            nonlocal seen, whole
            try:
                async with asyncio.timeout_at(None if whole else late_at):
                    message = await receive()
            except TimeoutError:
                return self._too_slow()
            seen += len(message.get("body", b""))
            whole = whole or not message.get("more_body", False)
            return self._too_large() if seen > self._max_bytes else message

        async def counted() -> Message:
            nonlocal refused
            if not refused:
                part = await next_part()
                if not isinstance(part, Response):
                    return part
                refused = True
                if not began:
                    await part(scope, receive, send)
            # To the application it looks as if the client had left.
            return {"type": "http.disconnect"}

        async def watched(message: Message) -> None:
            nonlocal began
            began = True
            if not refused:
                await send(message)

        await self._app(scope, counted, watched)

    def _announced(self, scope: Scope) -> int:
        for name, value in scope["headers"]:
            if name == b"content-length":
                return int(value) if value.isdigit() else 0
        return 0

    def _too_large(self) -> Response:
        return _refusal(413, f"the body has more than {self._max_bytes} bytes; shorten the prompt", "body_too_large")

    def _too_slow(self) -> Response:
        return _refusal(408, f"the body did not come within {self._max_seconds:g} s; send it again", "body_too_slow")


def _refusal(status: int, message: str, code: str) -> Response:
    # What is left of the body is not read, so the connection cannot be used again.
    return JSONResponse(error_body(message, "invalid_request_error", code), status, {"connection": "close"})

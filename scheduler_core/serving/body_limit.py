"""Refuses bodies that are too large before they are read, whatever their header says."""

from __future__ import annotations

from typing import Any

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from scheduler_core.serving.answers import error_body


class BodyLimit:
    """ASGI middleware: 413 for a body of more than `max_bytes`."""

    def __init__(self, app: ASGIApp, max_bytes: int) -> None:
        self._app = app
        self._max_bytes = max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if self._announced(scope) > self._max_bytes:
            await self._refuse(scope, receive, send)
            return
        seen, began, refused = 0, False, False

        async def counted() -> Message:
            nonlocal seen, refused
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > self._max_bytes and not refused:
                refused = True
                if not began:
                    await self._refuse(scope, receive, send)
            # To the application it looks as if the client had left.
            return {"type": "http.disconnect"} if refused else message

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

    async def _refuse(self, scope: Scope, receive: Receive, send: Send) -> None:
        message = f"the body has more than {self._max_bytes} bytes; shorten the prompt"
        body: dict[str, Any] = error_body(message, "invalid_request_error", "body_too_large")
        # What is left of the body is not read, so the connection cannot be used again.
        await JSONResponse(body, 413, {"connection": "close"})(scope, receive, send)

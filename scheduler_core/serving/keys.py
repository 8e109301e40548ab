"""API keys: compared in constant time, kept as digests only, asked for before anything else is read."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from scheduler_core.serving.answers import error_body

#: What probes and Prometheus read; everything else needs a key where there are keys.
_OPEN = frozenset({"/health", "/metrics"})


class ApiKeys:
    """The keys that open the gateway, some of them known by their `digests` only; without any it is open."""

    def __init__(self, keys: Iterable[str], digests: Iterable[str] = ()) -> None:
        self._digests = [*(_digest(key) for key in keys if key), *map(bytes.fromhex, digests)]

    @property
    def digests(self) -> list[str]:
        """In hex: enough to check a key, and no use for anything else."""
        return [digest.hex() for digest in self._digests]

    def __bool__(self) -> bool:
        return bool(self._digests)

    def accept(self, authorization: str) -> bool:
        """Whether the value of an Authorization header holds one of the keys; takes as long for any value."""
        kind, _, key = authorization.partition(" ")
        given = _digest(key.strip())
        found = False
        for digest in self._digests:
            found |= hmac.compare_digest(digest, given)
        return found and kind.lower() == "bearer"


class KeyGuard:
    """ASGI middleware: 401 without a key."""

    def __init__(self, app: ASGIApp, keys: ApiKeys) -> None:
        self._app = app
        self._keys = keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if (
            scope["type"] != "http"
            or not self._keys
            or scope["path"] in _OPEN
            or self._keys.accept(Headers(scope=scope).get("authorization", ""))
        ):
            await self._app(scope, receive, send)
        else:
            message = "the API key is missing or wrong; send it as a bearer token"
            body = error_body(message, "invalid_request_error", "invalid_api_key")
            headers = {"www-authenticate": "Bearer", "connection": "close"}
            await JSONResponse(body, 401, headers)(scope, receive, send)


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()

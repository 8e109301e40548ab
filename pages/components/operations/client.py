"""Asks a gateway, and never for long: every answer is bounded in bytes and in time."""

from __future__ import annotations

import http.client
import json
import os
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any
from urllib.parse import quote, urlsplit

from scheduler_core.errors import TickscopeError

URLS = "TICKSCOPE_GATEWAY_URL"
KEY = "TICKSCOPE_SERVE_API_KEY"
DEFAULT_URL = "http://127.0.0.1:8000"
MAX_BYTES = 2 * 1024 * 1024
#: For a whole answer; the page waits for it.
MAX_SECONDS = 2.0
#: Clearing a large cache, or a slow disk.
MAX_WRITE_SECONDS = 10.0
_PART = 64 * 1024
_MAX_MESSAGE = 300
_HERE = ("127.0.0.1", "::1", "localhost")


class GatewayError(TickscopeError):
    """No answer, or none that can be read; the message is one calm line."""


class KeyRefused(GatewayError):
    """The gateway wants a key, or another one."""


class NotOffered(GatewayError):
    """The gateway has no such route: it runs without --operations."""


class Refused(GatewayError):
    """The gateway understood, and said no; the message is its own."""


@dataclass(frozen=True, slots=True)
class Gateway:
    """One that the operator has named."""

    url: str
    key: str = ""

    def metrics(self) -> str:
        """The exposition format; open to everybody."""
        return self._ask("GET", "/metrics", MAX_SECONDS).decode("utf-8", "replace")

    def read(self, path: str) -> dict[str, Any]:
        """What the operations tell."""
        return _object(self._ask("GET", f"/operations/{path}", MAX_SECONDS))

    def write(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Have something done; `path` is below the operations, made by `within`."""
        return _object(self._ask(method, f"/operations/{path}", MAX_WRITE_SECONDS, json.dumps(body or {}).encode()))

    def _ask(self, method: str, path: str, seconds: float, body: bytes | None = None) -> bytes:
        headers = {"authorization": f"Bearer {self.key}"} if self.key else {}
        if body is not None:
            headers["content-type"] = "application/json"
        request = urllib.request.Request(self.url + path, body, headers, method=method)
        ends_at = time.monotonic() + seconds
        try:
            with _opener().open(request, timeout=seconds) as answer:
                return _read(answer, ends_at)
        except urllib.error.HTTPError as problem:
            with problem:
                raise _refusal(problem, ends_at) from None
        except TimeoutError:
            raise GatewayError(f"it did not answer within {seconds:g} s") from None
        except (OSError, ValueError, http.client.HTTPException) as problem:
            raise GatewayError(_why(problem, seconds)) from None


def within(*parts: str) -> str:
    """A path whose parts cannot leave it."""
    return "/".join(quote(part, safe="") for part in parts)


def may_operate(gateway: Gateway, address: str | None) -> bool:
    """Whether visitors may do more than look at figures, where the app listens at `address` (None is everywhere).

    Where others than this machine's users reach the app, its operator has to want it, and gives it a key.
    """
    return bool(gateway.key) or address in _HERE


@cache
def gateways() -> tuple[Gateway, ...]:
    """Those that the environment names; raises `GatewayError` for an address that is none."""
    return read_gateways(os.environ)


def read_gateways(environment: Mapping[str, str]) -> tuple[Gateway, ...]:
    """As `gateways`, of any environment. Visitors name none, so that nobody reaches other hosts through this page."""
    urls = [url.strip().rstrip("/") for url in environment.get(URLS, "").split(",") if url.strip()]
    key = environment.get(KEY, "").strip()
    return tuple(Gateway(_checked(url), key) for url in dict.fromkeys(urls or [DEFAULT_URL]))


def _checked(url: str) -> str:
    try:
        parts = urlsplit(url)
        is_sound = parts.scheme in ("http", "https") and parts.hostname and "@" not in parts.netloc and parts.port != 0
    except ValueError:
        is_sound = None
    if not is_sound or parts.query or parts.fragment:
        # What may be a password is not repeated.
        raise GatewayError(
            f"{URLS} has {url.rpartition('@')[2][:100]!r}; it must be http://HOST:PORT, several separated by commas"
        )
    return url


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Elsewhere is nobody whom the operator has named."""

    def redirect_request(self, *_: Any) -> None:
        return None


@cache
def _opener() -> urllib.request.OpenerDirector:
    # No proxy of the environment: a gateway is near.
    return urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirect())


def _read(answer: Any, ends_at: float) -> bytes:
    """All of it; the time of each part is bounded by the socket, that of all parts here."""
    parts, size = [], 0
    while part := answer.read1(_PART):
        parts.append(part)
        size += len(part)
        if size > MAX_BYTES:
            raise GatewayError(f"its answer has more than {MAX_BYTES // 1024 // 1024} MiB")
        if time.monotonic() > ends_at:
            raise GatewayError("its answer did not end in time")
    return b"".join(parts)


def _refusal(problem: urllib.error.HTTPError, ends_at: float) -> GatewayError:
    message = _message(problem, ends_at)
    if problem.code == 401:
        return KeyRefused(f"it does not take the key in {KEY}")
    if problem.code == 404 and not message:
        return NotOffered("it runs without --operations")
    return Refused(message or f"it answered with status {problem.code}")


def _message(problem: urllib.error.HTTPError, ends_at: float) -> str:
    """What a gateway of ours says; "" for the answer of another server, or that of a route that is not there."""
    try:
        error = _object(_read(problem, ends_at)).get("error")
    except (GatewayError, OSError, ValueError, http.client.HTTPException):
        return ""
    message = error.get("message") if isinstance(error, dict) else None
    return message[:_MAX_MESSAGE] if isinstance(message, str) and message != "Not Found" else ""


def _object(data: bytes) -> dict[str, Any]:
    try:
        told = json.loads(data)
    except (ValueError, RecursionError):
        told = None
    if not isinstance(told, dict):
        raise GatewayError("its answer cannot be read; is it a gateway of this app?")
    return told


def _why(problem: Exception, seconds: float) -> str:
    reason = getattr(problem, "reason", None)
    if isinstance(reason, TimeoutError):
        return f"it did not answer within {seconds:g} s"
    if isinstance(reason, ConnectionRefusedError):
        return "nobody listens there"
    return f"it cannot be reached ({str(reason or problem)[:100] or type(problem).__name__})"

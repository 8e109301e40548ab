"""Who may operate the gateway: nobody by way of a foreign web page."""

from __future__ import annotations

import ipaddress

from fastapi import Request

from scheduler_core.serving.gateway import BadRequest

_JSON = "application/json"


def guard(request: Request) -> None:
    """Raises `BadRequest` for what a browser may send on behalf of a page that is not ours.

    A page may send plain forms anywhere without asking first, but no JSON. And it may have its own name stand for a
    loopback address, which then shows in the header Host.
    """
    server = request.scope.get("server") or ("", None)
    name = _name(request.headers.get("host", ""))
    if is_loopback(str(server[0])) and not is_loopback(name):
        raise BadRequest(
            f"the header Host names {name[:100]!r}, but this gateway listens on a loopback address; "
            "call it by localhost, 127.0.0.1 or [::1]",
            "host",
            "foreign_host",
            403,
        )
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if request.method not in ("GET", "HEAD") and kind != _JSON:
        raise BadRequest(
            f"content-type is {kind[:100]!r}; it must be {_JSON}, also without a body", "content-type", None, 415
        )


def is_loopback(name: str) -> bool:
    """Whether a name or an address is this machine's own, whoever is asked."""
    if name.lower().rstrip(".") == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def _name(host: str) -> str:
    """The header Host without its port and brackets."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.rpartition(":")[0] if ":" in host else host

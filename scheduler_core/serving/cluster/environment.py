"""What Ray and its processes read from the environment, some of it when Ray is imported; imports no Ray."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

_NOT_LOCAL = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
_LOOPBACKS = ("127.0.0.1", "localhost", "[::1]")
_TOKENS = ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")
_TOKEN_FILE = Path("~/.ray/auth_token")
_ROOT = Path(__file__).resolve().parents[3]


def prepare(address: str | None) -> None:
    """Be called before Ray is imported; without an `address` Ray will be one of this machine and this command alone."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    if address is None or address.rpartition(":")[0] in _LOOPBACKS:
        # Without it Ray takes 127.0.0.1 for a slip, and goes by the machine's address in the network.
        os.environ[_NOT_LOCAL] = "0"
    if address is not None and _has_token():
        # `ray start` asks for the token that it writes there; a program has to be told to show it.
        os.environ.setdefault("RAY_AUTH_MODE", "token")
    if address is None:
        # Other users of this machine reach its ports too.
        os.environ["RAY_AUTH_MODE"] = "token"
        os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)
        # Workers have to find this program wherever it was started.
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(_ROOT), os.environ.get("PYTHONPATH"))))


def _has_token() -> bool:
    return any(os.environ.get(name) for name in _TOKENS) or _TOKEN_FILE.expanduser().is_file()


def is_local() -> bool:
    """Whether Ray is of this machine alone; its processes inherit what was prepared."""
    return os.environ.get(_NOT_LOCAL) == "0"

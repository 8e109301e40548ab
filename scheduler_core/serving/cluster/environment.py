"""What Ray and its processes read from the environment, some of it when Ray is imported; imports no Ray."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

_NOT_LOCAL = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
_LOOPBACKS = ("127.0.0.1", "localhost", "[::1]")
_ROOT = Path(__file__).resolve().parents[3]


def prepare(address: str | None) -> None:
    """Be called before Ray is imported; without an `address` Ray will be one of this machine and this command alone."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    if address is None or address.rpartition(":")[0] in _LOOPBACKS:
        # Without it Ray takes 127.0.0.1 for a slip, and goes by the machine's address in the network.
        os.environ[_NOT_LOCAL] = "0"
    if address is None:
        # Other users of this machine reach its ports too.
        os.environ["RAY_AUTH_MODE"] = "token"
        os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)
        # Workers have to find this program wherever it was started.
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(_ROOT), os.environ.get("PYTHONPATH"))))


def is_local() -> bool:
    """Whether Ray is of this machine alone; its processes inherit what was prepared."""
    return os.environ.get(_NOT_LOCAL) == "0"

"""Keeps on this machine a server of Ray Serve that listens on all of its addresses, whatever Ray was told.

Each replica of Ray 2.60 opens it for calls of others and unpickles what it is sent there; we make no such calls.
"""

from __future__ import annotations

from typing import Any

from ray.serve._private import replica

from scheduler_core.serving.cluster.environment import is_local

_EVERYWHERE = "[::]"
_LOOPBACK = "127.0.0.1"


def keep_on_loopback() -> None:
    """Be called in the process of a replica before it is ready; where Ray is a cluster's, nothing changes."""
    if not is_local():
        return
    open_port = replica.add_port_to_grpc_server

    def open_here(server: Any, address: str) -> int:
        return int(open_port(server, address.replace(_EVERYWHERE, _LOOPBACK)))

    replica.add_port_to_grpc_server = open_here

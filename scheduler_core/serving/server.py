"""The process that serves: a socket, uvicorn, and an end that lets requests finish."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import sys
from collections.abc import Iterator, Sequence
from types import FrameType

import stamina
import uvicorn

from scheduler_core.errors import TickscopeError
from scheduler_core.serving.gateway import Gateway

#: How much longer uvicorn waits than the engine, so that whoever is ended is told why.
_GRACE_S = 3
OPEN_WARNING = "warning: anyone who reaches this address may use it; set TICKSCOPE_SERVE_API_KEYS"


class GatewayServer(uvicorn.Server):
    """On the first SIGTERM or SIGINT takes nothing new and lets requests finish; on the second it ends at once."""

    def __init__(self, gateway: Gateway, max_connections: int) -> None:
        self._gateway = gateway
        self._drain: asyncio.Task[None] | None = None
        super().__init__(
            uvicorn.Config(
                gateway.app,
                access_log=False,
                log_level="warning",
                # Not what else may be installed: with Ray come others.
                loop="asyncio",
                http="h11",
                server_header=False,
                limit_concurrency=max_connections,
                timeout_graceful_shutdown=int(gateway.engine.limits.drain_s) + _GRACE_S,
            )
        )

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Unlike uvicorn's own, does not raise the signal again: to end when told to is no failure."""
        loop = asyncio.get_running_loop()
        numbers = (signal.SIGTERM, signal.SIGINT)
        for number in numbers:
            loop.add_signal_handler(number, self.handle_exit, number, None)
        try:
            yield
        finally:
            for number in numbers:
                loop.remove_signal_handler(number)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self._drain is None:
            print("shutting down: requests under way are finished first", file=sys.stderr, flush=True)
            self._drain = asyncio.get_running_loop().create_task(self._gateway.engine.drain())
            self.should_exit = True
        else:
            self.force_exit = True


def is_open(address: str, keys: Sequence[str]) -> bool:
    """Whether others than the users of this machine may come in without a key."""
    return not keys and not address.startswith("127.") and address != "::1"


def listen(host: str, port: int) -> socket.socket:
    """A bound socket; raises `TickscopeError` where the address cannot be had."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0][0]
    except OSError as problem:
        raise _cannot_listen(host, port, problem) from None
    bound = socket.socket(family, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
    except OSError as problem:
        bound.close()
        raise _cannot_listen(host, port, problem) from None
    return bound


def _cannot_listen(host: str, port: int, problem: OSError) -> TickscopeError:
    return TickscopeError(f"cannot listen on {host} port {port}: {problem.strerror or problem}; choose another --port")


def serve(gateway: Gateway, bound: socket.socket, max_connections: int) -> None:
    """Serve until told to end."""
    # Failed attempts are logged with their reasons where they happen.
    stamina.instrumentation.set_on_retry_hooks(())
    GatewayServer(gateway, max_connections).run(sockets=[bound])

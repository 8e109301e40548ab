"""Starts the application on a Ray of its own or on a running cluster, and takes it down again at a signal."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import ray
from ray import serve
from ray.exceptions import RayError
from ray.serve import Application
from ray.serve.exceptions import RayServeException
from ray.serve.handle import DeploymentHandle

from scheduler_core.errors import TickscopeError
from scheduler_core.serving.cluster.application import APPLICATION, build
from scheduler_core.serving.cluster.args import ClusterArgs
from scheduler_core.serving.served_backend import ServedBackend, ready_on_disk
from scheduler_core.serving.server import OPEN_WARNING, is_open, listen
from scheduler_core.serving.settings import ServeSettings

#: Tokens are short; Ray would take a third of the memory for what it passes on.
_OBJECTS_BYTES = 256 << 20
_LOOPBACK = "127.0.0.1"
_LOGS = "/tmp/ray/session_latest/logs/serve"


def serve_cluster(args: ClusterArgs, host: str, port: int, address: str | None) -> None:
    """Serve until SIGTERM or SIGINT; raises `TickscopeError` where that cannot be done."""
    application = build(args)
    with listen(host, port) as probe:
        ip, port = probe.getsockname()[:2]
    if is_open(ip, args.key_digests):
        print(OPEN_WARNING, file=sys.stderr)
    if address is None:
        _check_cpus(args, _num_cpus())
        ready_on_disk(ServedBackend(args.backend))
    with _ray(address), _signals() as told_to_end:
        _check_cpus(args, ray.cluster_resources().get("CPU", 0))
        _check_free()
        gateways = _start(application, host, port, address)
        try:
            logs = f"; logs: {_LOGS}" if address is None else ""
            print(_greeting(args, host, port) + logs, file=sys.stderr, flush=True)
            told_to_end.wait()
            print("shutting down: requests under way are finished first", file=sys.stderr, flush=True)
            with contextlib.suppress(Exception):  # a gateway that does not answer is ended with the others
                gateways.broadcast("drain").results(timeout_s=ServeSettings(**args.gateway).drain_s + 1)
        finally:
            _stop(address)


@contextmanager
def _ray(address: str | None) -> Iterator[None]:
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR", "configure_logging": True}
    try:
        if address is None:
            ray.init(
                "local",
                num_cpus=_num_cpus(),
                include_dashboard=False,
                object_store_memory=_OBJECTS_BYTES,
                _node_ip_address=_LOOPBACK,
                **quiet,
            )
        else:
            ray.init(address, **quiet)
    except (ConnectionError, ValueError, RuntimeError) as problem:
        where = "be started" if address is None else f"be reached at {address}"
        raise TickscopeError(f"Ray cannot {where}: {_first_line(problem)}") from None
    logging.getLogger("ray.serve").setLevel(logging.WARNING)
    try:
        yield
    finally:
        with _silence():
            ray.shutdown()


def _check_cpus(args: ClusterArgs, has: float) -> None:
    """Serve would wait for ever."""
    needs = args.replicas * args.cpus_per_replica
    if needs > has:
        raise TickscopeError(
            f"{args.replicas} replicas of {args.cpus_per_replica:g} CPUs need {needs:g}, and Ray has {has:g}: "
            "lower --replicas or --cpus-per-replica"
        )


def _check_free() -> None:
    """Another one of ours would be replaced, and both would be taken down with the first of the commands."""
    if APPLICATION in serve.status().applications:
        raise TickscopeError(
            f"this cluster serves an application {APPLICATION!r} already; end the command that does, or take it down "
            "with Ray's `serve shutdown`"
        )


def _start(application: Application, host: str, port: int, address: str | None) -> DeploymentHandle[Any]:
    try:
        serve.start(
            proxy_location="HeadOnly",
            http_options={"host": host, "port": port},
            logging_config={"log_level": "WARNING", "enable_access_log": False},
        )
        return serve.run(application, name=APPLICATION, route_prefix="/")
    except (RuntimeError, TimeoutError, RayError, RayServeException) as problem:
        why = _why(problem)
        _stop(address)
        raise TickscopeError(f"the replicas cannot be started: {why}") from None


def _why(problem: Exception) -> str:
    """What Serve says of a deployment, else what was raised: the proxy may not have come up, say."""
    application = serve.status().applications.get(APPLICATION)
    deployments = application.deployments.values() if application is not None else ()
    return next((reason(each.message) for each in deployments if each.message), _first_line(problem))


def reason(message: str) -> str:
    """What was raised, without its kind, of what Serve says of a deployment: all that, and where it came from."""
    last = message.strip().splitlines()[-1]
    kind, _, text = last.partition(": ")
    return text if text and " " not in kind else last


def _stop(address: str | None) -> None:
    """Take down Serve, or only our application where others may have theirs."""
    with _silence():
        if address is None:
            serve.shutdown()
        else:
            serve.delete(APPLICATION)


def _silence() -> contextlib.AbstractContextManager[object]:
    """Ray prints what its own end cuts off."""
    return contextlib.redirect_stdout(io.StringIO())


@contextmanager
def _signals() -> Iterator[threading.Event]:
    """Set by the first SIGTERM or SIGINT; the second one ends the process at once. Ray has handlers of its own."""
    event = threading.Event()

    def told(number: int, frame: FrameType | None) -> None:
        if event.is_set():
            raise SystemExit(128 + number)
        event.set()

    numbers = (signal.SIGTERM, signal.SIGINT)
    before = [signal.signal(number, told) for number in numbers]
    try:
        yield event
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


def _num_cpus() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _greeting(args: ClusterArgs, host: str, port: int) -> str:
    shown = f"[{host}]" if ":" in host else host
    return f"serving on http://{shown}:{port} with {args.replicas} replicas ({args.router})"


def _first_line(problem: BaseException) -> str:
    text = str(problem).strip().splitlines()
    return text[0] if text else type(problem).__name__

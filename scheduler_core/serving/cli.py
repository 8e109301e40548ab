"""The commands `serve` and `dead-letters`; what they need is imported when they run."""

from __future__ import annotations

import logging
import sys
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from scheduler_core.config import EngineConfig
from scheduler_core.errors import ConfigError
from scheduler_core.serving_config import serving_config

if TYPE_CHECKING:
    from scheduler_core.serving.served_model import ChatRunner
    from scheduler_core.serving.settings import ServeSettings


class ServedBackend(Enum):
    SYNTHETIC = "synthetic"
    MODEL = "model"


def serve(
    backend: Annotated[ServedBackend, typer.Option(help="Who computes the tokens.")] = ServedBackend.MODEL,
    host: Annotated[str | None, typer.Option(help="Where to listen; 127.0.0.1 unless told otherwise.")] = None,
    port: Annotated[int | None, typer.Option(help="0 takes a free one.")] = None,
    served_name: Annotated[str | None, typer.Option(metavar="NAME", help="What clients call the model.")] = None,
    preset: Annotated[str, typer.Option(help="Schedule as this preset does.")] = "sarathi",
    set_: Annotated[list[str] | None, typer.Option("--set", metavar="FIELD=VALUE", help="Change a setting.")] = None,
    record: Annotated[Path | None, typer.Option(help="Record the first ticks for the stage (.json.gz).")] = None,
    record_ticks: Annotated[int, typer.Option(help="How many ticks to record.")] = 2_000,
    max_waiting: Annotated[int | None, typer.Option(help="How many requests may wait.")] = None,
    drain_s: Annotated[float | None, typer.Option(help="Seconds to finish requests in at the end.")] = None,
    state: Annotated[Path | None, typer.Option(help="The folder of the dead letters.")] = None,
    check: Annotated[bool, typer.Option("--check", help="Check the laws after every tick.")] = False,
) -> None:
    """Serve the model over HTTP in OpenAI's format, until SIGTERM; API keys come from TICKSCOPE_SERVE_API_KEYS."""
    from scheduler_core.serving.app import build
    from scheduler_core.serving.server import listen
    from scheduler_core.serving.server import serve as run

    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    given = {"host": host, "port": port, "max_waiting": max_waiting, "drain_s": drain_s, "state": state}
    settings = _settings(given)
    bound = listen(settings.host, settings.port)
    runner = _runner(backend)
    config = _config(backend, preset, set_ or [], runner)
    gateway = build(settings, config, runner, served_name or _default_name(runner), record, record_ticks, check)
    address, actual_port = bound.getsockname()[:2]
    shown = f"[{address}]" if ":" in address else address
    print(f"serving {gateway.model} on http://{shown}:{actual_port}", file=sys.stderr, flush=True)
    if not settings.keys and not address.startswith("127.") and address != "::1":
        print("warning: anyone who reaches this address may use it; set TICKSCOPE_SERVE_API_KEYS", file=sys.stderr)
    run(gateway, bound, settings.max_connections)


def _settings(given: dict[str, Any]) -> ServeSettings:
    """Options before environment variables; raises `ConfigError` naming what is wrong."""
    from pydantic import ValidationError

    from scheduler_core.serving.settings import ServeSettings

    try:
        return ServeSettings(**{name: value for name, value in given.items() if value is not None})
    except ValidationError as problem:
        first = problem.errors()[0]
        name = ".".join(str(each) for each in first["loc"])
        raise ConfigError(f"{name} is {first['input']!r}: {first['msg']}") from None


def _config(backend: ServedBackend, preset: str, settings: list[str], runner: ChatRunner) -> EngineConfig:
    """A server's sizes; requests go by their `priority`, which all have alike unless they say otherwise."""
    cost = "smollm2-cpu" if backend is ServedBackend.MODEL else "unit"
    config = serving_config(cost, preset).replace(policy="priority")
    if runner.max_model_len is not None and config.max_model_len > runner.max_model_len:
        config = config.replace(max_model_len=runner.max_model_len)
    return config.replace(**dict(EngineConfig.parse_setting(text) for text in settings))


def _runner(backend: ServedBackend) -> ChatRunner:
    if backend is ServedBackend.SYNTHETIC:
        from scheduler_core.backends.synthetic import SyntheticRunner

        return SyntheticRunner()
    from scheduler_core.backends import model_store
    from scheduler_core.backends.transformers_runner import TransformersRunner

    print("loading the model", file=sys.stderr, flush=True)
    return TransformersRunner(model_store.load())


def _default_name(runner: ChatRunner) -> str:
    return "synthetic" if runner.backend.kind == "synthetic" else runner.backend.model

"""The commands `serve` and `dead-letters`; what they need is imported when they run."""

from __future__ import annotations

import importlib.util
import logging
import os
import sys
from contextlib import AbstractContextManager, closing
from dataclasses import asdict
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from scheduler_core import terminal
from scheduler_core.errors import ConfigError
from scheduler_core.serving.served_backend import ServedBackend, default_name, make_runner, served_config
from scheduler_core.storage.cli import DEFAULT_LIMIT_MIB, LimitOption, RedisOption, StoreOption, opened

if TYPE_CHECKING:
    from scheduler_core.serving.dead_letters import DeadLetters
    from scheduler_core.serving.settings import ServeSettings


_BACKLOG = 2_048


class Router(Enum):
    """Those of Ray Serve."""

    POWER_OF_TWO = "power-of-two"
    CONSISTENT_HASH = "consistent-hash"
    PREFIX_AFFINITY = "prefix-affinity"


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
    fault_plan: Annotated[Path | None, typer.Option(metavar="FILE", help="Faults to inject (.toml).")] = None,
    operations: Annotated[
        bool | None, typer.Option("--operations", help="Let the operations page see and change what is inside.")
    ] = None,
    store: StoreOption = None,
    redis: RedisOption = None,
    store_mib: LimitOption = DEFAULT_LIMIT_MIB,
    check: Annotated[bool, typer.Option("--check", help="Check the laws after every tick.")] = False,
    replicas: Annotated[int, typer.Option(min=1, help="Engines, each a process; more than one run on Ray.")] = 1,
    router: Annotated[Router, typer.Option(help="Who chooses the replica.")] = Router.CONSISTENT_HASH,
    ray_address: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="A running Ray cluster; a new one here without.")
    ] = None,
    cpus_per_replica: Annotated[float, typer.Option(min=0.01, help="What Ray sets aside for each.")] = 0.5,
) -> None:
    """Serve the model over HTTP in OpenAI's format, until SIGTERM; API keys come from TICKSCOPE_SERVE_API_KEYS."""
    from scheduler_core.serving.app import build
    from scheduler_core.serving.fault_plan import FaultPlan, load_fault_plan
    from scheduler_core.serving.server import OPEN_WARNING, is_open, listen
    from scheduler_core.serving.server import serve as run
    from scheduler_core.serving.stage_size import for_the_stage

    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    given = {"host": host, "port": port, "max_waiting": max_waiting, "drain_s": drain_s, "state": state}
    given["operations"] = operations
    settings = _settings(given)
    if replicas > 1 or ray_address is not None:
        if record is not None or settings.operations:
            raise ConfigError("--record and --operations look into one engine; leave them out, or --replicas")
        _serve_on_ray(
            settings,
            ray_address,
            backend=backend.value,
            served_name=served_name,
            preset=preset,
            settings=set_ or [],
            replicas=replicas,
            cpus_per_replica=cpus_per_replica,
            router=router.value,
            redis=redis,
            store=store,
            store_mib=store_mib,
            faults=[asdict(fault) for fault in load_fault_plan(fault_plan)] if fault_plan is not None else [],
            check=check,
        )
        return
    faults = FaultPlan(load_fault_plan(fault_plan) if fault_plan is not None else ())
    wrap = faults.around if fault_plan is not None or settings.operations else None
    with listen(settings.host, settings.port) as bound, opened(store, redis, store_mib, wrap) as below:
        address, actual_port = bound.getsockname()[:2]
        opened_to_all = is_open(address, settings.keys)
        if opened_to_all and settings.operations:
            raise ConfigError(
                f"with --operations on {address} anyone who reaches it may read prompts; set TICKSCOPE_SERVE_API_KEYS"
            )
        if backend is ServedBackend.MODEL:
            print("loading the model", file=sys.stderr, flush=True)
        runner = make_runner(backend)
        config = served_config(backend, preset, set_ or [], runner.max_model_len)
        if record is not None:
            config = for_the_stage(config)
            told = f"{config.num_blocks:,} KV blocks, {config.max_model_len:,} tokens a sequence"
            print(f"recording for the stage, in sizes that it shows: {told}", file=sys.stderr)
        name = served_name or default_name(runner)
        gateway = build(settings, config, runner, name, record, record_ticks, check, faults if wrap else None, below)
        bound.listen(_BACKLOG)  # before the address is told: whoever reads it may call at once
        shown = f"[{address}]" if ":" in address else address
        print(f"serving {gateway.model} on http://{shown}:{actual_port}", file=sys.stderr, flush=True)
        if opened_to_all:
            print(OPEN_WARNING, file=sys.stderr)
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


def _serve_on_ray(settings: ServeSettings, address: str | None, /, **told: Any) -> None:
    from scheduler_core.serving.keys import ApiKeys

    if importlib.util.find_spec("ray") is None:
        raise ConfigError("several replicas need Ray; install it: pip install -r requirements-ray.txt")
    from scheduler_core.serving.cluster.environment import prepare

    prepare(address)
    from scheduler_core.serving.cluster.args import ClusterArgs
    from scheduler_core.serving.cluster.launch import serve_cluster

    sizes = settings.model_dump(mode="json", exclude={"api_keys", "host", "port", "operations"})
    args = ClusterArgs(gateway=sizes, key_digests=ApiKeys(settings.keys).digests, **told)
    serve_cluster(args, settings.host, settings.port, address)


dead_letters = typer.Typer(no_args_is_help=True, help="Requests whose every attempt failed: list, replay, purge.")
StateOption = Annotated[Path | None, typer.Option(help="The folder of the dead letters; as for `serve`.")]
LetterArgument = Annotated[list[str] | None, typer.Argument(metavar="[ID]...", help="All of them without one.")]


@dead_letters.command("list")
def list_letters(json_: terminal.JsonOption = None, state: StateOption = None) -> None:
    """Show each with its attempts and the reason of the last."""
    with _box(state) as box:
        letters = box.letters()
    table = Table("id", "written (UTC)", "endpoint", "prompt", "attempts", "why the last one failed", box=None)
    for letter in letters:
        written = datetime.fromtimestamp(letter.written, UTC).isoformat(" ", "seconds")[:19]
        numbers = str(letter.prompt_tokens), str(len(letter.attempts))
        table.add_row(letter.id, written, letter.endpoint, *numbers, Text(letter.reason))
    terminal.tell(
        {"dead_letters": [asdict(letter) for letter in letters]}, json_, [table], [f"{len(letters)} dead letters"]
    )


@dead_letters.command("replay")
def replay_letters(
    ids: LetterArgument = None,
    url: Annotated[str, typer.Option(help="Where the gateway is.")] = "http://127.0.0.1:8000",
    state: StateOption = None,
) -> int:
    """Send them to a running gateway again, with the key in TICKSCOPE_SERVE_API_KEY; those answered leave the box."""
    from scheduler_core.serving.replay_letters import replay

    failed = 0
    with _box(state) as box:
        letters = [box.letter(letter_id) for letter_id in ids] if ids else box.letters()
        for letter in letters:
            done = replay(box, letter, url, os.environ.get("TICKSCOPE_SERVE_API_KEY", ""))
            failed += done.problem is not None
            print(f"{letter.id}: {done.text if done.problem is None else 'failed: ' + done.problem}")
    return 1 if failed else 0


@dead_letters.command("purge")
def purge_letters(ids: LetterArgument = None, state: StateOption = None) -> None:
    """Throw them away."""
    with _box(state) as box:
        if not ids:
            print(f"{box.purge()} dead letters thrown away")
            return
        for letter in [box.letter(letter_id) for letter_id in ids]:
            box.remove(letter.id)
            print(f"{letter.id}: thrown away")


def _box(state: Path | None) -> AbstractContextManager[DeadLetters]:
    from scheduler_core.serving.dead_letters import DeadLetters

    return closing(DeadLetters(_settings({"state": state}).state))

"""The command line: run a scenario, record one with the real model, replay a recording, list what there is."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from scheduler_core.backends import model_store
from scheduler_core.backends.base import ModelRunner
from scheduler_core.backends.replay import ReplayRunner
from scheduler_core.backends.synthetic import SyntheticRunner
from scheduler_core.bench.cli import app as bench
from scheduler_core.bench.cli import calibrate
from scheduler_core.config import EngineConfig
from scheduler_core.conformance import compare_file
from scheduler_core.engine import Engine
from scheduler_core.errors import TickscopeError
from scheduler_core.events import LawBroken
from scheduler_core.faults import FAULT_FOLDER, FAULTS
from scheduler_core.narration import narrate
from scheduler_core.perfetto import to_perfetto
from scheduler_core.report import report
from scheduler_core.serving.cli import dead_letters, serve
from scheduler_core.sources.cli import workload
from scheduler_core.storage.block_store import BlockStore
from scheduler_core.storage.cli import DEFAULT_LIMIT_MIB, LimitOption, RedisOption, StoreOption, counted, opened
from scheduler_core.storage.cli import app as cache
from scheduler_core.terminal import JsonOption, remark_console, result_console, write_file
from scheduler_core.trace import Trace
from scheduler_core.workload import Scenario, list_scenarios, load_scenario

app = typer.Typer(add_completion=False, no_args_is_help=True, help=__doc__, rich_markup_mode=None)
app.add_typer(bench, name="bench")
app.add_typer(cache, name="cache")
app.add_typer(dead_letters, name="dead-letters")
app.command()(workload)
app.command()(calibrate)
app.command()(serve)


class BackendKind(Enum):
    SYNTHETIC = "synthetic"
    MODEL = "model"


@app.command()
def run(
    scenario: Annotated[str, typer.Argument(help="A name from `scenarios`, or the path of a .toml file.")],
    settings: Annotated[list[str] | None, typer.Argument(metavar="[FIELD=VALUE]...", help="More of --set.")] = None,
    backend: Annotated[BackendKind, typer.Option(help="Who computes the tokens.")] = BackendKind.SYNTHETIC,
    set_: Annotated[list[str] | None, typer.Option("--set", metavar="FIELD=VALUE", help="Change a setting.")] = None,
    preset: Annotated[str | None, typer.Option(help="Schedule as this preset does.")] = None,
    fault: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Build in a mistake; see `faults`.")] = None,
    json_: JsonOption = None,
    trace: Annotated[Path | None, typer.Option(help="Write the whole run, gzipped.")] = None,
    perfetto: Annotated[Path | None, typer.Option(help="Write the run for ui.perfetto.dev.")] = None,
    store: StoreOption = None,
    redis: RedisOption = None,
    store_mib: LimitOption = DEFAULT_LIMIT_MIB,
) -> None:
    """Run a scenario and show what became of its requests."""
    loaded = load_scenario(scenario)
    config = _configure(loaded.config, preset, [*(set_ or []), *(settings or [])])
    runner = _runner(backend)
    with opened(store, redis, store_mib) as below:
        result = _run(loaded, config, runner, fault or [], below)
        _tell_store(below)
    if trace is not None:
        write_file(trace, result.to_bytes())
    if perfetto is not None:
        write_file(perfetto, to_perfetto(result).encode())
    _show(result, runner, json_)


@app.command()
def record(
    scenario: Annotated[str, typer.Argument(help="A name from `scenarios`, or the path of a .toml file.")],
    file: Annotated[Path, typer.Argument(help="Where the recorded run goes (.json.gz).")],
) -> None:
    """Run a scenario on the real model and keep the run."""
    loaded = load_scenario(scenario)
    result = _run(loaded, loaded.config, _runner(BackendKind.MODEL))
    write_file(file, result.to_bytes())
    remark_console().print(f"{file}: {len(result.records)} ticks", markup=False, highlight=False)


@app.command()
def replay(
    file: Annotated[Path, typer.Argument(help="A recorded run.")],
    json_: JsonOption = None,
) -> None:
    """Check a recorded run, recount its figures and show them."""
    trace = Trace.load(file)
    _show(trace, ReplayRunner(trace), json_)


@app.command()
def scenarios() -> None:
    """List the shipped scenarios."""
    table = Table("scenario", "title", "requests", box=None, header_style="bold")
    for name in list_scenarios():
        loaded = load_scenario(name)
        table.add_row(name, loaded.title, str(len(loaded.requests)))
    result_console().print(table)


@app.command()
def conform(
    files: Annotated[list[Path], typer.Argument(help="Recorded decisions of vLLM's scheduler.")],
) -> int:
    """Compare our decisions under the vllm preset with recorded ones; status 1 if any differs."""
    same = 0
    for file in files:
        difference = compare_file(file)
        if difference is None:
            same += 1
            continue
        print(
            f"{file}: tick {difference.tick}: {difference.what}: recorded {difference.theirs}, ours {difference.ours}"
        )
        print(f"  ours, in words: {difference.reason}")
    print(f"{same}/{len(files)} identical")
    return 0 if same == len(files) else 1


@app.command()
def faults() -> None:
    """List the mistakes of the museum, each with the scenario that shows it."""
    table = Table("fault", "scenario", "what it does", box=None, header_style="bold")
    for name, fault in FAULTS.items():
        path = FAULT_FOLDER / f"{name}.toml"
        shown = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
        table.add_row(name, str(shown), fault.description)
    result_console().print(table)


def _configure(config: EngineConfig, preset: str | None, settings: list[str]) -> EngineConfig:
    if preset is not None:
        config = config.with_preset(preset)
    changes = dict(EngineConfig.parse_setting(text) for text in settings)
    return config.replace(**changes)


def _runner(kind: BackendKind) -> ModelRunner:
    if kind is BackendKind.SYNTHETIC:
        return SyntheticRunner()
    from scheduler_core.backends.transformers_runner import TransformersRunner

    with _progress() as progress:
        task = progress.add_task("loading the model", total=1.0)
        loaded = model_store.load(progress=lambda done, text: progress.update(task, completed=done, description=text))
    return TransformersRunner(loaded)


def _tell_store(store: BlockStore | None) -> None:
    """What the tiers below memory did in a run."""
    if store is None:
        return
    store.flush()
    for each in store.stats():
        remark_console().print(counted(each), markup=False, highlight=False)


def _run(
    scenario: Scenario,
    config: EngineConfig,
    runner: ModelRunner,
    faults: Sequence[str] = (),
    store: BlockStore | None = None,
) -> Trace:
    engine = Engine(config, runner, scenario=scenario.name, title=scenario.title, faults=faults, store=store)
    for spec in scenario.specs(runner):
        engine.add_request(spec)
    with _progress() as progress:
        task = progress.add_task("tick 0", total=len(scenario.requests))
        return engine.run(
            progress=lambda tick, finished, sent: progress.update(task, completed=finished, description=f"tick {tick}")
        )


def _show(trace: Trace, runner: ModelRunner, json_target: str | None) -> None:
    figures = report(trace, lambda token_ids: runner.decode(list(token_ids)))
    if json_target == "-":
        print(json.dumps(figures))
        return
    if json_target is not None:
        write_file(Path(json_target), (json.dumps(figures, indent=1) + "\n").encode())
    _print_table(figures)
    for record in trace.records:
        for event in record.events:
            if isinstance(event, LawBroken):
                result_console().print(Text(f"tick {record.tick}: {narrate(event, trace, record.tick).whole}"))


def _print_table(figures: dict[str, Any]) -> None:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for heading in ("request", "status"):
        table.add_column(heading)
    for heading in ("prompt / cached / output", "preempted", "TTFT s", "ITL s"):
        table.add_column(heading, justify="right", no_wrap=heading != "prompt / cached / output")
    table.add_column("text", ratio=1)
    for row in figures["requests"]:
        table.add_row(
            Text(row["id"]),
            row["finish_reason"] or row["status"],
            f"{row['num_prompt_tokens']} / {row['num_cached_tokens']} / {len(row['output_token_ids'])}",
            str(row["num_preemptions"]),
            _seconds(row["ttft_s"]),
            _seconds(row["mean_itl_s"]),
            Text(_one_line(row["message"] or row["text"])),
        )
    console = result_console()
    console.print(table)
    console.print(Text("  ".join(f"{name} {_figure(value)}" for name, value in figures["totals"].items()), style="dim"))


def _one_line(text: str) -> str:
    return "".join(character if character.isprintable() else " " for character in text)


def _seconds(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def _figure(value: float) -> str:
    return f"{value:.2f}" if isinstance(value, float) else str(value)


@contextmanager
def _progress() -> Iterator[Progress]:
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn())
    console = remark_console()
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        yield progress


def main() -> int:
    """Run the command; 2 with one line on stderr for a user's mistake."""
    try:
        status = app(standalone_mode=False)
    except TickscopeError as problem:
        return _fail(str(problem))
    except Exception as problem:
        # typer raises its own copies of click's exceptions, which share only this method.
        if hasattr(problem, "format_message"):
            return _fail(problem.format_message() or "see --help")
        raise
    return status if isinstance(status, int) else 0


def _fail(message: str) -> int:
    print(f"error: {' '.join(message.split())}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())

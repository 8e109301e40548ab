"""The `bench` commands: each measures contenders side by side and prints a table or JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from scheduler_core import terminal
from scheduler_core.bench.client.cli import client
from scheduler_core.bench.fleet.cli import fleet
from scheduler_core.bench.load.cli import load
from scheduler_core.bench.soak.cli import soak
from scheduler_core.errors import BenchError

app = typer.Typer(no_args_is_help=True, help="Measure speed, beside others where their environment is built.")
app.command()(load)
app.command()(fleet)
app.command()(soak)
app.command()(client)

PeersOption = Annotated[
    Path | None,
    typer.Option(
        envvar="TICKSCOPE_PEERS", help="The peers' environment, made by `make bench-peers`; normally .venv-peers."
    ),
]


@app.command()
def scheduler(
    json_: terminal.JsonOption = None,
    peers: PeersOption = None,
    ticks: Annotated[int, typer.Option(help="Ticks to measure in each case, 20 to 400.")] = 200,
) -> None:
    """Microseconds per tick of our scheduler, beside vLLM's own on the same requests."""
    from scheduler_core.bench.machine import MachineFacts
    from scheduler_core.bench.peers import REMEDY, peers_python, run_module
    from scheduler_core.bench.scheduler import report

    if not 20 <= ticks <= 400:
        raise BenchError(f"ticks is {ticks}; it must be from 20 to 400, so that all lanes stay full")
    python = peers_python(peers)
    remarks = terminal.remark_console()
    if python is None:
        remarks.print(f"vLLM's scheduler is not measured, as its environment is not there; {REMEDY}")
    machine = MachineFacts.here()
    with remarks.status("measuring"):
        times = run_module(python, "scheduler_core.bench.scheduler.race", [ticks, *(["vllm"] if python else [])])
    figures = report.summarise(times, machine, ticks)
    terminal.tell(figures, json_, [report.table(figures)], report.remarks(figures, machine))


@app.command()
def engine(
    json_: terminal.JsonOption = None,
    peers: PeersOption = None,
    rounds: Annotated[int, typer.Option(min=1, max=50, help="Turns of each contender on each workload.")] = 3,
    threads: Annotated[int, typer.Option(min=0, max=256, help="Threads of each contender; 0 = all cores.")] = 0,
    only: Annotated[list[str] | None, typer.Option(metavar="NAME", help="A workload: chats, mixed or shared.")] = None,
    tokens: Annotated[int | None, typer.Option(min=1, max=64, hidden=True)] = None,
) -> None:
    """Tokens a second of our engine with the real model, beside others that run it on this machine."""
    from scheduler_core.bench import peers as environment
    from scheduler_core.bench.engine import race, report
    from scheduler_core.bench.engine.workloads import choose
    from scheduler_core.bench.machine import MachineFacts

    chosen = choose(only, tokens)
    python = environment.peers_python(peers)
    remarks = terminal.remark_console()
    if python is None:
        remarks.print(f"vLLM and OpenVINO are not measured: their environment is not there; {environment.REMEDY}")
    machine = MachineFacts.here()
    with remarks.status("starting") as status:
        raw = race.race(chosen, rounds, threads or machine.cores, python, status.update)
    document = report.document(raw, machine)
    terminal.tell(document, json_, report.tables(document), (*report.remarks(document), machine.text))


@app.command()
def swap(
    json_: terminal.JsonOption = None,
    rounds: Annotated[int, typer.Option(min=1, max=50, help="Turns of each way at each length.")] = 5,
    longest: Annotated[int, typer.Option(min=32, max=4_096, hidden=True)] = 2_048,
) -> None:
    """What coming back from a preemption costs: KV copied out and in, or its tokens computed again."""
    from scheduler_core.bench.machine import MachineFacts
    from scheduler_core.bench.model_ticks import load_runner, versions
    from scheduler_core.bench.swap import report
    from scheduler_core.bench.swap.measure import lengths, measure

    machine = MachineFacts.here()
    with terminal.remark_console().status("loading the model") as status:
        runner = load_runner()
        results = measure(runner, lengths(longest), rounds, status.update)
    document = report.document(results, runner.backend, machine, versions())
    terminal.tell(document, json_, report.tables(document), report.remarks(document, machine))


@app.command()
def calibrate(
    json_: terminal.JsonOption = None,
    rounds: Annotated[int, typer.Option(min=1, max=50, help="Turns of each tick.")] = 5,
    unseen: Annotated[
        int,
        typer.Option(min=0, max=200, help="Requests of a workload that the fit has not seen, to test it; 0 = none."),
    ] = 12,
    seed: Annotated[int, typer.Option(help="Draws the unseen workload.")] = 0,
    fastest: Annotated[bool, typer.Option(help="Take the fastest of the rounds: for a busy machine.")] = False,
    largest: Annotated[int | None, typer.Option(min=100, hidden=True)] = None,
) -> None:
    """Fit the cost model's "smollm2-cpu" to ticks of the real model on this machine, and test it; changes nothing."""
    from scheduler_core.bench.calibration import report
    from scheduler_core.bench.calibration.rounds import measure_rounds
    from scheduler_core.bench.calibration.shapes import grid
    from scheduler_core.bench.machine import MachineFacts
    from scheduler_core.bench.model_ticks import load_runner, versions

    machine = MachineFacts.here()
    with terminal.remark_console().status("loading the model") as status:
        runner = load_runner()
        report.check_model(runner)
        measured, seen = measure_rounds(runner, grid(largest), rounds, unseen, seed, status.update)
    document = report.document(measured, machine, versions(), seen, fastest=fastest)
    terminal.tell(document, json_, report.tables(document), report.remarks(document, machine))


@app.command()
def cache(
    trace: Annotated[Path, typer.Argument(help="A workload file with hash ids, texts or conversations.")],
    num_blocks: Annotated[
        list[str], typer.Option(metavar="N", help="Blocks of KV: 1638,3276 or unbounded; repeatable.")
    ],
    policy: Annotated[str, typer.Option(help="Which block goes first: lru, the least recently used.")] = "lru",
    block_size: Annotated[int | None, typer.Option(help="Tokens of a block; normally the trace's own.")] = None,
    half: Annotated[str, typer.Option(metavar="last|all", help="The requests that count.")] = "last",
    first: Annotated[int | None, typer.Option(min=1, help="Take only so many requests.")] = None,
    json_: terminal.JsonOption = None,
) -> None:
    """Prefix cache hit rate of a recorded workload, by size of KV memory."""
    from scheduler_core.bench.cache import report
    from scheduler_core.bench.cache.prompts import prompts_of
    from scheduler_core.bench.cache.replay import replay
    from scheduler_core.sources.source import read_source

    report.check_choice("policy", policy, report.POLICIES)
    report.check_choice("half", half, report.HALVES)
    sizes = report.parse_sizes(num_blocks)
    with terminal.remark_console().status("reading") as status:
        source = read_source(trace)
        prompts, size = prompts_of(source, block_size)
        prompts = prompts[:first]
        results = replay(
            prompts,
            sizes,
            len(prompts) // 2 if half == "last" else 0,
            lambda served: status.update(f"request {served:,} of {len(prompts):,}"),
        )
    figures = report.document(results, source.report, len(prompts), size, policy, half)
    terminal.tell(figures, json_, [report.table(figures)], report.remarks(figures, source.report))

"""The command `bench client`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from scheduler_core import terminal
from scheduler_core.errors import BenchError


def client(
    requests: Annotated[int, typer.Option(help="Streams of each client in each round.")] = 30,
    rate: Annotated[float, typer.Option(help="Streams a second: a Poisson process.")] = 0.8,
    output_tokens: Annotated[int, typer.Option(help="Tokens of each answer.")] = 48,
    rounds: Annotated[int, typer.Option(help="Turns of each client.")] = 2,
    seed: Annotated[int, typer.Option(help="Draws prompts and arrivals.")] = 0,
    peers: Annotated[
        Path | None,
        typer.Option(
            envvar="TICKSCOPE_PEERS", help="The peers' environment, made by `make bench-peers`; normally .venv-peers."
        ),
    ] = None,
    json_: terminal.JsonOption = None,
    backend: Annotated[str, typer.Option(hidden=True)] = "model",
) -> int:
    """vLLM's own client and ours against a real gateway: their mean TTFT and ITL and those of /metrics.

    Starts `serve` on loopback. Both clients send the same prompts at the same times, in turn. Status 1 if means of the
    same requests differ by more than 5 %, or if the numbers of requests or tokens differ.
    """
    from scheduler_core.bench.client import report
    from scheduler_core.bench.client.outside import version
    from scheduler_core.bench.client.plan import ClientPlan
    from scheduler_core.bench.client.race import race
    from scheduler_core.bench.machine import MachineFacts
    from scheduler_core.bench.peers import REMEDY, peers_python

    plan = ClientPlan(requests, rate, output_tokens, rounds, seed, backend)
    python = peers_python(peers)
    if python is None:
        raise BenchError(f"vLLM's client is not there; {REMEDY}")
    machine = MachineFacts.here()
    remarks = terminal.remark_console()
    with remarks.status("starting") as status:
        raced = race(plan, python, status.update)
    figures = report.document(plan, raced, machine, {"vllm": version(python)})
    terminal.tell(figures, json_, report.tables(figures), report.remarks(figures, machine))
    for line in report.failures(figures):
        remarks.print(line, style="bold red", markup=False, highlight=False)
    return 0 if figures["agrees"] else 1

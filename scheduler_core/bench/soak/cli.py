"""The command `bench soak`."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import typer

from scheduler_core import terminal


class SoakedBackend(Enum):
    MODEL = "model"
    SYNTHETIC = "synthetic"


def soak(
    minutes: Annotated[float, typer.Option(help="How long the load goes on.")] = 10.0,
    load: Annotated[float, typer.Option(help="Its rate, as a share of the measured capacity.")] = 0.8,
    backend: Annotated[SoakedBackend, typer.Option(help="Who computes the tokens.")] = SoakedBackend.MODEL,
    seed: Annotated[int, typer.Option(help="Draws requests, arrivals and what clients do.")] = 0,
    json_: terminal.JsonOption = None,
) -> int:
    """Soak a gateway: load near its capacity, clients that leave, faults; nothing may be lost, leaked or wrong.

    Starts `serve --check` on loopback with a store, a bounded queue, little KV memory and a plan of faults. Its
    capacity is measured first, under clients in a closed loop. Then comes a Poisson process, open loop, over HTTP.
    Status 1 if any check fails.
    """
    from scheduler_core.bench.machine import MachineFacts
    from scheduler_core.bench.soak import report
    from scheduler_core.bench.soak.checks import checks
    from scheduler_core.bench.soak.plan import SoakPlan
    from scheduler_core.bench.soak.soak import soak as run

    plan = SoakPlan(minutes, load, backend.value, seed)
    machine = MachineFacts.here()
    remarks = terminal.remark_console()
    with remarks.status("starting") as status:
        soaked = run(plan, status.update)
    found = checks(soaked)
    figures = report.document(soaked, found, machine)
    terminal.tell(figures, json_, [report.table(found)], report.remarks(figures, machine))
    for line in report.failures(found):
        remarks.print(line, style="bold red", markup=False, highlight=False)
    return 0 if figures["passed"] else 1

"""Runs a workload once for each rate."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from scheduler_core.bench.load.plan import Workload
from scheduler_core.bench.load.report import run_figures
from scheduler_core.big_run.big_run import BigRun
from scheduler_core.big_run.checkpoints import Checkpoints
from scheduler_core.config import EngineConfig
from scheduler_core.summary import Targets

Tell = Callable[[str], None]


def sweep(
    workload: Workload,
    config: EngineConfig,
    targets: Targets,
    rates: Sequence[float | None],
    *,
    details: bool = False,
    tell: Tell | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> list[dict[str, Any]]:
    """The figures of each rate in turn (None = the workload's own); stopped, those of the runs that began."""
    steps = sweep_steps(workload, config, targets, rates, details=details, tell=tell, should_stop=should_stop)
    return [figures for figures in steps if figures is not None]


def sweep_steps(
    workload: Workload,
    config: EngineConfig,
    targets: Targets,
    rates: Sequence[float | None],
    *,
    details: bool = False,
    tell: Tell | None = None,
    should_stop: Callable[[], bool] | None = None,
    stride: int = 256,
) -> Iterator[dict[str, Any] | None]:
    """The same in steps: None after every `stride` ticks, the figures at the end of each rate."""
    for number, rate in enumerate(rates):
        if number and should_stop and should_stop():
            return
        # Nobody looks at a window here, so nothing is kept to open one from.
        run = BigRun(config, workload.at(rate), checkpoints=Checkpoints(most=0))
        yield from run.steps(stride, _progress(rate, tell), should_stop)
        yield run_figures(run.result(), targets, rate, details=details)


def _progress(rate: float | None, tell: Tell | None) -> Callable[[int, int, int], None]:
    def progress(ended: int, requests: int, ticks: int) -> None:
        if tell:
            which = "" if rate is None else f"rate {rate:g}: "
            tell(f"{which}{ended:,} of {requests:,} requests, {ticks:,} ticks")

    return progress

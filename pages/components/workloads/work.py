"""What the jobs of the workloads page do: run a load on servers, sweep rates, replay a cache, open a window.

The same code as on the command line; here it goes in steps. Knows no Streamlit.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from pages.components.settings import Limits
from pages.components.workloads.job import Job
from scheduler_core.bench.cache.prompts import Prompts
from scheduler_core.bench.cache.replay import Replay
from scheduler_core.bench.load.plan import Workload
from scheduler_core.bench.load.report import run_figures
from scheduler_core.bench.load.sweep import sweep_steps
from scheduler_core.big_run.big_run import BigResult, BigRun
from scheduler_core.big_run.checkpoints import Checkpoints
from scheduler_core.config import EngineConfig
from scheduler_core.errors import WorkloadError
from scheduler_core.load.request import Load
from scheduler_core.summary import Targets
from scheduler_core.trace import Trace

#: Ticks between two looks at whether to go on.
STRIDE = 32
#: States that are kept to open windows from, for each server.
_CHECKPOINTS, _CHECKPOINT_BYTES = 12, 24 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Server:
    """A configuration with its name."""

    name: str
    config: EngineConfig


@dataclass(slots=True)
class Outcome:
    """What came of a load on one server, whole or as far as it got."""

    server: Server
    run: BigRun
    result: BigResult
    _figures: dict[Targets, dict[str, Any]] = field(default_factory=dict)

    def figures(self, targets: Targets) -> dict[str, Any]:
        """As `bench load` has them."""
        if targets not in self._figures:
            self._figures[targets] = run_figures(self.result, targets, None, details=False)
        return self._figures[targets]


Make = Callable[[], Workload]


def run_on_servers(make: Make, servers: Sequence[Server], limits: Limits) -> Callable[[Job], Iterator[None]]:
    """The same load on each server in turn; the results are `Outcome`s."""

    def steps(job: Job) -> Iterator[None]:
        job.told = "Making the requests"
        yield
        load = _bounded(make().at(None), limits)
        for number, server in enumerate(servers):
            checkpoints = Checkpoints(_CHECKPOINTS, _CHECKPOINT_BYTES)
            run = BigRun(server.config, load, title=server.name, checkpoints=checkpoints)
            bounds = _Bounds(job, run, limits)
            name = f"{server.name}: " if len(servers) > 1 else ""
            for _ in run.steps(STRIDE, should_stop=bounds.reached):
                _tell(job, run, name, number, len(servers), len(load))
                yield
            if len(run.series) or not job.should_stop():
                job.results.append(Outcome(server, run, run.result()))
            if bounds.told:
                job.notes.append(f"{server.name}: {bounds.told}")
            if job.should_stop():
                return
        job.share = 1.0

    return steps


class _Bounds:
    """Whether a run has to end before it is over, and why."""

    def __init__(self, job: Job, run: BigRun, limits: Limits) -> None:
        self.told = ""
        self._job, self._run, self._limits = job, run, limits
        self._end = time.monotonic() + limits.max_load_seconds

    def reached(self) -> bool:
        limits = self._limits
        if len(self._run.series) >= limits.max_load_ticks:
            self.told = f"stopped at {limits.max_load_ticks:,} ticks, the limit of this site; take fewer requests"
        elif time.monotonic() > self._end:
            self.told = f"stopped after {limits.max_load_seconds:,} s, the limit of this site; take fewer requests"
        return bool(self.told) or self._job.should_stop()


def _tell(job: Job, run: BigRun, name: str, number: int, servers: int, requests: int) -> None:
    seconds = run.series.end_s[-1] if len(run.series) else 0.0
    job.share = (number + run.num_ended / max(1, requests)) / servers
    job.told = (
        f"{name}{run.num_ended:,} of {requests:,} requests done, {seconds:,.1f} s of virtual time, "
        f"{len(run.series):,} ticks"
    )


def _bounded(load: Load, limits: Limits) -> Load:
    if len(load) > limits.max_load_requests:
        raise WorkloadError(
            f"the load has {len(load):,} requests; this site runs at most {limits.max_load_requests:,}: "
            "take the first ones or a sample"
        )
    return load


def sweep_rates(
    make: Make, servers: Sequence[Server], targets: Targets, rates: Sequence[float], limits: Limits
) -> Callable[[Job], Iterator[None]]:
    """Every rate on every server; the results are (server, figures)."""

    def steps(job: Job) -> Iterator[None]:
        job.told = "Making the requests"
        yield
        workload = make()
        _bounded(workload.at(None), limits)
        end = time.monotonic() + limits.max_load_seconds

        def should_stop() -> bool:
            return job.should_stop() or time.monotonic() > end

        total = len(servers) * len(rates)
        for server in servers:

            def tell(text: str, name: str = server.name) -> None:
                job.told = f"{name}, {text}" if len(servers) > 1 else text[:1].upper() + text[1:]

            found = sweep_steps(
                workload, server.config, targets, rates, tell=tell, should_stop=should_stop, stride=STRIDE
            )
            for figures in found:
                if figures is not None and figures["is_complete"]:
                    job.results.append((server, figures))
                    job.share = len(job.results) / total
                yield
            if should_stop():
                break
        if not job.should_stop() and len(job.results) < total:
            job.notes.append(
                f"Stopped after {limits.max_load_seconds:,} s, the limit of this site; rates that were not done are "
                "left out. Take fewer requests or rates."
            )

    return steps


def replay_cache(make: Callable[[], Prompts], sizes: Sequence[int | None]) -> Callable[[Job], Iterator[None]]:
    """The hit rate of each size, over the last half of the requests; the result is a `Replay`."""

    def steps(job: Job) -> Iterator[None]:
        job.told = "Making the prompts"
        yield
        prompts = make()
        replay = Replay(prompts, sizes, len(prompts) // 2)
        yield
        while replay.advance(8):
            job.share = replay.served / len(replay)
            job.told = f"{replay.served:,} of {len(replay):,} requests"
            if job.should_stop():
                job.notes.append(f"Cancelled after {replay.served:,} of {len(replay):,} requests.")
                break
            yield
        job.results.append(replay)

    return steps


def open_window(run: BigRun, first: int, last: int) -> Callable[[Job], Iterator[None]]:
    """Some ticks of a run in full; the result is a `Trace`."""

    def steps(job: Job) -> Iterator[None]:
        job.told = f"Computing ticks {first:,} to {last:,} again, in full"
        yield
        work = run.window_steps(first, last)
        while not job.should_stop():
            try:
                next(work)
            except StopIteration as over:
                trace: Trace = over.value
                job.results.append(trace)
                return
            yield

    return steps

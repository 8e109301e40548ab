"""Runs a soak: a gateway of its own, its capacity, the load, the wait until it is idle, and what is found then."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from scheduler_core import codec
from scheduler_core.backends.base import ModelRunner
from scheduler_core.bench.served.client import Client, connected
from scheduler_core.bench.served.exposition import Metrics
from scheduler_core.bench.served.process import ServedProcess, served
from scheduler_core.bench.soak.capacity import Capacity, measure
from scheduler_core.bench.soak.clients import Ledger, SoakClients
from scheduler_core.bench.soak.memory import MemoryVerdict, judge
from scheduler_core.bench.soak.plan import SoakPlan, SoakRequest
from scheduler_core.bench.soak.texts import TextsVerdict, compare
from scheduler_core.bench.soak.watch import Watched, watch
from scheduler_core.load.sender import Sent, send_open_loop
from scheduler_core.serving.fault_plan import PlannedFault

Progress = Callable[[str], None]
_IDLE_S = 60.0


@dataclass(frozen=True, slots=True)
class Idle:
    """The server once everything has ended: requests that it still holds, and the share of blocks in use."""

    in_flight: int
    running: int
    waiting: int
    blocks_in_use: float

    @property
    def is_clean(self) -> bool:
        return not (self.in_flight or self.running or self.waiting or self.blocks_in_use)


@dataclass(frozen=True, slots=True)
class Run:
    """What is known when the server is told to end: `happened` are the faults, `sampled` the requests with `texts`."""

    capacity: Capacity
    rate: float
    ledger: Ledger
    sent: Sequence[Sent]
    watched: Watched
    idle: Idle
    metrics: Metrics
    happened: dict[str, int]
    sampled: Sequence[SoakRequest]
    texts: dict[str, str]


@dataclass(frozen=True, slots=True)
class Soaked:
    """Everything that a soak has found, before it is judged; `status` is that with which the server ended."""

    plan: SoakPlan
    run: Run
    memory: MemoryVerdict
    texts: TextsVerdict
    log: str
    status: int


def soak(plan: SoakPlan, progress: Progress) -> Soaked:
    """Raises `BenchError` where it cannot be made; what it finds is no error here."""
    with tempfile.TemporaryDirectory(prefix="tickscope-soak-") as name:
        folder = Path(name)
        options = (*plan.options, "--store", str(folder / "store"), "--fault-plan", str(_fault_plan(plan, folder)))
        progress("starting the gateway")
        with served(folder, *options, env=plan.environment) as server:
            run = asyncio.run(_run(plan, server, progress))
            status = server.end()
            log = server.said()
    progress("loading the model to compare texts with")
    texts = compare(run.sampled, run.texts, _runner(plan), progress)
    return Soaked(plan, run, judge(run.watched.memory), texts, log, status)


async def _run(plan: SoakPlan, server: ServedProcess, progress: Progress) -> Run:
    async with connected(server.url) as http:
        client = Client(http, server.model)
        clients = SoakClients(client)
        progress(f"measuring its capacity for {plan.measuring_s:g} s")
        capacity = await measure(plan.warm_up(), plan.closed_loop_clients, plan.measuring_s, clients)
        rate = plan.load * capacity.requests_per_s
        requests = plan.requests(rate)
        sampled = _sample(requests, plan.sampled)
        clients.kept = {each.id for each in sampled}
        watched = Watched()
        progress(f"{len(requests):,} requests at {rate:.1f} a second for {plan.minutes:g} minutes")
        sent = await _load(plan, server, requests, clients, watched)
        idle, metrics = await _until_idle(server)
        happened = await asyncio.to_thread(server.happened)
        return Run(capacity, rate, clients.ledger, sent, watched, idle, metrics, happened, sampled, client.texts)


async def _load(
    plan: SoakPlan, server: ServedProcess, requests: Sequence[SoakRequest], clients: SoakClients, watched: Watched
) -> list[Sent]:
    """Send everything while the server is watched; if it stops answering the load is stopped as well."""
    stop = asyncio.Event()
    watching = asyncio.create_task(watch(server, watched, min(1.0, plan.minutes * 60 / 30)))
    watching.add_done_callback(lambda _: stop.set())
    try:
        return await send_open_loop(requests, clients.send, stop=stop)
    finally:
        watching.cancel()
        (ended,) = await asyncio.gather(watching, return_exceptions=True)
        if isinstance(ended, Exception):
            raise ended


async def _until_idle(server: ServedProcess) -> tuple[Idle, Metrics]:
    """What there is once nothing is left, or after a minute."""
    give_up = asyncio.get_running_loop().time() + _IDLE_S
    while True:
        metrics = await asyncio.to_thread(server.metrics)
        idle = Idle(
            await asyncio.to_thread(server.in_flight),
            int(metrics["scheduler_running_requests"]),
            int(metrics["scheduler_queue_length"]),
            metrics["kv_cache_usage_ratio"],
        )
        if idle.is_clean or asyncio.get_running_loop().time() > give_up:
            return idle, metrics
        await asyncio.sleep(0.1)


def _sample(requests: Sequence[SoakRequest], count: int) -> list[SoakRequest]:
    """Evenly over the run, of those that nobody leaves."""
    read = [each for each in requests if each.leave_after is None]
    step = max(1, len(read) // count)
    return read[step // 2 :: step][:count]


def _fault_plan(plan: SoakPlan, folder: Path) -> Path:
    file = folder / "faults.toml"
    file.write_text("".join(map(_table, plan.faults)), encoding="utf-8")
    return file


def _table(fault: PlannedFault) -> str:
    # Words and numbers look the same in TOML as in JSON.
    lines = (f"{name} = {json.dumps(value)}\n" for name, value in codec.to_plain(fault).items())
    return "[[faults]]\n" + "".join(lines) + "\n"


def _runner(plan: SoakPlan) -> ModelRunner:
    if plan.backend == "synthetic":
        from scheduler_core.backends.synthetic import SyntheticRunner

        return SyntheticRunner()
    from scheduler_core.bench.model_ticks import load_runner

    return load_runner()

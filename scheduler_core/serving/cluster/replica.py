"""An engine of the cluster: it computes attempts, each once, and says what becomes of them. Knows no Ray."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from scheduler_core.serving.ask import Ask, ServingLimits
from scheduler_core.serving.async_engine import AsyncEngine
from scheduler_core.serving.cluster.args import ClusterArgs
from scheduler_core.serving.cluster.messages import Part, ReplicaStatus, Work
from scheduler_core.serving.errors import GaveUp, NeverFits, QueueFull, ServingError
from scheduler_core.serving.fault_plan import FaultPlan, FaultyRunner, kill_process, planned_faults
from scheduler_core.serving.metrics import GatewayMetrics
from scheduler_core.serving.served_backend import ServedBackend, default_name, make_runner, served_config
from scheduler_core.serving.settings import ServeSettings
from scheduler_core.serving.splitting_runner import SplittingRunner
from scheduler_core.serving.stream import Stream
from scheduler_core.storage.open_store import open_store

_MIB = 1 << 20
#: A replica takes so many requests for each that it can compute at once.
FULL = 2
#: Gateways that live are heard of twice a second.
SILENCE_S = 15.0


class EngineReplica:
    """One engine with its own KV memory; the gateway retries, keeps dead letters and talks to clients.

    What a gateway wanted that has been silent for `silence_s` is aborted: it died, and nobody else will recall it.
    While the replica is full, Serve keeps waiting what gateways say, too, so that silence means nothing then.
    """

    def __init__(self, args: ClusterArgs, rank: int, silence_s: float = SILENCE_S) -> None:
        backend = ServedBackend(args.backend)
        runner = make_runner(backend)
        config = served_config(backend, args.preset, args.settings, runner.max_model_len)
        settings = ServeSettings(**args.gateway)
        self._most = FULL * config.max_num_seqs
        # What Serve lets in is not refused here: it knows of others that may have room.
        waiting = max(settings.max_waiting, self._most - config.max_num_seqs)
        plan = FaultPlan(planned_faults(args.faults)) if args.faults else None
        if plan is not None:
            runner = FaultyRunner(runner, plan, kill_process)
        places = _places(args, rank)
        wrap = plan.around if plan is not None else None
        self._store = open_store(*places, limit_bytes=args.store_mib * _MIB, wrap=wrap) if places else None
        self._metrics = GatewayMetrics(args.served_name or default_name(runner), str(rank))
        self._engine = AsyncEngine(
            config,
            SplittingRunner(runner),
            ServingLimits(waiting, settings.request_timeout_s, settings.stall_s, attempts=1),
            observer=self._metrics,
            check=args.check,
            store=self._store,
        )
        self._silence_s = silence_s
        self._owners: dict[Stream, str] = {}
        self._heard: dict[str, float] = {}
        #: When it was full last.
        self._full_at = float("-inf")
        self._watch: asyncio.Task[None] | None = None

    async def start(self) -> None:
        await self._engine.start()
        self._watch = asyncio.create_task(self._watch_gateways(), name="gateway watch")

    async def close(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
        await self._engine.close()
        if self._store is not None:
            await asyncio.to_thread(self._store.close)

    async def generate(self, work: Work) -> AsyncGenerator[Part]:
        """Tokens as they come; whoever leaves early aborts the attempt."""
        ask = Ask(
            work.prompt_token_ids,
            work.sampling,
            priority=work.priority,
            salt=work.salt,
            timeout_s=work.timeout_s,
            attempt=work.attempt,
        )
        self._heard.setdefault(work.gateway, time.monotonic())
        try:
            async with self._engine.submit(ask) as stream, self._owned(stream, work.gateway):
                async for token_id in stream:
                    token_ids = (token_id, *stream.take_ready())
                    reason = stream.reason.name if stream.is_at_end and stream.reason else None
                    if len(token_ids) == stream.num_read and stream.admitted is not None:
                        waited = max(0.0, stream.admitted - stream.arrived)
                        yield Part(token_ids, waited, stream.num_cached_tokens, reason)
                    else:
                        yield Part(token_ids, reason=reason)
        except ServingError as problem:
            yield _failed(problem)

    @asynccontextmanager
    async def _owned(self, stream: Stream, gateway: str) -> AsyncIterator[None]:
        self._owners[stream] = gateway
        try:
            yield
        finally:
            self._note_if_full()
            del self._owners[stream]

    def _note_if_full(self) -> None:
        if len(self._owners) >= self._most:
            self._full_at = time.monotonic()

    async def _watch_gateways(self) -> None:
        while True:
            await asyncio.sleep(self._silence_s / 4)
            self._note_if_full()
            limit = time.monotonic() - self._silence_s
            silent = {gateway for gateway, heard in self._heard.items() if max(heard, self._full_at) < limit}
            for stream in [stream for stream, gateway in self._owners.items() if gateway in silent]:
                stream.abort()
            for gateway in silent:
                del self._heard[gateway]

    def status(self, rank: int, gateway: str) -> ReplicaStatus:
        """What the gateway of that name wants to know; it lives."""
        self._heard[gateway] = time.monotonic()
        engine = self._engine
        return ReplicaStatus(
            rank,
            os.getpid(),
            engine.num_in_flight,
            engine.num_running,
            engine.num_waiting,
            engine.free_blocks,
            engine.is_stalled or engine.is_broken,
        )

    async def exposition(self) -> bytes:
        """What Prometheus reads of an engine; the gateway has what is told of requests."""
        tiers = await asyncio.to_thread(self._engine.store_stats)
        return self._metrics.render_engine(self._engine, tiers)

    def check_health(self) -> None:
        """Raises where only a new process can help."""
        if self._engine.is_broken:
            raise RuntimeError("the engine failed and cannot be started anew")
        if self._engine.is_stalled:
            raise RuntimeError(f"a call of the model takes longer than {self._engine.limits.stall_s:g} s")


def _places(args: ClusterArgs, rank: int) -> list[str | Path]:
    """The folder goes by the rank, so that a replica's successor finds it."""
    places: list[str | Path] = []
    if args.store is not None:
        places.append(args.store / f"replica-{rank}")
    if args.redis is not None:
        places.append(args.redis)
    return places


def _failed(problem: ServingError) -> Part:
    if isinstance(problem, NeverFits):
        return Part(kind="never_fits", problem=str(problem))
    if isinstance(problem, QueueFull):
        return Part(kind="queue_full", problem=str(problem), retry_after_s=problem.retry_after_s or 1)
    return Part(kind="failed", problem=problem.reason if isinstance(problem, GaveUp) else str(problem))

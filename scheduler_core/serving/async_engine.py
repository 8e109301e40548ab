"""The asyncio front of an engine in this process: it steps in a worker, so that clients are served meanwhile.

Knows no HTTP and no text. Everything here runs on the event loop, except the worker's thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scheduler_core.backends.base import ModelRunner
from scheduler_core.config import EngineConfig
from scheduler_core.events import (
    LowerTierQueried,
    PrefixCacheQueried,
    RequestAdmitted,
    RequestFinished,
    RequestPreempted,
    TokenSampled,
)
from scheduler_core.request import FinishReason, RequestSpec, SamplingParams
from scheduler_core.scheduler import OUT_OF_KV
from scheduler_core.serving.ask import ServingLimits
from scheduler_core.serving.attempt import Attempt
from scheduler_core.serving.counters import MEMORY, Observer
from scheduler_core.serving.errors import NeverFits
from scheduler_core.serving.front import DeadLetterBox, Front
from scheduler_core.serving.served_engine import ServedEngine
from scheduler_core.serving.worker import EngineWorker, Tick
from scheduler_core.storage.block_store import BlockStore, TierStats
from scheduler_core.trace import Counts, Trace

if TYPE_CHECKING:
    from scheduler_core.serving.metrics import GatewayMetrics

_log = logging.getLogger(__name__)


class AsyncEngine(Front):
    """Computes what it takes in itself."""

    def __init__(
        self,
        config: EngineConfig,
        runner: ModelRunner,
        limits: ServingLimits | None = None,
        *,
        letters: DeadLetterBox | None = None,
        observer: Observer | None = None,
        record_ticks: int = 0,
        record_file: Path | None = None,
        check: bool = False,
        store: BlockStore | None = None,
    ) -> None:
        super().__init__(config, limits, letters, observer)
        self.free_blocks = config.num_blocks
        self._store = store
        self._record_file = record_file
        self._counts: Counts | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._watch: asyncio.Task[None] | None = None
        self._worker = EngineWorker(
            lambda first: ServedEngine(
                config, runner, record_ticks=record_ticks if first else 0, check=check, store=store
            ),
            lambda tick: self._tell(lambda: self._read(tick)),
            lambda problem: self._tell(lambda: self._engine_crashed(problem)),
            self._save_recording,
        )

    # Life

    async def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._worker.start()
        self._watch = asyncio.create_task(self._watch_for_stalls(), name="stall watch")

    async def close(self) -> None:
        """End everything, the thread as well."""
        await self.drain(0)
        if self._watch is not None:
            self._watch.cancel()
        stopped = await asyncio.to_thread(self._worker.stop, 30.0)
        if not stopped:
            _log.error("the tick in progress did not end within 30 s; the engine's thread is left behind")

    @property
    def is_stalled(self) -> bool:
        """Whether a call of the model takes longer than it may."""
        call = self._worker.engine.call
        return call is not None and time.monotonic() - call.began >= self.limits.stall_s

    @property
    def is_broken(self) -> bool:
        """Whether nothing can be computed any more, until the process is started anew."""
        return self._worker.is_dead

    @property
    def num_lanes(self) -> int:
        return self.config.max_num_seqs

    @property
    def has_work(self) -> bool:
        """Whether the engine still has to compute, if only to clear away what was aborted."""
        return self._worker.has_work

    @property
    def num_kept(self) -> int:
        """Requests that anything is remembered of."""
        return len(self._streams) + len(self._attempts) + self._worker.engine.num_kept

    @property
    def num_running(self) -> int:
        """Requests on a lane after the last tick."""
        return self._counts.running if self._counts else 0

    @property
    def num_waiting(self) -> int:
        """Requests that are neither answered nor on a lane."""
        return max(0, len(self._streams) - self.num_running)

    def store_stats(self) -> tuple[TierStats, ...]:
        """Of the tiers below memory, the nearest first; may take as long as they take to answer."""
        return () if self._store is None else self._store.stats()

    async def health(self) -> tuple[str, dict[str, Any]]:
        states = ("draining", self.draining), ("broken", self.is_broken), ("stalled", self.is_stalled)
        return next((name for name, is_so in states if is_so), "ok"), {"in_flight": self.num_in_flight}

    async def exposition(self, metrics: GatewayMetrics) -> bytes:
        tiers = await asyncio.to_thread(self.store_stats)
        letters = await asyncio.to_thread(self.num_letters)
        return metrics.render(self, tiers, letters)

    # Attempts

    def _refusal(self, spec: RequestSpec) -> str | None:
        return self._worker.engine.refusal(spec)

    def _send(self, attempt: Attempt, sampling: SamplingParams) -> None:
        stream = attempt.stream
        self._worker.add(
            attempt.id, lambda now: dataclasses.replace(self._spec(stream, attempt.id, now), sampling=sampling)
        )

    def _recall(self, attempt: Attempt) -> None:
        self._worker.abort(attempt.id)

    # What the engine tells

    def _tell(self, what: Callable[[], None]) -> None:
        """From the worker's thread to the loop; nothing is told to a loop that has ended."""
        assert self._loop is not None
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(what)

    def _read(self, tick: Tick) -> None:
        # Tokens come when they are handed to the clients: what the loop kept them waiting is part of their latency.
        now = time.monotonic()
        self.free_blocks = tick.free_blocks
        self._counts = tick.record.counts
        for event in tick.record.events:
            if isinstance(event, TokenSampled):
                self._token(event.request_id, event.token_id, now)
            elif isinstance(event, RequestFinished):
                self._finished(event)
            elif isinstance(event, RequestAdmitted):
                self._admitted(event.request_id, tick.ended - tick.seconds)
            elif isinstance(event, PrefixCacheQueried):
                self._queried(event)
            elif isinstance(event, LowerTierQueried):
                self._lower_tier(event)
            elif isinstance(event, RequestPreempted):
                self.counters.preemptions += 1
        self._observer.ticked(tick)

    def _finished(self, event: RequestFinished) -> None:
        if event.reason not in (FinishReason.REJECTED, FinishReason.ERROR):
            self._done(event.request_id, event.reason)
        elif (attempt := self._attempts.pop(event.request_id, None)) is not None:
            never = event.reason is FinishReason.REJECTED or event.message == OUT_OF_KV
            attempt.fail(NeverFits(event.message) if never else event.message)

    def _queried(self, event: PrefixCacheQueried) -> None:
        if event.self_hit:
            return
        self.counters.count_lookup(MEMORY, event.query_tokens, event.hit_tokens)
        attempt = self._attempts.get(event.request_id)
        if attempt is not None and attempt.number == 1:
            attempt.stream.num_cached_tokens = event.hit_tokens

    def _lower_tier(self, event: LowerTierQueried) -> None:
        if event.self_hit:
            return
        self.counters.count_lookup(event.tier, event.query_tokens, event.hit_tokens)
        attempt = self._attempts.get(event.request_id)
        if attempt is not None and attempt.number == 1:
            attempt.stream.num_cached_tokens += event.hit_tokens

    # When things go wrong

    def _engine_crashed(self, problem: BaseException) -> None:
        _log.error("the engine failed and was started anew", exc_info=problem)
        self.counters.engine_restarts += 1
        # The new one is empty, and may make no tick that says so.
        self.free_blocks, self._counts = self.config.num_blocks, None
        for attempt in self._attempts.values():
            attempt.fail(f"the engine failed: {type(problem).__name__}: {problem}")

    async def _watch_for_stalls(self) -> None:
        """Give up on attempts in a call of the model that takes too long; what it still brings is late."""
        limit = self.limits.stall_s
        while True:
            await asyncio.sleep(min(1.0, limit / 4))
            if self.is_stalled and (call := self._worker.engine.call) is not None:
                for request_id in call.request_ids & self._attempts.keys():
                    self._attempts[request_id].fail(f"the model gave no answer within {limit:g} s")
            if self.is_broken:
                for attempt in self._attempts.values():
                    attempt.fail("the engine failed and cannot be started anew; start the server again")

    def _save_recording(self, trace: Trace) -> None:
        """Called from the worker's thread."""
        if self._record_file is None:
            return
        try:
            trace.save(self._record_file)
        except OSError as problem:
            _log.error("the recording could not be written to %s: %s", self._record_file, problem)
        else:
            _log.warning("recorded %d ticks in %s", len(trace.records), self._record_file)

"""The asyncio front of the engine: submit, stream, abort, deadlines, a bounded queue, retries, drain.

Knows no HTTP and no text. Everything here runs on the event loop, except the worker's thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import math
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import stamina

from scheduler_core.backends.base import ModelRunner, request_seed
from scheduler_core.config import EngineConfig
from scheduler_core.events import (
    LowerTierQueried,
    PrefixCacheQueried,
    RequestAdmitted,
    RequestFinished,
    RequestPreempted,
    TokenSampled,
)
from scheduler_core.request import FinishReason, RequestSpec
from scheduler_core.scheduler import OUT_OF_KV
from scheduler_core.serving.ask import Ask, ServingLimits
from scheduler_core.serving.attempt import Attempt, FailedAttempt
from scheduler_core.serving.counters import MEMORY, Counters, Observer
from scheduler_core.serving.errors import (
    Aborted,
    AttemptFailed,
    DeadlineExceeded,
    GaveUp,
    NeverFits,
    QueueFull,
    ServingError,
    ShuttingDown,
)
from scheduler_core.serving.served_engine import ServedEngine
from scheduler_core.serving.stream import Stream
from scheduler_core.serving.worker import EngineWorker, Tick
from scheduler_core.storage.block_store import BlockStore, TierStats
from scheduler_core.trace import Counts, Trace

_log = logging.getLogger(__name__)


class DeadLetterBox(Protocol):
    """Where requests go whose every attempt failed; returns once the letter is on disk."""

    def put(self, ask: Ask, attempts: tuple[FailedAttempt, ...]) -> str: ...

    def __len__(self) -> int: ...


class AsyncEngine:
    """Serves one model. Each submitted request ends in exactly one way: finished, refused, aborted or dead."""

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
        self.config = config
        self.limits = limits or ServingLimits()
        self.counters = Counters()
        self.draining = False
        self.free_blocks = config.num_blocks
        self._runner = runner
        self._observer = observer or Observer()
        self._letters = letters
        self._store = store
        self._record_file = record_file
        self._streams: dict[Stream, asyncio.Task[None]] = {}
        self._attempts: dict[str, Attempt] = {}
        self._ended: deque[float] = deque(maxlen=32)
        self._num_sent = 0
        self._counts: Counts | None = None
        self._idle = asyncio.Event()
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

    async def drain(self, seconds: float | None = None) -> None:
        """Take nothing new; wait for what is under way, and end what takes longer than `seconds`."""
        self.draining = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.limits.drain_s if seconds is None else seconds):
                while self._streams:
                    self._idle.clear()
                    await self._idle.wait()
        for stream in [*self._streams]:
            self._end(stream, FinishReason.ABORT, ShuttingDown("the server is shutting down; send the request again"))

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
    def longest(self) -> int:
        """Prompt and answer together, in tokens: what the model takes and what fits into memory."""
        # The last token of an answer needs no KV.
        return min(self.config.max_model_len, self.config.num_blocks * self.config.block_size + 1)

    @property
    def num_in_flight(self) -> int:
        return len(self._streams)

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

    def num_letters(self) -> int | None:
        """Dead letters kept, None without a box; asks the disk."""
        return None if self._letters is None else len(self._letters)

    # What clients do

    def submit(self, ask: Ask) -> Stream:
        """Take a request in; raises `NeverFits`, `QueueFull` or `ShuttingDown` where that is no use."""
        self.counters.submitted += 1
        self._num_sent += 1
        arrived = time.monotonic() if ask.arrived is None else ask.arrived
        stream = Stream(f"R{self._num_sent}", ask, arrived, self._left)
        try:
            self._check(stream)
        except ServingError:
            self.counters.refused += 1
            raise
        self._streams[stream] = asyncio.create_task(self._serve(stream), name=stream.id)
        return stream

    def _check(self, stream: Stream) -> None:
        if self.draining:
            raise ShuttingDown("the server is shutting down and takes no new requests")
        if why := self._worker.engine.refusal(self._spec(stream, stream.id, 0.0)):
            raise NeverFits(why)
        most = self.config.max_num_seqs + self.limits.max_waiting
        if len(self._streams) >= most:
            raise QueueFull(
                f"{len(self._streams)} requests run or wait and at most {most} may; send it again later",
                self._seconds_to_room(),
            )

    def _seconds_to_room(self) -> int:
        """How long the queue takes to lose one, by the last ends seen; 1 to 60."""
        if len(self._ended) < 2:
            return 1
        rate = (len(self._ended) - 1) / max(1e-3, self._ended[-1] - self._ended[0])
        return max(1, min(60, math.ceil(1 / rate)))

    def _spec(self, stream: Stream, attempt_id: str, arrival: float) -> RequestSpec:
        ask = stream.ask
        return RequestSpec(attempt_id, ask.prompt_token_ids, ask.sampling, arrival, ask.priority, ask.prompt, ask.salt)

    # One request

    async def _serve(self, stream: Stream) -> None:
        """Try until it succeeds, the attempts are used up, or the deadline passes; then the stream is closed."""
        limits, failed = self.limits, list[FailedAttempt]()
        seconds = stream.ask.timeout_s or limits.request_timeout_s
        try:
            async with asyncio.timeout_at(asyncio.get_running_loop().time() + seconds):
                async for attempt in stamina.retry_context(
                    on=AttemptFailed,
                    attempts=limits.attempts,
                    timeout=None,
                    wait_initial=limits.backoff_s,
                    wait_max=limits.backoff_max_s,
                    wait_jitter=limits.jitter_s,
                ):
                    with attempt:
                        await self._try(stream, attempt.num, failed)
        except AttemptFailed:
            await self._give_up(stream, failed)
        except NeverFits as problem:
            self._end(stream, FinishReason.REJECTED, problem)
        except TimeoutError:
            self._end(stream, FinishReason.ABORT, DeadlineExceeded(f"the answer took longer than {seconds:g} s"))
        except Exception as problem:
            _log.error("request %s was given up", stream.id, exc_info=problem)
            self._end(stream, FinishReason.ERROR, ServingError(f"the server failed: {type(problem).__name__}"))

    async def _try(self, stream: Stream, number: int, failed: list[FailedAttempt]) -> None:
        """Wait until it fails; one that succeeds ends the stream, and this task with it."""
        attempt = Attempt(stream, number, time.time())
        self.counters.retries += number > 1
        self._attempts[attempt.id] = attempt
        sampling = stream.ask.sampling
        if sampling.seed is None:
            # All attempts draw alike, whatever their ids.
            seed = request_seed(self.config.seed, self._spec(stream, stream.id, 0.0))
            sampling = dataclasses.replace(sampling, seed=seed)
        self._worker.add(
            attempt.id, lambda now: dataclasses.replace(self._spec(stream, attempt.id, now), sampling=sampling)
        )
        try:
            await attempt.done
        except AttemptFailed as problem:
            failed.append(FailedAttempt(number, attempt.began, time.time(), str(problem)))
            _log.warning("attempt %d at request %s failed: %s", number, stream.id, problem)
            raise
        finally:
            # From here on whatever comes of this attempt is late.
            if self._attempts.pop(attempt.id, None) is not None:
                self._worker.abort(attempt.id)

    async def _give_up(self, stream: Stream, failed: list[FailedAttempt]) -> None:
        message = f"the model failed {len(failed)} times, the last time with: {failed[-1].reason}"
        letter_id = None
        if self._letters is not None:
            try:
                letter_id = await asyncio.shield(asyncio.to_thread(self._letters.put, stream.ask, tuple(failed)))
                message += f"; the request is kept as dead letter {letter_id}"
            except Exception as problem:
                _log.error("a dead letter could not be written", exc_info=problem)
                message += f"; it could not be kept as a dead letter: {problem}"
        self._end(stream, FinishReason.ERROR, GaveUp(message, letter_id))

    def _left(self, stream: Stream, reason: FinishReason) -> None:
        """The client is content, or gone."""
        self._end(stream, reason, Aborted("the request was aborted") if reason is FinishReason.ABORT else None)

    def _end(self, stream: Stream, reason: FinishReason, problem: ServingError | None = None) -> None:
        """The one place where a request ends; only the first end counts."""
        if stream.is_closed:
            return
        task = self._streams.pop(stream, None)
        if task is not None and task is not asyncio.current_task():
            task.cancel()
        stream.close(reason, problem)
        now = time.monotonic()
        self._ended.append(now)
        self.counters.count_end(reason)
        self._observer.ended(stream, now)
        if not self._streams:
            self._idle.set()

    # What the engine tells

    def _tell(self, what: Callable[[], None]) -> None:
        """From the worker's thread to the loop; nothing is told to a loop that has ended."""
        assert self._loop is not None
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(what)

    def _read(self, tick: Tick) -> None:
        self.free_blocks = tick.free_blocks
        self._counts = tick.record.counts
        for event in tick.record.events:
            if isinstance(event, TokenSampled):
                self._token(event, tick.ended)
            elif isinstance(event, RequestFinished):
                self._finished(event)
            elif isinstance(event, RequestAdmitted):
                self._admitted(event, tick)
            elif isinstance(event, PrefixCacheQueried):
                self._queried(event)
            elif isinstance(event, LowerTierQueried):
                self._lower_tier(event)
            elif isinstance(event, RequestPreempted):
                self.counters.preemptions += 1
        self._observer.ticked(tick)

    def _token(self, event: TokenSampled, now: float) -> None:
        attempt = self._attempts.get(event.request_id)
        if attempt is None or attempt.stream.is_closed:
            self.counters.late_tokens += 1
            return
        self.counters.output_tokens += 1
        stream = attempt.stream
        if attempt.take(event.token_id, now):
            self._observer.token(stream, now)
            stream.first_token = stream.first_token or now
            stream.last_token = now

    def _finished(self, event: RequestFinished) -> None:
        attempt = self._attempts.pop(event.request_id, None)
        if attempt is None:
            return
        if event.reason is FinishReason.REJECTED or event.message == OUT_OF_KV:
            attempt.fail(NeverFits(event.message))
        elif event.reason is FinishReason.ERROR:
            attempt.fail(event.message)
        else:
            # At once, so that whoever reads the last token sees that it is the last.
            self._end(attempt.stream, event.reason)

    def _admitted(self, event: RequestAdmitted, tick: Tick) -> None:
        attempt = self._attempts.get(event.request_id)
        if attempt is None or attempt.stream.admitted is not None:
            return
        attempt.stream.admitted = tick.ended - tick.seconds
        self.counters.prompt_tokens += len(attempt.stream.ask.prompt_token_ids)
        self._observer.admitted(attempt.stream)

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

    def _engine_crashed(self, problem: Exception) -> None:
        _log.error("the engine failed and was started anew", exc_info=problem)
        self.counters.engine_restarts += 1
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

"""What takes requests in, whoever computes them: a bounded queue, attempts, deadlines, dead letters, drain.

Knows no HTTP and no text. Everything here runs on the event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import math
import time
from abc import ABC, abstractmethod
from collections import deque
from typing import TYPE_CHECKING, Any, Protocol

import stamina

from scheduler_core.backends.base import request_seed
from scheduler_core.config import EngineConfig
from scheduler_core.request import FinishReason, RequestSpec, SamplingParams
from scheduler_core.serving.ask import Ask, ServingLimits
from scheduler_core.serving.attempt import Attempt, FailedAttempt
from scheduler_core.serving.counters import Counters, Observer
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
from scheduler_core.serving.stream import Stream

if TYPE_CHECKING:
    from scheduler_core.serving.metrics import GatewayMetrics

_log = logging.getLogger(__name__)


class DeadLetterBox(Protocol):
    """Where requests go whose every attempt failed; returns once the letter is on disk."""

    def put(self, ask: Ask, attempts: tuple[FailedAttempt, ...]) -> str: ...

    def __len__(self) -> int: ...


class Front(ABC):
    """Serves one model. Each submitted request ends in exactly one way: finished, refused, aborted or dead.

    Who computes the attempts is a subclass's matter: it is sent them, recalls them, and reports what comes of them.
    """

    def __init__(
        self,
        config: EngineConfig,
        limits: ServingLimits | None,
        letters: DeadLetterBox | None,
        observer: Observer | None,
    ) -> None:
        self.config = config
        self.limits = limits or ServingLimits()
        self.counters = Counters()
        self.draining = False
        self._observer = observer or Observer()
        self._letters = letters
        self._streams: dict[Stream, asyncio.Task[None]] = {}
        #: Those whose dead letter is being written: nothing else can become of them.
        self._given_up: set[Stream] = set()
        self._attempts: dict[str, Attempt] = {}
        self._ended: deque[float] = deque(maxlen=32)
        self._num_sent = 0
        self._idle = asyncio.Event()

    # Who computes

    @abstractmethod
    async def start(self) -> None:
        """Be ready for requests."""

    @abstractmethod
    async def close(self) -> None:
        """End everything."""

    @abstractmethod
    async def health(self) -> tuple[str, dict[str, Any]]:
        """ "ok", or why no request can be answered now, and what else a probe may want to know."""

    @abstractmethod
    async def exposition(self, metrics: GatewayMetrics) -> bytes:
        """What Prometheus reads; may take as long as disks and other machines take to answer."""

    @property
    @abstractmethod
    def num_lanes(self) -> int:
        """Requests that can be computed at once."""

    @abstractmethod
    def _refusal(self, spec: RequestSpec) -> str | None:
        """Why a request could never run."""

    @abstractmethod
    def _send(self, attempt: Attempt, sampling: SamplingParams) -> None:
        """Have an attempt computed; what comes of it is told to `attempt`."""

    @abstractmethod
    def _recall(self, attempt: Attempt) -> None:
        """Nobody waits for an attempt any more."""

    # Life

    async def drain(self, seconds: float | None = None) -> None:
        """Take nothing new; wait for what is under way, and end what takes longer than `seconds`."""
        self.draining = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.limits.drain_s if seconds is None else seconds):
                while self._streams:
                    self._idle.clear()
                    await self._idle.wait()
        for stream in [each for each in self._streams if each not in self._given_up]:
            self._end(stream, FinishReason.ABORT, ShuttingDown("the server is shutting down; send the request again"))
        while self._streams:  # those whose dead letter is being written
            self._idle.clear()
            await self._idle.wait()

    @property
    def longest(self) -> int:
        """Prompt and answer together, in tokens: what the model takes and what fits into memory."""
        # The last token of an answer needs no KV.
        return min(self.config.max_model_len, self.config.num_blocks * self.config.block_size + 1)

    @property
    def num_in_flight(self) -> int:
        return len(self._streams)

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
        if why := self._refusal(self._spec(stream, stream.id, 0.0)):
            raise NeverFits(why)
        most = self.num_lanes + self.limits.max_waiting
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
                        await self._try(stream, stream.ask.attempt + attempt.num - 1, failed)
        except AttemptFailed:
            await self._give_up(stream, failed)
        except (NeverFits, QueueFull) as problem:
            self._end(stream, FinishReason.REJECTED, problem)
        except TimeoutError:
            if failed:  # a model that hangs fails the first attempt and lets the next ones wait
                why = f"there was no answer before the deadline of {seconds:g} s"
                failed.append(FailedAttempt(failed[-1].number + 1, failed[-1].ended, time.time(), why))
                await self._give_up(stream, failed)
                return
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
        self._send(attempt, sampling)
        try:
            await attempt.done
        except AttemptFailed as problem:
            failed.append(FailedAttempt(number, attempt.began, time.time(), str(problem)))
            _log.warning("attempt %d at request %s failed: %s", number, stream.id, problem)
            raise
        finally:
            # From here on whatever comes of this attempt is late.
            if self._attempts.pop(attempt.id, None) is not None:
                self._recall(attempt)

    async def _give_up(self, stream: Stream, failed: list[FailedAttempt]) -> None:
        self._given_up.add(stream)
        message = f"the model failed {len(failed)} times, the last time with: {failed[-1].reason}"
        letter_id = None
        if self._letters is not None:
            try:
                letter_id = await asyncio.shield(asyncio.to_thread(self._letters.put, stream.ask, tuple(failed)))
                message += f"; the request is kept as dead letter {letter_id}"
            except Exception as problem:
                _log.error("a dead letter could not be written", exc_info=problem)
                message += f"; it could not be kept as a dead letter: {problem}"
        self._end(stream, FinishReason.ERROR, GaveUp(message, letter_id, failed[-1].reason))

    def _left(self, stream: Stream, reason: FinishReason) -> None:
        """The client is content, or gone."""
        if stream not in self._given_up:
            self._end(stream, reason, Aborted("the request was aborted") if reason is FinishReason.ABORT else None)

    def _end(self, stream: Stream, reason: FinishReason, problem: ServingError | None = None) -> None:
        """The one place where a request ends; only the first end counts."""
        if stream.is_closed:
            return
        task = self._streams.pop(stream, None)
        self._given_up.discard(stream)
        if task is not None and task is not asyncio.current_task():
            task.cancel()
        stream.close(reason, problem)
        now = time.monotonic()
        self._ended.append(now)
        self.counters.count_end(reason)
        self._observer.ended(stream, now)
        if not self._streams:
            self._idle.set()

    # What is reported

    def _token(self, request_id: str, token_id: int, now: float) -> None:
        attempt = self._attempts.get(request_id)
        if attempt is None or attempt.stream.is_closed:
            self.counters.late_tokens += 1
            return
        self.counters.output_tokens += 1
        stream = attempt.stream
        if attempt.take(token_id, now):
            self._observer.token(stream, now)
            stream.first_token = stream.first_token or now
            stream.last_token = now

    def _admitted(self, request_id: str, when: float) -> None:
        attempt = self._attempts.get(request_id)
        if attempt is None or attempt.stream.admitted is not None:
            return
        attempt.stream.admitted = when
        self.counters.prompt_tokens += len(attempt.stream.ask.prompt_token_ids)
        self._observer.admitted(attempt.stream)

    def _done(self, request_id: str, reason: FinishReason) -> None:
        """The text is complete."""
        if (attempt := self._attempts.pop(request_id, None)) is not None:
            # At once, so that whoever reads the last token sees that it is the last.
            self._end(attempt.stream, reason)

"""A front whose attempts are computed by replicas elsewhere. A replica that dies fails its attempts; others go on."""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ray.exceptions import RayError
from ray.serve.exceptions import RayServeException
from ray.serve.handle import DeploymentHandle, DeploymentResponseGenerator

from scheduler_core.config import EngineConfig
from scheduler_core.kv_cache_manager import KVCacheManager
from scheduler_core.refusal import refusal
from scheduler_core.replicas.prefix_key import PrefixKey
from scheduler_core.request import FinishReason, Request, RequestSpec, SamplingParams
from scheduler_core.serving.ask import ServingLimits
from scheduler_core.serving.attempt import Attempt
from scheduler_core.serving.cluster.merged_metrics import Exposition, merged
from scheduler_core.serving.cluster.messages import Part, ReplicaStatus, Work
from scheduler_core.serving.counters import Observer
from scheduler_core.serving.errors import NeverFits, QueueFull
from scheduler_core.serving.front import DeadLetterBox, Front

if TYPE_CHECKING:
    from scheduler_core.serving.metrics import GatewayMetrics

_log = logging.getLogger(__name__)
#: How often the replicas are asked how they are, and how long they may take to say it (seconds).
_WATCH_S = 0.5
_ANSWER_S = 5.0
#: The same for whoever reads the metrics, who may not wait as long.
_SCRAPE_S = 1.5
#: How much longer than the gateway a replica waits before it gives up a request that nobody recalls.
_ORPHAN_S = 10.0


class ClusterEngine(Front):
    """Sends each attempt to the replica that Ray's router chooses; keeps no KV and no weights."""

    def __init__(
        self,
        config: EngineConfig,
        replicas: DeploymentHandle[Any],
        num_replicas: int,
        prefix_blocks: int,
        limits: ServingLimits | None = None,
        *,
        letters: DeadLetterBox | None = None,
        observer: Observer | None = None,
        siblings: DeploymentHandle[Any] | None = None,
    ) -> None:
        super().__init__(config, limits, letters, observer)
        self.replicas: tuple[ReplicaStatus, ...] = ()
        #: What the engines told of themselves last, for Prometheus.
        self._engines: list[Exposition] = []
        self._handle = replicas
        self._siblings = siblings
        self._num_replicas = num_replicas
        # Of this process alone: its successor asks for other things.
        self._name = uuid.uuid4().hex
        self._key = PrefixKey(config.block_size, prefix_blocks)
        self._sizes = KVCacheManager(config, "", "", [])
        self._calls: dict[str, asyncio.Task[None]] = {}
        self._watch: asyncio.Task[None] | None = None

    # Life

    async def start(self) -> None:
        self._watch = asyncio.create_task(self._watch_replicas(), name="replica watch")

    async def close(self) -> None:
        """End what is under way; the replicas are Serve's to end."""
        await self.drain(0)
        if self._watch is not None:
            self._watch.cancel()
        for call in self._calls.values():
            call.cancel()
        await asyncio.gather(*self._calls.values(), return_exceptions=True)

    @property
    def num_lanes(self) -> int:
        return max(self._num_replicas, len(self.replicas)) * self.config.max_num_seqs

    async def health(self) -> tuple[str, dict[str, Any]]:
        able = [replica for replica in self.replicas if not replica.stalled]
        status = "draining" if self.draining else "ok" if able else "stalled" if self.replicas else "no replica"
        return status, {"in_flight": self.num_in_flight, "replicas": len(self.replicas)}

    async def exposition(self, metrics: GatewayMetrics) -> bytes:
        letters = await asyncio.to_thread(self.num_letters)
        own = Exposition(metrics.replica, metrics.render_requests(self, letters))
        engines, siblings = await asyncio.gather(
            _ask_all(self._handle, "exposition", seconds=_SCRAPE_S),
            _nobody() if self._siblings is None else _ask_all(self._siblings, "requests", seconds=_SCRAPE_S),
        )
        if engines is not None:
            self._engines = [each for each in engines if isinstance(each, Exposition)]
        told = [*self._engines, *(each for each in siblings or () if isinstance(each, Exposition))]
        others = {each.replica: each for each in told if each.replica != own.replica}
        return await asyncio.to_thread(merged, [own, *others.values()])

    async def _watch_replicas(self) -> None:
        while True:
            if (told := await _ask_all(self._handle, "status", self._name)) is not None:
                self.replicas = tuple(sorted((each for each in told if isinstance(each, ReplicaStatus)), key=_rank))
            await asyncio.sleep(_WATCH_S)

    # Attempts

    def _refusal(self, spec: RequestSpec) -> str | None:
        longest = min(len(spec.prompt_token_ids) + spec.sampling.max_tokens, self.config.max_model_len)
        refused = refusal(Request(spec, 0, longest), self._sizes)
        return refused.message if refused else None

    def _send(self, attempt: Attempt, sampling: SamplingParams) -> None:
        call = asyncio.create_task(self._follow(attempt, sampling), name=attempt.id)
        self._calls[attempt.id] = call
        call.add_done_callback(lambda _: self._calls.pop(attempt.id, None))

    def _recall(self, attempt: Attempt) -> None:
        if (call := self._calls.get(attempt.id)) is not None:
            call.cancel()

    async def _follow(self, attempt: Attempt, sampling: SamplingParams) -> None:
        """Read what a replica says of an attempt until it ends; whoever cancels this cancels the attempt there."""
        ask = attempt.stream.ask
        timeout = (ask.timeout_s or self.limits.request_timeout_s) + _ORPHAN_S
        work = Work(ask.prompt_token_ids, sampling, ask.priority, ask.salt, attempt.number, timeout, self._name)
        key = self._key.of(self._spec(attempt.stream, attempt.id, 0.0)).hex()
        sent = time.monotonic()
        parts: DeploymentResponseGenerator[Any] | None = None
        try:
            parts = self._handle.options(stream=True, session_id=key).generate.remote(work)
            async for part in parts:
                self._hear(attempt, part, sent)
            if attempt.id in self._attempts:
                attempt.fail("the replica ended without saying why")
        except (RayError, RayServeException) as problem:
            attempt.fail(f"the replica failed: {type(problem).__name__}")
        except Exception as problem:
            _log.error("attempt %s cannot be followed", attempt.id, exc_info=problem)
            attempt.fail(f"the replica failed: {type(problem).__name__}")
        except asyncio.CancelledError:
            if parts is not None:
                parts.cancel()
            raise

    def _hear(self, attempt: Attempt, part: Part, sent: float) -> None:
        if part.waited_s is not None:
            self._admitted(attempt.id, sent + part.waited_s)
            if attempt.number == 1:
                attempt.stream.num_cached_tokens = part.cached_tokens
        now = time.monotonic()
        for token_id in part.token_ids:
            self._token(attempt.id, token_id, now)
        if part.reason is not None:
            self._done(attempt.id, FinishReason[part.reason])
        elif part.kind == "never_fits":
            attempt.fail(NeverFits(part.problem))
        elif part.kind == "queue_full":
            attempt.fail(QueueFull(part.problem, part.retry_after_s))
        elif part.kind is not None:
            attempt.fail(part.problem)


def _rank(replica: ReplicaStatus) -> int:
    return replica.rank


async def _nobody() -> Sequence[object]:
    return ()


async def _ask_all(
    handle: DeploymentHandle[Any], method: str, *words: str, seconds: float = _ANSWER_S
) -> Sequence[object] | None:
    """What each replica answers, an exception in place of those that cannot; None if one does not, as it is full.

    Serve counts a question as a request: where there is no room for more it waits until one has ended.
    """
    try:
        return [*await handle.broadcast(method, *words).results_async(timeout_s=seconds, return_exceptions=True)]
    except TimeoutError:
        return None
    except Exception as problem:  # whatever it is, they are asked again
        _log.info("the replicas cannot be asked for %s: %s", method, problem)
        return ()

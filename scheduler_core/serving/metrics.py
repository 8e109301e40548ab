"""What Prometheus reads: counters of the engine, gauges of the last tick, histograms of times."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import prometheus_client
from prometheus_client import CollectorRegistry, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from scheduler_core.serving.counters import MEMORY, Observer

if TYPE_CHECKING:
    from scheduler_core.serving.async_engine import AsyncEngine
    from scheduler_core.serving.front import Front
    from scheduler_core.serving.stream import Stream
    from scheduler_core.serving.worker import Tick
    from scheduler_core.storage.block_store import TierStats

#: vLLM's buckets, in seconds.
TTFT_BUCKETS = (
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0,
    20.0, 40.0, 80.0, 160.0, 640.0, 2560.0,
)  # fmt: skip
ITL_BUCKETS = (
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
)  # fmt: skip
REQUEST_BUCKETS = (
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0,
    120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0,
)  # fmt: skip
#: Ours: a tick is much shorter than a request.
TICK_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
#: vLLM's, in tokens.
BATCH_BUCKETS = (1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)

_LABELS = ("model", "replica")
_LAST_TICKS = 256

#: Counter of requests -> (what it counts, field of `Counters`).
_REQUESTS = {
    "requests_submitted": ("Requests that clients sent.", "submitted"),
    "requests_finished": ("Requests that were answered.", "finished"),
    "requests_refused": ("Requests that were refused: too long, queue full, or shutting down.", "refused"),
    "requests_aborted": ("Requests whose client left, whose deadline passed, or that a shutdown ended.", "aborted"),
    "requests_dead": ("Requests that failed for good.", "dead"),
    "model_call_retries": ("Attempts after a failed one.", "retries"),
    "prompt_tokens": ("Prompt tokens of requests that were let in.", "prompt_tokens"),
    "generation_tokens": ("Tokens drawn.", "output_tokens"),
}
#: The same of an engine.
_ENGINE = {
    "late_tokens_dropped": ("Tokens that came when nobody waited for them any more.", "late_tokens"),
    "engine_restarts": ("Times the engine failed and was started anew.", "engine_restarts"),
    "preemption_count": ("Preemptions of running requests.", "preemptions"),
}

_Family = type[CounterMetricFamily] | type[GaugeMetricFamily]

#: Of the tiers below memory: kind, name, what it is, field of `TierStats`.
_STORE: tuple[tuple[_Family, str, str, str], ...] = (
    (GaugeMetricFamily, "cache_store_blocks", "Blocks kept.", "entries"),
    (GaugeMetricFamily, "cache_store_bytes", "Bytes kept.", "num_bytes"),
    (CounterMetricFamily, "cache_store_writes", "Blocks written.", "writes"),
    (CounterMetricFamily, "cache_store_evictions", "Blocks thrown out to make room.", "evictions"),
    (CounterMetricFamily, "cache_store_drops", "Blocks not written: too many waited, or it failed.", "drops"),
    (CounterMetricFamily, "cache_store_unusable", "Blocks found damaged or foreign.", "unusable"),
    (CounterMetricFamily, "cache_store_errors", "Operations that failed.", "errors"),
)


class GatewayMetrics(Observer):
    """One model's metrics, in a registry of their own; labels are the model and the replica, nothing else."""

    content_type = prometheus_client.CONTENT_TYPE_LATEST

    def __init__(self, model: str, replica: str = "0") -> None:
        prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]
        self.replica = replica
        self._values = (model, replica)
        #: Seconds of the last ticks, the newest at the end.
        self.last_ticks: deque[float] = deque(maxlen=_LAST_TICKS)
        self._requests = CollectorRegistry()
        self._ttft = self._of_requests("time_to_first_token_seconds", "From arrival to first token.", TTFT_BUCKETS)
        self._itl = self._of_requests("inter_token_latency_seconds", "Between successive tokens.", ITL_BUCKETS)
        self._e2e = self._of_requests("e2e_request_latency_seconds", "From arrival to the end.", REQUEST_BUCKETS)
        self._queue = self._of_requests("request_queue_time_seconds", "From arrival to admission.", REQUEST_BUCKETS)
        self._engine = CollectorRegistry()
        self._tick = self._histogram(self._engine, "tick_seconds", "One tick of the engine.", TICK_BUCKETS)
        self._batch = self._histogram(self._engine, "tick_tokens", "Tokens that one tick computed.", BATCH_BUCKETS)

    def _of_requests(self, name: str, text: str, buckets: tuple[float, ...]) -> Histogram:
        return self._histogram(self._requests, name, text, buckets)

    def _histogram(self, registry: CollectorRegistry, name: str, text: str, buckets: tuple[float, ...]) -> Histogram:
        histogram = Histogram(name, text, _LABELS, registry=registry, buckets=buckets)
        return histogram.labels(*self._values)

    # What happens

    def admitted(self, stream: Stream) -> None:
        assert stream.admitted is not None
        self._queue.observe(max(0.0, stream.admitted - stream.arrived))

    def token(self, stream: Stream, now: float) -> None:
        if stream.last_token is None:
            self._ttft.observe(now - stream.arrived)
        else:
            self._itl.observe(now - stream.last_token)

    def ended(self, stream: Stream, now: float) -> None:
        if stream.is_completed:
            self._e2e.observe(now - stream.arrived)

    def ticked(self, tick: Tick) -> None:
        self.last_ticks.append(tick.seconds)
        self._tick.observe(tick.seconds)
        self._batch.observe(tick.record.counts.scheduled_tokens)

    # What is read

    def render(self, engine: AsyncEngine, tiers: Sequence[TierStats], letters: int | None) -> bytes:
        """The exposition format; `tiers` are those below memory, `letters` the dead letters, None without a box."""
        return self.render_requests(engine, letters) + self.render_engine(engine, tiers)

    def render_requests(self, front: Front, letters: int | None) -> bytes:
        """What is told of requests, whoever computes them."""
        told: list[Metric] = [
            self._counter(name, text, getattr(front.counters, field)) for name, (text, field) in _REQUESTS.items()
        ]
        if letters is not None:
            told.append(self._gauge("dead_letters", "Requests kept in the dead letters.", letters))
        return _exposition(self._requests, told)

    def render_engine(self, engine: AsyncEngine, tiers: Sequence[TierStats]) -> bytes:
        """What is told of one engine and its caches."""
        return _exposition(self._engine, [*self._now(engine), *self._caches(engine, tiers)])

    def _now(self, engine: AsyncEngine) -> Iterator[Metric]:
        for name, (text, field) in _ENGINE.items():
            yield self._counter(name, text, getattr(engine.counters, field))
        yield self._gauge("scheduler_queue_length", "Requests that wait.", engine.num_waiting)
        yield self._gauge("scheduler_running_requests", "Requests on a lane.", engine.num_running)
        used = 1 - engine.free_blocks / engine.config.num_blocks
        yield self._gauge("kv_cache_usage_ratio", "KV blocks held by running requests (0 to 1).", used)

    def _caches(self, engine: AsyncEngine, tiers: Sequence[TierStats]) -> Iterator[Metric]:
        counters = engine.counters
        names = dict.fromkeys((MEMORY, *(tier.tier for tier in tiers), *counters.query_tokens))
        queried = {name: counters.query_tokens.get(name, 0) for name in names}
        hit = {name: counters.hit_tokens.get(name, 0) for name in names}
        yield self._by_tier(CounterMetricFamily, "cache_query_tokens", "Tokens looked up at first admissions.", queried)
        yield self._by_tier(CounterMetricFamily, "cache_hit_tokens", "Tokens found at first admissions.", hit)
        yield self._gauge("cache_hit_ratio", "Tokens found per token looked up, any tier (0 to 1).", counters.hit_ratio)
        for kind, name, text, field in _STORE:
            yield self._by_tier(kind, name, text, {tier.tier: getattr(tier, field) for tier in tiers})

    def _by_tier(self, kind: _Family, name: str, text: str, values: Mapping[str, float]) -> Metric:
        family = kind(name, text, labels=(*_LABELS, "tier"))
        for tier, value in values.items():
            family.add_metric((*self._values, tier), value)
        return family

    def _counter(self, name: str, text: str, value: float) -> CounterMetricFamily:
        family = CounterMetricFamily(name, text, labels=_LABELS)
        family.add_metric(self._values, value)
        return family

    def _gauge(self, name: str, text: str, value: float) -> GaugeMetricFamily:
        family = GaugeMetricFamily(name, text, labels=_LABELS)
        family.add_metric(self._values, value)
        return family


def _exposition(registry: CollectorRegistry, told: list[Metric]) -> bytes:
    scrape = CollectorRegistry()
    scrape.register(_Now(told))
    return prometheus_client.generate_latest(registry) + prometheus_client.generate_latest(scrape)


class _Now:
    """A collector of what was just read."""

    def __init__(self, metrics: list[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> list[Metric]:
        return self._metrics

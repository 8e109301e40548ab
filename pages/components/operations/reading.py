"""One reading of a gateway's metrics: numbers by name, replica and tier, and what is estimated from histograms."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from prometheus_client.parser import text_string_to_metric_families

from pages.components.operations.client import GatewayError

MAX_SAMPLES = 20_000
MAX_REPLICAS = 100
#: Name of a histogram -> what it measures, as people say.
LATENCIES = {
    "time_to_first_token_seconds": "TTFT",
    "inter_token_latency_seconds": "ITL",
    "e2e_request_latency_seconds": "E2E",
}
#: Upper bound in seconds and how many were at most that, in order.
Buckets = tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class Reading:
    """What stood there at `at` (seconds of `time.monotonic`)."""

    at: float
    values: dict[tuple[str, str, str], float] = field(default_factory=dict)
    buckets: dict[tuple[str, str], Buckets] = field(default_factory=dict)
    totals: dict[str, float] = field(default_factory=dict)

    @property
    def replicas(self) -> list[str]:
        """Those that run requests."""
        found = {replica for name, replica, _ in self.values if name == "scheduler_running_requests"}
        return sorted(found, key=lambda name: (len(name), name))

    @property
    def tiers(self) -> list[str]:
        return list(dict.fromkeys(tier for name, _, tier in self.values if name == "cache_query_tokens_total"))

    def total(self, name: str, *, replica: str | None = None, tier: str | None = None) -> float:
        """Of all replicas and tiers, or of one; 0 where nothing is told."""
        if replica is None and tier is None:
            return self.totals.get(name, 0.0)
        return sum(
            value
            for (each, where, kind), value in self.values.items()
            if each == name and replica in (None, where) and tier in (None, kind)
        )

    def mean(self, name: str) -> float:
        """Over the replicas that tell it; 0 where none does."""
        told = [value for (each, _, _), value in self.values.items() if each == name]
        return sum(told) / len(told) if told else 0.0

    def histogram(self, name: str, replica: str | None = None) -> Buckets:
        """Of all replicas together, or of one."""
        told = ((where, buckets) for (each, where), buckets in self.buckets.items() if each == name)
        return _sum(buckets for where, buckets in told if replica in (None, where))


def read(text: str, at: float) -> Reading:
    """A reading from the exposition format; raises `GatewayError` for what is none."""
    reading = Reading(at)
    counts: dict[tuple[str, str], dict[float, float]] = {}
    num_samples = 0
    try:
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                num_samples += 1
                if num_samples > MAX_SAMPLES:
                    raise GatewayError(f"it tells more than {MAX_SAMPLES:,} figures")
                _take(sample.name, sample.labels, float(sample.value), reading, counts)
    except (ValueError, KeyError, TypeError, IndexError, AttributeError):
        raise GatewayError("its metrics cannot be read; is it a gateway of this app?") from None
    for key, told in counts.items():
        reading.buckets[key] = tuple(sorted(told.items()))
    if not reading.replicas:
        raise GatewayError("its metrics tell no engine; is it a gateway of this app?")
    if len(reading.replicas) > MAX_REPLICAS:
        raise GatewayError(f"it tells more than {MAX_REPLICAS} replicas")
    return reading


def _take(
    name: str,
    labels: dict[str, str],
    value: float,
    reading: Reading,
    counts: dict[tuple[str, str], dict[float, float]],
) -> None:
    if not math.isfinite(value):
        return
    replica, tier = labels.get("replica", "")[:60], labels.get("tier", "")[:60]
    base = name.removesuffix("_bucket")
    if base in LATENCIES and "le" in labels:
        told = counts.setdefault((base, replica), {})
        bound = float(labels["le"])
        told[bound] = told.get(bound, 0.0) + value
    else:
        key = name, replica, tier
        reading.values[key] = reading.values.get(key, 0.0) + value
        reading.totals[name] = reading.totals.get(name, 0.0) + value


def _sum(all_buckets: Iterable[Buckets]) -> Buckets:
    totals: dict[float, float] = {}
    for buckets in all_buckets:
        for bound, count in buckets:
            totals[bound] = totals.get(bound, 0.0) + count
    return tuple(sorted(totals.items()))


def difference(new: Buckets, old: Buckets) -> Buckets:
    """What came between two readings."""
    before = dict(old)
    return tuple((bound, max(0.0, count - before.get(bound, 0.0))) for bound, count in new)


def quantile(share: float, buckets: Sequence[tuple[float, float]]) -> float | None:
    """The value below which a share of all lies, as if they lay evenly in each bucket; None without any.

    What lies above the last bound counts as the bound.
    """
    total = buckets[-1][1] if buckets else 0.0
    if total <= 0:
        return None
    wanted, low, below = share * total, 0.0, 0.0
    for bound, count in buckets:
        if count >= wanted:
            if math.isinf(bound):
                return low
            return low + (bound - low) * ((wanted - below) / (count - below) if count > below else 1.0)
        low, below = bound, count
    return low

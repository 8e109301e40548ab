"""The figures of a whole run from the facts of its requests, under the names of vLLM's serving benchmark.

Percentiles are linear between the closest ranks (numpy's default) over completed requests; `std` is that of the
population. Requests that failed, were refused or aborted, or have not ended are counted beside them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scheduler_core.errors import ConfigError
from scheduler_core.request import FinishReason
from scheduler_core.request_facts import RequestFacts, by_tenant

METRICS = ("ttft", "tpot", "itl", "e2el")
RANKS = (50, 90, 95, 99)

#: Below that many samples a 99th percentile is little more than the largest value.
FEWEST_FOR_P99 = 100

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Targets:
    """What a request has to keep to count as good, in milliseconds; None asks nothing.

    `itl_ms` bounds the longest gap between two of its tokens, so that a single stall is seen; `tpot_ms` their mean.
    """

    ttft_ms: float | None = None
    tpot_ms: float | None = None
    itl_ms: float | None = None
    e2el_ms: float | None = None

    def __post_init__(self) -> None:
        for name, value in self.given.items():
            if not 0 < value < float("inf"):
                raise ConfigError(f"the target {name} is {value}; it must be above 0 milliseconds")

    @property
    def given(self) -> dict[str, float]:
        """Name -> milliseconds, for the targets that are set."""
        values = ((each.name, getattr(self, each.name)) for each in fields(self))
        return {name: value for name, value in values if value is not None}

    def are_met_by(self, facts: RequestFacts) -> bool:
        """Whether a completed request kept all of them; one of a single token has no gap that could be too long."""
        if not facts.is_completed:
            return False
        gaps = _gaps(facts)
        found = {
            "ttft_ms": facts.ttft_s,
            "tpot_ms": facts.tpot_s,
            "itl_ms": float(gaps.max()) if len(gaps) else None,
            "e2el_ms": facts.e2e_s,
        }
        return all((found[name] or 0.0) * 1e3 <= limit for name, limit in self.given.items())


def summarise(
    facts: Sequence[RequestFacts], duration_s: float | None = None, targets: Targets | None = None
) -> dict[str, Any]:
    """vLLM's result keys, and ours beside them: how requests ended, sample sizes, hit rate, tenants, warnings.

    `duration_s` is from the first arrival to the last end unless given. `request_goodput` is None without targets.
    """
    targets = targets or Targets()
    done = [each for each in facts if each.is_completed]
    duration = span(facts) if duration_s is None else duration_s
    samples = _samples(done)
    return {
        "duration": duration,
        **_ends(facts, done),
        **_throughput(done, duration),
        "request_goodput": _goodput(done, targets, duration) if targets.given else None,
        **_percentiles(samples),
        "num_samples": {name: len(values) for name, values in samples.items()},
        "prefix_hit_rate": hit_rate(facts),
        "num_preemptions": sum(each.num_preemptions for each in facts),
        "fairness": fairness(facts, targets),
        "warnings": _warnings(facts, samples),
    }


def span(facts: Iterable[RequestFacts]) -> float:
    """Seconds from the first arrival to the last end; 0 if nothing ended."""
    seen = [*facts]
    ends = [each.finish for each in seen if each.finish is not None]
    return max(ends) - min(each.arrival for each in seen) if ends else 0.0


def hit_rate(facts: Iterable[RequestFacts]) -> float | None:
    """Tokens found in the prefix cache per token looked up at first admissions (0 to 1); None if none was looked up.

    What a request finds of its own after a preemption does not count.
    """
    seen = [*facts]
    queried = sum(each.num_queried_tokens for each in seen)
    return sum(each.num_cached_tokens for each in seen) / queried if queried else None


def jain_index(values: Sequence[float]) -> float | None:
    """Jain's fairness index, (sum x)^2 / (n * sum x^2): 1 if all are equal, 1/n if one has everything.

    From Jain, Chiu and Hawe, "A Quantitative Measure of Fairness and Discrimination" (DEC-TR-301, 1984). None without
    values, or if all are 0.
    """
    squares = sum(value * value for value in values)
    return sum(values) ** 2 / (len(values) * squares) if squares else None


def fairness(facts: Iterable[RequestFacts], targets: Targets | None = None) -> dict[str, Any]:
    """The figures of each tenant, and Jain's index over the speed and over the tokens that tenants got.

    Speed is output tokens per second of latency, pooled over a tenant's completed requests: who waits longer for the
    same is slower. Tokens are prompt and output of completed requests; they also differ where tenants ask for different
    amounts.
    """
    tenants = {name: _tenant(group, targets or Targets()) for name, group in by_tenant(facts).items()}
    return {
        "jain_speed": jain_index([each["tokens_per_second_of_latency"] for each in tenants.values()]),
        "jain_tokens": jain_index([each["tokens"] for each in tenants.values()]),
        "tenants": tenants,
    }


def _tenant(facts: Sequence[RequestFacts], targets: Targets) -> dict[str, Any]:
    done = [each for each in facts if each.is_completed]
    latency = sum(each.e2e_s or 0.0 for each in done)
    output = sum(each.num_output_tokens for each in done)
    return {
        **_ends(facts, done),
        "tokens": sum(each.num_prompt_tokens for each in done) + output,
        "tokens_per_second_of_latency": output / latency if latency else 0.0,
        "good": sum(map(targets.are_met_by, done)) if targets.given else None,
        **{
            f"{name}_{metric}_ms": value
            for metric, values in _samples(done).items()
            if metric != "itl"
            for name, value in (("median", _percentile(values, 50)), ("p99", _percentile(values, 99)))
        },
    }


def _ends(facts: Sequence[RequestFacts], done: Sequence[RequestFacts]) -> dict[str, int]:
    """`failed` are all that ended otherwise than asked for; those refused and aborted are part of it."""
    reasons = [each.reason for each in facts]
    return {
        "completed": len(done),
        "failed": len(facts) - len(done) - reasons.count(None),
        "refused": reasons.count(FinishReason.REJECTED),
        "aborted": reasons.count(FinishReason.ABORT),
        "unfinished": reasons.count(None),
        "total_input_tokens": sum(each.num_prompt_tokens for each in done),
        "total_output_tokens": sum(each.num_output_tokens for each in done),
    }


def _throughput(done: Sequence[RequestFacts], duration: float) -> dict[str, float]:
    """Per second of the whole run; 0 where it took no time."""
    output = sum(each.num_output_tokens for each in done)
    total = output + sum(each.num_prompt_tokens for each in done)
    counts = {"request_throughput": len(done), "output_throughput": output, "total_token_throughput": total}
    return {name: count / duration if duration else 0.0 for name, count in counts.items()}


def _goodput(done: Sequence[RequestFacts], targets: Targets, duration: float) -> float:
    """Completed requests that met all targets, per second (DistServe, OSDI'24)."""
    return sum(map(targets.are_met_by, done)) / duration if duration else 0.0


def _samples(done: Sequence[RequestFacts]) -> dict[str, Floats]:
    """Milliseconds by metric; gaps between tokens are pooled over all requests."""
    gaps = [_gaps(each) for each in done]
    return {
        "ttft": _milliseconds(each.ttft_s for each in done),
        "tpot": _milliseconds(each.tpot_s for each in done),
        "itl": np.concatenate(gaps) * 1e3 if gaps else np.empty(0),
        "e2el": _milliseconds(each.e2e_s for each in done),
    }


def _gaps(facts: RequestFacts) -> Floats:
    return np.diff(np.asarray(facts.token_times, dtype=np.float64))


def _milliseconds(seconds: Iterable[float | None]) -> Floats:
    return np.array([value for value in seconds if value is not None], dtype=np.float64) * 1e3


def _percentiles(samples: dict[str, Floats]) -> dict[str, float | None]:
    result: dict[str, float | None] = {}
    for name, values in samples.items():
        result[f"mean_{name}_ms"] = float(values.mean()) if len(values) else None
        result[f"median_{name}_ms"] = _percentile(values, 50)
        result[f"std_{name}_ms"] = float(values.std()) if len(values) else None
        for rank in RANKS:
            result[f"p{rank}_{name}_ms"] = _percentile(values, rank)
    return result


def _percentile(values: Floats, rank: float) -> float | None:
    return float(np.percentile(values, rank)) if len(values) else None


def _warnings(facts: Sequence[RequestFacts], samples: dict[str, Floats]) -> list[str]:
    found = [
        f"p99_{name}_ms comes from {len(values)} samples; below {FEWEST_FOR_P99} it says little more than the largest"
        for name, values in samples.items()
        if len(values) < FEWEST_FOR_P99
    ]
    unfinished = sum(each.reason is None for each in facts)
    if unfinished:
        found.append(f"{unfinished} of {len(facts)} requests have not ended; the figures are partial")
    return found

"""A shaped workload in numbers: how many requests, how long, how they arrive."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from scheduler_core.sources.shape import ShapedWorkload

_PERCENTILES = (50, 90, 99)


def summarise(workload: ShapedWorkload) -> dict[str, Any]:
    """Figures as JSON values; lengths in tokens, those of texts in characters, as they are not encoded yet."""
    requests = workload.requests
    return {
        "requests": len(requests),
        "prompt_tokens": _spread(r.prompt_tokens for r in requests if r.prompt_tokens is not None),
        "prompt_characters": _spread(len(r.text) for r in requests if r.text),
        "output_tokens": _spread(r.output_tokens for r in requests if r.output_tokens is not None),
        "arrivals": _arrivals([r.arrival for r in requests]),
        "conversations": len({r.conversation for r in requests if r.conversation}),
        "distinct_hash_ids": len({each for r in requests if r.hash_ids for each in r.hash_ids}),
        "tenants": _counts(r.tenant for r in requests if r.tenant),
        "priorities": _counts(str(r.priority) for r in requests),
    }


def _spread(values: Iterable[int]) -> dict[str, float] | None:
    """Percentiles are numpy's linear ones."""
    numbers = np.fromiter(values, dtype=np.float64)
    if not len(numbers):
        return None
    percentiles = np.percentile(numbers, _PERCENTILES)
    return {
        "count": len(numbers),
        "sum": int(numbers.sum()),
        "min": int(numbers.min()),
        "mean": float(numbers.mean()),
        **{f"p{name}": float(value) for name, value in zip(_PERCENTILES, percentiles, strict=True)},
        "max": int(numbers.max()),
    }


def _arrivals(times: Sequence[float]) -> dict[str, float | None]:
    """`gap_cv` is the coefficient of variation of the gaps: 1 for Poisson, more for bursts, 0 for a steady beat."""
    gaps = np.diff(np.asarray(times))
    span = times[-1] - times[0]
    mean = float(gaps.mean()) if len(gaps) else 0.0
    return {
        "first_s": times[0],
        "last_s": times[-1],
        "requests_per_s": (len(times) - 1) / span if span else None,
        "gap_mean_s": mean if len(gaps) else None,
        "gap_cv": float(gaps.std() / mean) if mean else None,
        "gap_max_s": float(gaps.max()) if len(gaps) else None,
    }


def _counts(names: Iterable[str]) -> dict[str, int]:
    """The most frequent first, at most 20."""
    counts: dict[str, int] = {}
    for name in names:
        counts[name] = counts.get(name, 0) + 1
    ranked: Mapping[str, int] = dict(sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:20])
    return dict(ranked)

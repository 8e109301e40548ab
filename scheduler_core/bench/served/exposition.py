"""Reads Prometheus' text format as far as the gateway's own metrics need it: one number for each name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

_LINE = re.compile(r"^([A-Za-z_:][A-Za-z0-9_:]*)(?:\{[^}]*\})? ([^ ]+)$", re.MULTILINE)

#: Name -> value, summed over labels.
Metrics = Mapping[str, float]


def parse(text: str) -> Metrics:
    """Buckets are left out: their sums over labels say nothing."""
    values: dict[str, float] = {}
    for name, value in _LINE.findall(text):
        if not name.endswith("_bucket"):
            values[name] = values.get(name, 0.0) + float(value)
    return values


@dataclass(frozen=True, slots=True)
class Observed:
    """What a histogram took in: how often, and the mean in seconds (exact: the sum by the count)."""

    count: int
    mean_s: float | None


def observed(before: Metrics, after: Metrics, name: str) -> Observed:
    """Of the histogram `name` between two readings."""
    count = int(after[f"{name}_count"] - before[f"{name}_count"])
    total = after[f"{name}_sum"] - before[f"{name}_sum"]
    return Observed(count, total / count if count else None)

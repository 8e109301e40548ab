"""The knee of a sweep: the highest rate that a machine still serves well."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any

#: The share of requests that has to meet the targets (DistServe, OSDI'24, calls it attainment).
ATTAINMENT = 0.9

#: Without targets: how much longer than at the lowest rate half of the requests may take.
SLOWDOWN = 2.0

WITH_TARGETS = f"the highest rate up to which {ATTAINMENT:.0%} of the requests meet the targets"
WITHOUT_TARGETS = f"the highest rate up to which the median latency is at most {SLOWDOWN:g} times that of the lowest"


def knee(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """`rate` and the `rule` that found it, of runs in order of their rates; None if not even the first is served well.

    `is_highest` warns that the sweep ends before the machine gives in.
    """
    has_targets = any(run["request_goodput"] is not None for run in runs)
    served = [*takewhile(_attains if has_targets else _keeps_pace(runs[0]), runs)]
    return {
        "rate": served[-1]["request_rate"] if served else None,
        "rule": WITH_TARGETS if has_targets else WITHOUT_TARGETS,
        "is_highest": len(served) == len(runs),
    }


def _attains(run: Mapping[str, Any]) -> bool:
    sent = run["completed"] + run["failed"] + run["unfinished"]
    good = (run["request_goodput"] or 0.0) * run["duration"]
    return bool(sent) and good >= ATTAINMENT * sent - 1e-9


def _keeps_pace(first: Mapping[str, Any]) -> Any:
    usual = first["median_e2el_ms"]

    def keeps(run: Mapping[str, Any]) -> bool:
        latency = run["median_e2el_ms"]
        return usual is not None and latency is not None and latency <= SLOWDOWN * usual

    return keeps

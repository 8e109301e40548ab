"""Both clients and the gateway as JSON values, as a table, and as remarks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from rich.table import Table

from scheduler_core import codec
from scheduler_core.bench.client.compare import LIMIT, Agreement, agreements, between_clients, counts
from scheduler_core.bench.client.plan import ClientPlan
from scheduler_core.bench.client.race import Raced
from scheduler_core.bench.machine import MachineFacts

_RANKS = (50, 90, 99)


def document(plan: ClientPlan, raced: Raced, machine: MachineFacts, versions: Mapping[str, str]) -> dict[str, Any]:
    """`agrees` is False if two means differ by more than the limit, or two counts at all."""
    found, counted = agreements(raced), counts(raced)
    return {
        "benchmark": "client",
        "agrees": all(each.holds for each in found) and all(each.are_equal for each in counted),
        "limit": LIMIT,
        "machine": machine.as_plain(),
        "versions": dict(versions),
        "plan": codec.to_plain(plan),
        "agreements": [{**_plain(each), "holds": each.holds} for each in found],
        "between_clients": [_plain(each) for each in between_clients(raced)],
        "counts": [{**asdict(each), "are_equal": each.are_equal} for each in counted],
        "percentiles_ms": {
            name: {
                metric: {f"p{rank}": 1e3 * float(np.percentile(values, rank)) for rank in _RANKS}
                for metric, values in (("ttft", seen.client.ttfts), ("itl", seen.client.itls))
            }
            for name, seen in (("outside", raced.outside), ("ours", raced.ours))
        },
    }


def _plain(agreement: Agreement) -> dict[str, Any]:
    return {**asdict(agreement), "difference": agreement.difference}


def tables(figures: Mapping[str, Any]) -> list[Table]:
    return [_means(figures), _percentiles(figures)]


def _means(figures: Mapping[str, Any]) -> Table:
    shown = Table(title="Mean times of the same requests, in two views", title_justify="left")
    for heading in ("metric", "one view", "ms", "the other", "ms", "differs by", "holds"):
        shown.add_column(heading, justify="right" if heading in ("ms", "differs by") else "left")
    for each in figures["agreements"]:
        one, other = f"{1e3 * each['one_s']:.1f}", f"{1e3 * each['other_s']:.1f}"
        holds = "yes" if each["holds"] else "NO"
        shown.add_row(each["metric"], each["one"], one, each["other"], other, f"{each['difference']:+.1%}", holds)
    return shown


def _percentiles(figures: Mapping[str, Any]) -> Table:
    shown = Table(title="Percentiles as the clients see them, in ms (for information)", title_justify="left")
    shown.add_column("metric")
    for rank in _RANKS:
        for who in ("vLLM's", "ours"):
            shown.add_column(f"p{rank} {who}", justify="right")
    for metric in ("ttft", "itl"):
        cells = [
            f"{figures['percentiles_ms'][who][metric][f'p{rank}']:.1f}"
            for rank in _RANKS
            for who in ("outside", "ours")
        ]
        shown.add_row(metric.upper(), *cells)
    return shown


def remarks(figures: Mapping[str, Any], machine: MachineFacts) -> list[str]:
    """What was sent, and by whom."""
    plan = figures["plan"]
    between = " and ".join(f"{each['difference']:+.1%} in {each['metric']}" for each in figures["between_clients"])
    return [
        f"Each client sent {plan['requests']} streams of {plan['output_tokens']} tokens in each of {plan['rounds']} "
        f"rounds, Poisson at {plan['rate']:g} a second; ours at the times at which vLLM's did. "
        f"vLLM {figures['versions'].get('vllm', 'of an unknown version')}.",
        f"Means may differ by {figures['limit']:.0%}; the gateway's are exact, sum by count of its histograms.",
        f"Between the clients, which ran one after the other: {between}. That is also what the machine changed.",
        machine.text,
    ]


def failures(figures: Mapping[str, Any]) -> Sequence[str]:
    """A line for each pair of views that does not agree."""
    means = [
        f"failed: mean {each['metric']} of {each['one']} and {each['other']} differ by {each['difference']:+.1%}"
        for each in figures["agreements"]
        if not each["holds"]
    ]
    numbers = [
        f"failed: {each['who']} and /metrics count {name}: {each[name][0]} and {each[name][1]}"
        for each in figures["counts"]
        for name in ("requests", "gaps")
        if each[name][0] != each[name][1]
    ]
    return means + numbers

"""A soak as JSON values, as a table, and as remarks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rich.table import Table
from rich.text import Text

from scheduler_core import codec
from scheduler_core.bench.machine import MachineFacts
from scheduler_core.bench.soak.checks import Check
from scheduler_core.bench.soak.clients import ENDS
from scheduler_core.bench.soak.soak import Soaked
from scheduler_core.summary import summarise

_LATENCIES = ("mean_ttft_ms", "p99_ttft_ms", "mean_itl_ms", "p99_itl_ms", "mean_e2el_ms", "p99_e2el_ms")
_MOST_SAMPLES = 120
_WORDS = {True: "yes", False: "NO", None: "too short to tell"}


def document(soaked: Soaked, found: Sequence[Check], machine: MachineFacts) -> dict[str, Any]:
    """`passed` is False if any check failed."""
    streamed = [each.facts for each in soaked.run.sent if each.facts.num_output_tokens > 1]
    figures = summarise([each.facts for each in soaked.run.sent])
    samples = soaked.run.watched.memory
    return {
        "benchmark": "soak",
        "passed": passed(found),
        "machine": machine.as_plain(),
        "plan": codec.to_plain(soaked.plan),
        "settings": [*soaked.plan.settings],
        "environment": soaked.plan.environment,
        "faults": [codec.to_plain(fault) for fault in soaked.plan.faults],
        "happened": soaked.run.happened,
        "capacity": asdict(soaked.run.capacity),
        "load": {
            "rate": soaked.run.rate,
            "requests": len(soaked.run.sent),
            "seconds": figures["duration"],
            "ended_per_s": len(soaked.run.sent) / figures["duration"] if figures["duration"] else None,
            "output_tokens_per_s": sum(each.num_output_tokens for each in streamed) / figures["duration"],
            "latest_send_ms": 1e3 * max(each.late_s for each in soaked.run.sent),
            **{name: figures[name] for name in _LATENCIES},
            "longest_queue": soaked.run.watched.longest_queue,
            "fullest_kv": soaked.run.watched.fullest,
        },
        "clients": {"submitted": soaked.run.ledger.submitted, **{end: soaked.run.ledger.ends[end] for end in ENDS}},
        "lost": len(soaked.run.ledger.lost),
        "metrics": dict(sorted(soaked.run.metrics.items())),
        "memory": {
            **asdict(soaked.memory),
            "samples": [asdict(each) for each in samples[:: -(-len(samples) // _MOST_SAMPLES)]],
        },
        "texts": asdict(soaked.texts),
        "checks": [asdict(check) for check in found],
    }


def passed(found: Sequence[Check]) -> bool:
    return all(check.passed is not False for check in found)


def table(found: Sequence[Check]) -> Table:
    """A row a check."""
    shown = Table(title="What a soak has to show", title_justify="left")
    for heading in ("check", "holds", "found"):
        shown.add_column(heading)
    for check in found:
        shown.add_row(check.name, _WORDS[check.passed], Text(check.found))
    return shown


def remarks(figures: Mapping[str, Any], machine: MachineFacts) -> list[str]:
    """What was done, in sentences."""
    capacity, load, plan = figures["capacity"], figures["load"], figures["plan"]
    return [
        f"Capacity: {capacity['requests_per_s']:.2f} requests a second ({capacity['tokens_per_s']:.0f} output tokens) "
        f"ended under {capacity['clients']} clients in a closed loop in {capacity['seconds']:.0f} s, faults included.",
        f"Load: {load['requests']:,} requests, Poisson at {load['rate']:.2f} a second ({plan['load']:.0%} of the "
        f"capacity) for {plan['minutes']:g} minutes, open loop; {load['ended_per_s']:.2f} a second ended.",
        f"TTFT mean {load['mean_ttft_ms']:.0f} ms, p99 {load['p99_ttft_ms']:.0f}; longest queue seen "
        f"{load['longest_queue']:.0f}; at most {load['fullest_kv']:.0%} of the blocks in use.",
        machine.text,
    ]


def failures(found: Sequence[Check]) -> list[str]:
    """A line for each check that failed."""
    return [f"failed: {check.name}: {check.found}" for check in found if check.passed is False]

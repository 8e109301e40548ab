"""Fleets of several sizes as JSON values and as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rich.table import Table

from scheduler_core import codec
from scheduler_core.bench.fleet.plan import Plan
from scheduler_core.replicas.fleet_trace import FleetTrace

#: What is kept of a run's figures.
_KEPT = (
    "num_replicas",
    "router",
    "completed",
    "failed",
    "duration",
    "output_throughput",
    "prefix_hit_rate",
    "max_over_mean_load",
    "jain_load",
    "overflows",
    "moved",
    "moved_tokens",
    "moved_hit_tokens",
    "mean_ttft_ms",
    "p99_ttft_ms",
    "mean_itl_ms",
    "p99_itl_ms",
    "mean_e2el_ms",
    "p99_e2el_ms",
)


#: What a plan says of a restart, left out where none is asked for.
_OF_RESTARTS = ("restart_after", "start_seconds")


def run_figures(trace: FleetTrace) -> dict[str, Any]:
    """One run's row."""
    figures = trace.figures()
    comebacks = [each.comeback for each in trace.replicas if each.comeback is not None]
    return {
        **{name: figures[name] for name in _KEPT},
        "computed_tokens": sum(each.computed_tokens for each in trace.replicas),
        "decisions": len(trace.routed),
        "most_outstanding": max(each.most_outstanding for each in trace.replicas),
        **({"comebacks": [asdict(each) for each in comebacks]} if comebacks else {}),
    }


def document(plan: Plan, runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The same for the same plan, to the byte."""
    told = codec.to_plain(plan)
    if plan.restart_after is None:
        told = {name: value for name, value in told.items() if name not in _OF_RESTARTS}
    return {"benchmark": "fleet", "plan": told, "runs": [*runs]}


def table(figures: Mapping[str, Any]) -> Table:
    """A row a run."""
    shown = Table(title="The same load for each replica, by number of replicas and router", title_justify="left")
    shown.add_column("replicas", justify="right")
    shown.add_column("router")
    for name in ("hit rate", "max/mean", "Jain", "overflow", "TTFT mean", "TTFT p99", "E2E p99", "tokens/s", "moved"):
        shown.add_column(name, justify="right")
    for run in figures["runs"]:
        shown.add_row(
            f"{run['num_replicas']:,}",
            run["router"],
            _percent(run["prefix_hit_rate"]),
            _number(run["max_over_mean_load"]),
            _number(run["jain_load"]),
            _percent(run["overflows"] / run["decisions"]),
            _milliseconds(run["mean_ttft_ms"]),
            _milliseconds(run["p99_ttft_ms"]),
            _milliseconds(run["p99_e2el_ms"]),
            f"{run['output_throughput']:,.0f}",
            f"{run['moved']:,}",
        )
    return shown


def remarks(plan: Plan) -> list[str]:
    """What the columns mean."""
    told = [
        f"Each replica: {plan.requests} requests at {plan.rate:g} a second, {plan.groups} prefixes of "
        f"{plan.prefix_tokens:,} tokens, {plan.engine.num_blocks:,} KV blocks, {plan.engine.cost}; seed {plan.seed}.",
        "max/mean and Jain's index are over the tokens that replicas computed; killed ones are left out.",
        "overflow: decisions in which a prefix did not go to its home, as that was over the load bound.",
    ]
    if plan.kill_at is not None and plan.restart_after is not None:
        back = plan.kill_at + plan.restart_after + plan.start_seconds
        told.append(
            f"The last replica is killed at {plan.kill_at:g} s; a new process starts {plan.restart_after:g} s later, "
            f"loads the weights for {plan.start_seconds:g} s and is back at {back:g} s with an empty cache."
        )
    return told


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f} %"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _milliseconds(value: float | None) -> str:
    return "-" if value is None else f"{value:,.1f} ms"

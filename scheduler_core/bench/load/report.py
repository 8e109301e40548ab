"""The results of a load benchmark, for people and as JSON under the names of vLLM's `bench serve`."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.table import Table

from scheduler_core import codec
from scheduler_core.bench.load.knee import knee
from scheduler_core.bench.load.plan import Workload
from scheduler_core.big_run.big_run import BigResult
from scheduler_core.config import EngineConfig
from scheduler_core.cost_model import machine
from scheduler_core.request_facts import RequestFacts
from scheduler_core.summary import METRICS, RANKS, Targets

OVERVIEW_BUCKETS = 200

#: Heading -> key.
_SWEEP_LATENCIES = {
    "TTFT p50 ms": "median_ttft_ms",
    "TTFT p99 ms": "p99_ttft_ms",
    "ITL p99 ms": "p99_itl_ms",
    "E2E p50 ms": "median_e2el_ms",
}

_NAMES = {"ttft": "TTFT", "tpot": "TPOT", "itl": "ITL", "e2el": "E2E latency"}


def run_figures(result: BigResult, targets: Targets, rate: float | None, *, details: bool) -> dict[str, Any]:
    """One run: vLLM's keys, ours, and its course in buckets of equal time."""
    arrivals = [facts.arrival for facts in result.facts]
    span = arrivals[-1] - arrivals[0] if arrivals else 0.0
    return {
        "request_rate": rate if rate is not None else ((len(arrivals) - 1) / span if span else None),
        "num_prompts": result.num_requests,
        "is_complete": result.is_complete,
        **result.figures(targets),
        "max_concurrent_requests": max(result.series.levels["running"], default=0),
        "num_ticks": len(result.series),
        "overview": codec.to_plain(dataclasses.asdict(result.series.overview(OVERVIEW_BUCKETS))),
        **({"requests": [request_row(facts) for facts in result.facts]} if details else {}),
    }


def request_row(facts: RequestFacts) -> dict[str, Any]:
    """The facts of one request, its token times as gaps."""
    return {
        "id": facts.id,
        "tenant": facts.tenant,
        "arrival_s": facts.arrival,
        "input_tokens": facts.num_prompt_tokens,
        "cached_tokens": facts.num_cached_tokens,
        "output_tokens": facts.num_output_tokens,
        "reason": facts.reason.value if facts.reason else None,
        "ttft_s": facts.ttft_s,
        "tpot_s": facts.tpot_s,
        "e2el_s": facts.e2e_s,
        "preemptions": facts.num_preemptions,
    }


def document(
    workload: Workload, config: EngineConfig, targets: Targets, runs: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    """A single run's figures stand at the top, as in vLLM's file; those of a sweep under `runs`, with the knee."""
    return {
        "format": "tickscope-load-1",
        "backend": "simulation",
        "machine": config.cost,
        "machine_title": machine(config.cost).title,
        "clock": "virtual seconds of the cost model",
        "seed": workload.facts.get("seed", workload.facts.get("shape", {}).get("seed")),
        "source": workload.facts,
        "attribution": workload.attribution,
        "config": dataclasses.asdict(config),
        "targets": targets.given,
        **(runs[0] if len(runs) == 1 else {"knee": knee(runs), "runs": [*runs]}),
    }


def runs_of(figures: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """The runs of a document, one or several."""
    runs: Sequence[Mapping[str, Any]] = figures.get("runs", [figures])
    return runs


def tables(figures: Mapping[str, Any]) -> Iterator[Table]:
    """Latencies and tenants of a single run, or a line for each rate of a sweep."""
    runs = runs_of(figures)
    if len(runs) > 1:
        yield _sweep_table(runs, figures["knee"]["rate"])
        return
    yield _latency_table(runs[0])
    if len(runs[0]["fairness"]["tenants"]) > 1:
        yield _tenant_table(runs[0]["fairness"]["tenants"])


def _latency_table(run: Mapping[str, Any]) -> Table:
    table = _table("milliseconds", "mean", "std", *(f"p{rank}" for rank in RANKS), "samples")
    for metric in METRICS:
        keys = [f"{what}_{metric}_ms" for what in ("mean", "std", *(f"p{rank}" for rank in RANKS))]
        table.add_row(_NAMES[metric], *(_number(run[key]) for key in keys), f"{run['num_samples'][metric]:,}")
    return table


def _tenant_table(tenants: Mapping[str, Mapping[str, Any]]) -> Table:
    table = _table("tenant", "completed", "failed", "tokens", "TTFT p50 ms", "TTFT p99 ms", "tokens/s of latency")
    for name, each in tenants.items():
        table.add_row(
            name,
            f"{each['completed']:,}",
            f"{each['failed']:,}",
            f"{each['tokens']:,}",
            _number(each["median_ttft_ms"]),
            _number(each["p99_ttft_ms"]),
            _number(each["tokens_per_second_of_latency"]),
        )
    return table


def _sweep_table(runs: Sequence[Mapping[str, Any]], knee_rate: float | None) -> Table:
    table = _table("rate /s", "done", "failed", "req/s", "tok/s", "good/s", *_SWEEP_LATENCIES, "hits", "")
    for run in runs:
        table.add_row(
            f"{run['request_rate']:g}",
            f"{run['completed']:,}",
            f"{run['failed']:,}",
            _number(run["request_throughput"]),
            _number(run["output_throughput"]),
            _number(run["request_goodput"]),
            *(_number(run[key]) for key in _SWEEP_LATENCIES.values()),
            _share(run["prefix_hit_rate"]),
            "< knee" if run["request_rate"] == knee_rate else "",
        )
    return table


def _table(first: str, *others: str) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column(first)
    for heading in others:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def remarks(figures: Mapping[str, Any]) -> Iterator[str]:
    """In words: where it ran, what came of the requests, and what the figures do not say."""
    config = figures["config"]
    yield (
        f"{figures['machine_title']}, simulated: {config['max_num_seqs']} lanes, {config['max_num_batched_tokens']:,} "
        f"tokens a tick, {config['num_blocks']:,} blocks of {config['block_size']} tokens; times are virtual"
    )
    runs = runs_of(figures)
    if len(runs) > 1:
        yield _knee_words(figures["knee"])
    else:
        yield from _run_words(runs[0])
    if figures["attribution"]:
        yield f"data: {figures['attribution']}"
    yield f"seed {figures['seed']}"
    for run in runs:
        which = f"rate {run['request_rate']:g}: " if len(runs) > 1 else ""
        yield from (f"note: {which}{warning}" for warning in run["warnings"])


def _run_words(run: Mapping[str, Any]) -> Iterator[str]:
    others = "".join(f", {run[name]:,} {name}" for name in ("refused", "aborted", "unfinished") if run[name])
    yield (
        f"{run['num_prompts']:,} requests: {run['completed']:,} completed, {run['failed']:,} failed{others}; "
        f"{run['total_input_tokens']:,} tokens in, {run['total_output_tokens']:,} out; "
        f"{run['duration']:,.1f} s, {run['num_ticks']:,} ticks"
    )
    good = "" if run["request_goodput"] is None else f", of which good {run['request_goodput']:.3g}"
    yield (
        f"per second: {run['request_throughput']:.3g} requests{good}, {run['output_throughput']:,.0f} tokens out, "
        f"{run['total_token_throughput']:,.0f} in all"
    )
    fairness = run["fairness"]
    fair = f"; Jain's index over tenants' speed {fairness['jain_speed']:.3f}" if len(fairness["tenants"]) > 1 else ""
    yield (
        f"most running at once {run['max_concurrent_requests']:,}; preemptions {run['num_preemptions']:,}; "
        f"prefix hit rate {_share(run['prefix_hit_rate'])}{fair}"
    )


def _knee_words(found: Mapping[str, Any]) -> str:
    if found["rate"] is None:
        return f"knee: below the lowest rate; it is {found['rule']}"
    more = "; it is the highest rate here, so the knee may lie above" if found["is_highest"] else ""
    return f"knee: {found['rate']:g} requests per second, {found['rule']}{more}"


def _number(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:.4g}"


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.1%}"

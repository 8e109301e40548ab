"""The engine race's figures, worked out and as tables."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Iterator
from typing import Any

from rich.table import Table

from scheduler_core.bench.engine.race import ENTRIES
from scheduler_core.bench.machine import MachineFacts


def document(raw: dict[str, Any], machine: MachineFacts) -> dict[str, Any]:
    """The raw figures with medians and ratios; a ratio is a contender's time over ours."""
    for workload in raw["workloads"]:
        medians = {module: statistics.median(seconds) for module, seconds in workload["seconds"].items()}
        workload["median_seconds"] = medians
        workload["tokens_per_s"] = {module: workload["output_tokens"] / median for module, median in medians.items()}
        workload["ours_is_faster_by"] = {module: median / medians["ours"] for module, median in medians.items()}
    if first := raw["first_tokens"]:
        first["median_cold_s"] = statistics.median(first["cold"])
        first["median_warm_s"] = statistics.median(first["warm"])
        first["warm_over_cold"] = first["median_warm_s"] / first["median_cold_s"]
    return {"benchmark": "engine", "machine": dataclasses.asdict(machine), **raw}


def tables(figures: dict[str, Any]) -> Iterator[Table]:
    """For people."""
    for workload in figures["workloads"]:
        yield _workload_table(workload)
    yield _floor_table(figures["floor"])


def _workload_table(workload: dict[str, Any]) -> Table:
    result = Table(title=workload["title"], title_justify="left", box=None, header_style="bold", pad_edge=False)
    result.add_column("contender")
    for heading in ("seconds", "spread", "tokens/s", "ours is faster by", "texts as generate's"):
        result.add_column(heading, justify="right")
    for entry in ENTRIES:
        if entry.module in workload["seconds"]:
            result.add_row(entry.title, *_cells(workload, entry.module))
    return result


def _cells(workload: dict[str, Any], module: str) -> Iterator[str]:
    seconds = workload["seconds"][module]
    texts = workload["texts"].get(module)
    yield f"{workload['median_seconds'][module]:.2f}"
    yield f"{min(seconds):.2f} to {max(seconds):.2f}"
    yield f"{workload['tokens_per_s'][module]:.0f}"
    yield "" if module == "ours" else f"{workload['ours_is_faster_by'][module]:.2f}"
    yield "" if texts is None else f"{texts['equal']} of {texts['of']}"


def _floor_table(floor: dict[str, Any]) -> Table:
    title = "a tick beside the least that this machine needs for it"
    result = Table(title=title, title_justify="left", box=None, header_style="bold", pad_edge=False)
    for heading in ("requests", "tokens", "read weights", "compute", "our tick", "ratio"):
        result.add_column(heading, justify="right")
    for tick in floor["ticks"]:
        times = (f"{1e3 * tick[name]:.1f} ms" for name in ("read_s", "compute_s", "tick_s"))
        result.add_row(str(tick["requests"]), str(tick["tokens"]), *times, f"{tick['ratio']:.2f}")
    return result


def remarks(figures: dict[str, Any]) -> Iterator[str]:
    """What the tables do not say."""
    machine = figures["floor"]["machine"]
    yield (
        f"weights are read at {machine['copy_bytes_per_s'] / 1e9:.1f} GB/s (measured on a copy), computed at "
        f"{machine['matrix_flops_per_s'] / 1e9:.0f} GFLOP/s (measured on a large product)"
    )
    if first := figures["first_tokens"]:
        yield (
            f"first token behind the shared prompt: {1e3 * first['median_cold_s']:.0f} ms cold, "
            f"{1e3 * first['median_warm_s']:.0f} ms warm, {first['warm_over_cold']:.2f} of it"
        )
    for workload in figures["workloads"]:
        share = statistics.median(note["outside_model"] for note in workload["notes"])
        yield f"{workload['name']}: {100 * share:.1f} % of our run was spent outside the model"
        for module, texts in workload["texts"].items():
            if texts["margins"]:
                margins = ", ".join(f"{margin:.1e}" for margin in texts["margins"])
                yield f"{workload['name']}: {module} first differs where the best two scores are {margins} apart"
    versions = {name: number for each in figures["versions"].values() for name, number in each.items()}
    yield f"float32, {figures['threads']} threads, {figures['rounds']} turns each; " + ", ".join(
        f"{name} {number}" for name, number in sorted(versions.items())
    )

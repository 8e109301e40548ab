"""The figures of a scheduler race: medians, spread and ratios, as JSON values and as a table."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table

from scheduler_core.bench.machine import MachineFacts
from scheduler_core.bench.scheduler.load import WAITING, SchedulerLoad


def summarise(result: Mapping[str, Any], machine: MachineFacts, num_ticks: int) -> dict[str, Any]:
    """All figures as JSON values; `result` is what the race printed."""
    rows = [_row(times) for times in result["times"]]
    return {
        "benchmark": "scheduler",
        "unit": "microseconds per tick",
        "machine": machine.as_plain(),
        "versions": result["versions"],
        "sizes": _sizes(num_ticks),
        "includes": result["includes"],
        "rows": rows,
        "ours_over_vllm": _ratios(rows),
        "growth": _growth(rows),
        "same_decisions": result["same_decisions"],
    }


def _sizes(num_ticks: int) -> dict[str, Any]:
    sizes = dataclasses.asdict(SchedulerLoad("", 0))
    del sizes["name"]
    return sizes | {"waiting": list(WAITING), "ticks": num_ticks}


def _row(times: Mapping[str, Any]) -> dict[str, Any]:
    micros = sorted(second * 1e6 for second in times["seconds"])
    return {
        "load": times["load"],
        "waiting": times["waiting"],
        "contender": times["contender"],
        "median": round(statistics.median(micros), 1),
        "mean": round(statistics.fmean(micros), 1),
        "p10": round(_quantile(micros, 0.1), 1),
        "p90": round(_quantile(micros, 0.9), 1),
    }


def _quantile(ordered: Sequence[float], share: float) -> float:
    return ordered[round(share * (len(ordered) - 1))]


def _ratios(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Our median over vLLM's, by load and length of the queue."""
    medians = {(row["load"], row["waiting"], row["contender"]): row["median"] for row in rows}
    return [
        {"load": load, "waiting": waiting, "ratio": round(medians[load, waiting, "ours"] / median, 3)}
        for (load, waiting, contender), median in medians.items()
        if contender == "vllm"
    ]


def _growth(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The median with the longest queue over that with the shortest, by load and contender."""
    medians = {(row["load"], row["contender"], row["waiting"]): row["median"] for row in rows}
    few, many = min(WAITING), max(WAITING)
    return [
        {"load": load, "contender": contender, "ratio": round(medians[load, contender, many] / median, 3)}
        for (load, contender, waiting), median in medians.items()
        if waiting == few
    ]


def table(figures: Mapping[str, Any]) -> Table:
    """For people: a row per load and contender, both lengths of the queue side by side."""
    result = Table(box=None, header_style="bold", pad_edge=False)
    result.add_column("load")
    result.add_column("scheduler")
    for waiting in WAITING:
        result.add_column(f"{waiting:,} waiting", justify="right")
        result.add_column("p10 to p90", justify="right", style="dim")
        result.add_column("of vLLM's", justify="right")
    result.add_column(f"{max(WAITING):,} / {min(WAITING):,}", justify="right")
    rows = {(row["load"], row["contender"], row["waiting"]): row for row in figures["rows"]}
    ratios = {(ratio["load"], ratio["waiting"]): ratio["ratio"] for ratio in figures["ours_over_vllm"]}
    for growth in figures["growth"]:
        load, contender = growth["load"], growth["contender"]
        cells = []
        for waiting in WAITING:
            row = rows[load, contender, waiting]
            ratio = ratios.get((load, waiting)) if contender == "ours" else None
            cells += [f"{row['median']:,.0f} µs", f"{row['p10']:,.0f} to {row['p90']:,.0f}", _times(ratio)]
        result.add_row(load, contender, *cells, _times(growth["ratio"]))
    return result


def remarks(figures: Mapping[str, Any], machine: MachineFacts) -> list[str]:
    """What the table means and where it was measured."""
    same = {
        None: "",
        True: "Both decided the same in every tick. ",
        False: "They decided differently, so that their times do not compare. ",
    }
    versions = ", ".join(f"{name} {version}" for name, version in figures["versions"].items())
    return [
        f"Medians of {figures['sizes']['ticks']} ticks. {same[figures['same_decisions']]}A time covers:",
        *(f"  {contender}: {text}" for contender, text in figures["includes"].items()),
        f"{machine.text}; measured with {versions}",
    ]


def _times(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:.2f}x"

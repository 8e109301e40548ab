"""The figures of swap against recompute: medians, crossovers and what they depend on, as JSON values and as tables."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.table import Table

from scheduler_core.bench.machine import MachineFacts
from scheduler_core.bench.swap.crossover import Crossover, Point
from scheduler_core.bench.swap.measure import COMPANY, Samples
from scheduler_core.bench.swap.modelled import crossovers
from scheduler_core.bench.tick_shape import BLOCK_SIZE
from scheduler_core.trace import Backend

WAYS = ("alone", "in_company")


def document(
    results: Sequence[Samples], backend: Backend, machine: MachineFacts, versions: Mapping[str, str]
) -> dict[str, Any]:
    """All figures as JSON values."""
    rows = [_row(samples, backend.kv_bytes_per_token) for samples in results]
    return {
        "benchmark": "swap",
        "machine": machine.as_plain(),
        "versions": {"python": machine.python, **versions},
        "model": {"name": backend.model, "dtype": backend.dtype, "device": backend.device},
        "company": COMPANY.title,
        "block_size": BLOCK_SIZE,
        "rows": rows,
        "crossover": {way: _crossover(rows, way).as_plain() for way in WAYS},
        "depends_on": _depends_on(rows[-1], backend.kv_bytes_per_token),
        "modelled": list(crossovers()),
    }


def _row(samples: Samples, bytes_a_token: int) -> dict[str, Any]:
    swap = [out + back for out, back in zip(samples.copy_out, samples.copy_in, strict=True)]
    return {
        "tokens": samples.tokens,
        "bytes": samples.tokens * bytes_a_token,
        "turns": len(swap),
        "copy_out_s": statistics.median(samples.copy_out),
        "copy_in_s": statistics.median(samples.copy_in),
        **_middle_and_range("swap", swap),
        **_middle_and_range("recompute_alone", samples.alone),
        **_middle_and_range("recompute_in_company", samples.growth),
    }


def _middle_and_range(name: str, seconds: Sequence[float]) -> dict[str, Any]:
    return {f"{name}_s": statistics.median(seconds), f"{name}_range_s": [min(seconds), max(seconds)]}


def _crossover(rows: Sequence[Mapping[str, Any]], way: str) -> Crossover:
    return Crossover.of([Point(row["tokens"], row["swap_s"], row[f"recompute_{way}_s"]) for row in rows])


def _depends_on(row: Mapping[str, Any], bytes_a_token: int) -> dict[str, Any]:
    """What a token costs in each way, taken from the longest length; it is copied twice.

    Copies of `equal_at_bytes_per_s` would make both ways cost the same in company.
    """
    return {
        "at_tokens": row["tokens"],
        "kv_bytes_per_token": bytes_a_token,
        "copied_bytes_per_s": 2 * row["bytes"] / row["swap_s"],
        "equal_at_bytes_per_s": 2 * row["bytes"] / row["recompute_in_company_s"],
        "recomputed_tokens_per_s_alone": row["tokens"] / row["recompute_alone_s"],
        "recomputed_tokens_per_s_in_company": row["tokens"] / row["recompute_in_company_s"],
    }


def tables(figures: Mapping[str, Any]) -> Iterator[Table]:
    """For people: what was measured, then what the cost model says of other machines."""
    yield _measured(figures["rows"])
    yield _modelled(figures["modelled"])


def _measured(rows: Sequence[Mapping[str, Any]]) -> Table:
    title = "coming back from a preemption, on this machine"
    result = Table(title=title, title_justify="left", box=None, header_style="bold", pad_edge=False)
    for heading in ("tokens", "copy out", "copy in", "swap", "recompute alone", "in company", "of swap's"):
        result.add_column(heading, justify="right")
    for row in rows:
        names = ("copy_out_s", "copy_in_s", "swap_s", "recompute_alone_s", "recompute_in_company_s")
        times = row["recompute_in_company_s"] / row["swap_s"]
        result.add_row(f"{row['tokens']:,}", *(_millis(row[name]) for name in names), f"{times:.1f}x")
    return result


def _modelled(rows: Sequence[Mapping[str, Any]]) -> Table:
    title = "by the cost model, in the same company"
    result = Table(title=title, title_justify="left", box=None, header_style="bold", pad_edge=False)
    result.add_column("machine")
    result.add_column("bus to the host", justify="right")
    result.add_column("crossover")
    for row in rows:
        title = row["title"] if row["is_its_own_bus"] else ""
        result.add_row(title, f"{row['host_bandwidth'] / 1e9:.3g} GB/s", row["text"])
    return result


def remarks(figures: Mapping[str, Any], machine: MachineFacts) -> Iterator[str]:
    """The crossover in words, what the figures mean and where they were measured."""
    on = figures["depends_on"]
    company = on["recomputed_tokens_per_s_in_company"]
    for way in WAYS:
        yield f"crossover, recompute {way.replace('_', ' ')}: {figures['crossover'][way]['text']}"
    yield (
        f"at {on['at_tokens']:,} tokens: {on['kv_bytes_per_token'] / 1024:.0f} KiB of KV a token, copied out and in at "
        f"{on['copied_bytes_per_s'] / 1e9:.1f} GB/s: {2e6 * on['kv_bytes_per_token'] / on['copied_bytes_per_s']:.0f} µs"
        f"; computed again in company at {company:.0f} tokens/s: {1e6 / company:.0f} µs; "
        f"both would cost the same with copies at {on['equal_at_bytes_per_s'] / 1e9:.2f} GB/s"
    )
    yield (
        "swap: whole blocks out and in again; alone: one tick with these tokens only; in company: by how much a tick "
        f"of {figures['company']} grows with them; the prefix cache has none of them"
    )
    versions = ", ".join(f"{name} {number}" for name, number in figures["versions"].items() if name != "python")
    yield f"{figures['model']['name']}, {figures['model']['dtype']}, medians; {machine.text}; {versions}"


def _millis(seconds: float) -> str:
    return f"{1e3 * seconds:,.1f} ms"

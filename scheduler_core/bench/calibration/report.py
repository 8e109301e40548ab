"""The fitted machine beside the one in use, tick by tick, as JSON values and as tables."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.table import Table

from scheduler_core.backends.base import ModelRunner
from scheduler_core.bench.calibration.fit import fit
from scheduler_core.bench.calibration.measure import Measured
from scheduler_core.bench.calibration.unseen import Unseen
from scheduler_core.bench.machine import MachineFacts
from scheduler_core.bench.tick_shape import BLOCK_SIZE, TickShape
from scheduler_core.cost_model import Machine, Work, machine, tick_seconds
from scheduler_core.errors import BenchError
from scheduler_core.output import SchedulerOutput

_KINDS = ("ticks that read a prompt", "ticks of decodes alone")
IN_USE = machine("smollm2-cpu")
_FITTED = ("peak_flops", "memory_bandwidth", "host_bandwidth", "overhead_s")


def check_model(runner: ModelRunner) -> None:
    """Raises `BenchError` for a model that is not the machine's: its ticks would say nothing of it."""
    backend, model = runner.backend, IN_USE.model
    if backend.kv_bytes_per_token != model.kv_bytes_per_token:
        raise BenchError(
            f"{backend.model} keeps {backend.kv_bytes_per_token} bytes of KV a token and {model.name}, which the cost "
            f"model describes, {model.kv_bytes_per_token}: unset TICKSCOPE_MODEL"
        )


def document(
    measured: Measured,
    facts: MachineFacts,
    versions: Mapping[str, str],
    unseen: Unseen | None = None,
    *,
    fastest: bool = False,
) -> dict[str, Any]:
    """All figures as JSON values, from the medians of the rounds, or from the `fastest`."""
    rounds = len(measured.ticks[0][1])
    if fastest:
        measured, unseen = measured.fastest(), unseen.fastest() if unseen else None
    fitted = fitted_machine(measured)
    rows = [_row(shape, seconds, fitted) for shape, seconds in measured.ticks]
    return {
        "benchmark": "calibration",
        "machine": facts.as_plain(),
        "versions": {"python": facts.python, **versions},
        "rounds": rounds,
        "taken": "fastest" if fastest else "median",
        "rows": rows,
        "copies": [_copy_row(blocks, seconds, fitted) for blocks, seconds in measured.copies.items()],
        "unseen": None if unseen is None else _unseen(unseen, fitted),
        "name": fitted.name,
        "fitted": {"constants": _constants(fitted), "errors": _errors(rows, "error")},
        "in_use": {"constants": _constants(IN_USE), "errors": _errors(rows, "error_in_use")},
    }


def _unseen(unseen: Unseen, fitted: Machine) -> dict[str, Any]:
    """What the fitted machine says of ticks that it was not fitted to, beside what they took."""
    rows = [_unseen_row(output, seconds, fitted) for output, seconds in unseen.ticks]
    kinds = {kind: [row for row in rows if row["kind"] == kind] for kind in _KINDS}
    return {
        "requests": unseen.requests,
        "seed": unseen.seed,
        "ticks": len(rows),
        "median_error": statistics.median(abs(row["error"]) for row in rows),
        "by_kind": {
            kind: {"ticks": len(found), "median_error": statistics.median(abs(row["error"]) for row in found)}
            for kind, found in kinds.items()
            if found
        },
        "rows": rows,
    }


def _unseen_row(output: SchedulerOutput, seconds: Sequence[float], fitted: Machine) -> dict[str, Any]:
    middle, predicted = statistics.median(seconds), tick_seconds(output, fitted, BLOCK_SIZE)
    reads = any(not item.is_decode for item in output.scheduled)
    return {
        "tick": output.tick,
        "kind": _KINDS[0] if reads else _KINDS[1],
        "tokens": output.num_scheduled_tokens,
        "measured_s": middle,
        "predicted_s": predicted,
        "error": predicted / middle - 1.0,
    }


def fitted_machine(measured: Measured) -> Machine:
    """The machine in use, with the constants that miss the medians least."""
    works = [Work.of(shape.output) for shape, _ in measured.ticks]
    roofline = fit(works, IN_USE.model, measured.medians)
    rates = [_bytes_copied(blocks) / statistics.median(seconds) for blocks, seconds in measured.copies.items()]
    return dataclasses.replace(IN_USE, host_bandwidth=statistics.median(rates), **dataclasses.asdict(roofline))


def _bytes_copied(blocks: int) -> int:
    """Out and in again."""
    return 2 * blocks * BLOCK_SIZE * IN_USE.model.kv_bytes_per_token


def _row(shape: TickShape, seconds: Sequence[float], fitted: Machine) -> dict[str, Any]:
    work, output, middle = Work.of(shape.output), shape.output, statistics.median(seconds)
    flops, moved = work.flops(fitted.model), work.bytes(fitted.model)
    predicted = tick_seconds(output, fitted, BLOCK_SIZE)
    return {
        "tick": shape.title,
        "tokens": work.tokens,
        "flops": flops,
        "bytes": moved,
        "measured_s": middle,
        "range_s": [min(seconds), max(seconds)],
        "predicted_s": predicted,
        "error": predicted / middle - 1.0,
        "error_in_use": tick_seconds(output, IN_USE, BLOCK_SIZE) / middle - 1.0,
        "bound_by": "compute" if flops / fitted.peak_flops > moved / fitted.memory_bandwidth else "memory",
    }


def _copy_row(blocks: int, seconds: Sequence[float], fitted: Machine) -> dict[str, Any]:
    middle, moved = statistics.median(seconds), _bytes_copied(blocks)
    predicted = moved / fitted.host_bandwidth
    return {
        "blocks": blocks,
        "bytes": moved,
        "measured_s": middle,
        "range_s": [min(seconds), max(seconds)],
        "predicted_s": predicted,
        "error": predicted / middle - 1.0,
    }


def _constants(of: Machine) -> dict[str, float]:
    return {name: getattr(of, name) for name in _FITTED}


def _errors(rows: Sequence[Mapping[str, Any]], name: str) -> dict[str, Any]:
    """The middle and the largest relative error, whatever their sign."""
    worst = max(rows, key=lambda row: abs(row[name]))
    return {
        "median": statistics.median(abs(row[name]) for row in rows),
        "largest": abs(worst[name]),
        "largest_at": worst["tick"],
    }


def tables(figures: Mapping[str, Any]) -> Iterator[Table]:
    """For people: ticks, copies, and the constants."""
    yield _tick_table(figures["rows"])
    yield _copy_table(figures["copies"])
    if figures["unseen"]:
        yield _unseen_table(figures["unseen"])
    yield _constant_table(figures)


def _tick_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    result = _table("a tick's parts", "measured", "predicted", "error", "bound by", "error of those in use")
    for row in rows:
        result.add_row(row["tick"], *_times(row), row["bound_by"], f"{100 * row['error_in_use']:+.0f} %")
    return result


def _copy_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    result = _table("blocks copied out and in", "measured", "predicted", "error")
    for row in rows:
        result.add_row(str(row["blocks"]), *_times(row))
    return result


def _unseen_table(unseen: Mapping[str, Any]) -> Table:
    result = _table(f"an unseen workload of {unseen['requests']} requests", "ticks", "median error")
    for kind, part in unseen["by_kind"].items():
        result.add_row(kind, str(part["ticks"]), f"{100 * part['median_error']:.1f} %")
    result.add_row("all ticks", str(unseen["ticks"]), f"{100 * unseen['median_error']:.1f} %")
    return result


def _constant_table(figures: Mapping[str, Any]) -> Table:
    result = _table(f"{figures['name']}: constants", *_FITTED, "median error", "largest")
    for title, part in (("fitted", figures["fitted"]), ("in use", figures["in_use"])):
        errors = part["errors"]
        shares = (f"{100 * errors[name]:.0f} %" for name in ("median", "largest"))
        result.add_row(title, *(f"{part['constants'][name]:.3g}" for name in _FITTED), *shares)
    return result


def _table(first: str, *others: str) -> Table:
    result = Table(box=None, header_style="bold", pad_edge=False)
    result.add_column(first)
    for heading in others:
        result.add_column(heading, justify="right")
    return result


def _times(row: Mapping[str, Any]) -> Iterator[str]:
    yield f"{1e3 * row['measured_s']:.1f} ms"
    yield f"{1e3 * row['predicted_s']:.1f} ms"
    yield f"{100 * row['error']:+.1f} %"


def remarks(figures: Mapping[str, Any], facts: MachineFacts) -> Iterator[str]:
    """What to do with the constants, and where they were measured."""
    errors = figures["fitted"]["errors"]
    yield f"the largest error of the fit, {100 * errors['largest']:.0f} %, is that of {errors['largest_at']}"
    yield "nothing was changed; the constants in use stand in scheduler_core/cost_model.py"
    versions = ", ".join(f"{name} {number}" for name, number in figures["versions"].items() if name != "python")
    yield f"the {figures['taken']} of {figures['rounds']} rounds; {facts.text}; {versions}"

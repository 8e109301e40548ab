"""What a file holds, as JSON values and in words."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

from scheduler_core.sources.record import SourceReport
from scheduler_core.sources.shape import ShapeReport


def source_as_plain(report: SourceReport) -> dict[str, Any]:
    """All of a report as JSON values."""
    return dataclasses.asdict(report)


def source_remarks(report: SourceReport) -> Iterator[str]:
    """Whose data it is, and what was left out or assumed: for the screen."""
    yield f"{report.name}: {report.title}; {report.attribution.text}"
    if report.num_bad:
        listed = len(report.bad_rows)
        which = "" if listed == report.num_bad else f", the first {listed}"
        yield f"{report.num_bad:,} of {report.num_rows:,} rows were left out{which}:"
        for bad in report.bad_rows:
            yield f"  line {bad.line:,} {bad.reason}"
    if report.out_of_order:
        yield f"{report.out_of_order:,} requests stood after later ones; they were put in order of arrival"
    if not report.has_times:
        yield "the file tells no times: one request a second is assumed, first turns first"
    if report.unused_columns:
        yield f"not used: {_listed(report.unused_columns)}"


def _listed(names: Sequence[str]) -> str:
    text = ", ".join(ascii(name)[1:-1][:40] for name in names[:12])
    return text if len(names) <= 12 else f"{text} and {len(names) - 12} more"


def shape_remarks(report: ShapeReport) -> Iterator[str]:
    """What shaping changed, with the seed."""
    how = report.shape
    changes = [
        f"{count:,} {what}"
        for count, what in (
            (report.outside_window, "outside the window"),
            (report.not_sampled, "not drawn into the sample"),
            (report.after_first, f"after the first {how.first}"),
        )
        if count
    ]
    if changes:
        yield f"requests left out: {', '.join(changes)}"
    if how.scale != 1 or how.stretch != 1:
        yield f"lengths divided by {how.scale:g}, times multiplied by {how.stretch:g}"
    if report.tokens_per_id:
        yield f"each hash id becomes {report.tokens_per_id} tokens"
    if report.cut_prompts or report.cut_outputs:
        yield f"cut at the longest allowed: {report.cut_prompts:,} prompts, {report.cut_outputs:,} outputs"
    if report.assumed_outputs:
        yield f"outputs of unknown length, taken as {how.output_tokens} tokens: {report.assumed_outputs:,}"
    yield f"seed {how.seed}"

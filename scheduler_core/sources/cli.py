"""The command `workload`: a look at a workload file, as it is or as it would be shaped."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from scheduler_core import terminal


def workload(
    file: Annotated[Path, typer.Argument(help="A trace or workload: CSV or JSON lines, also gzipped.")],
    first: Annotated[int | None, typer.Option(help="Keep only so many requests.")] = None,
    sample: Annotated[float, typer.Option(help="Keep this share of the requests, drawn by the seed.")] = 1.0,
    start: Annotated[float, typer.Option(help="Leave out what arrives before, in seconds of the file.")] = 0.0,
    end: Annotated[float | None, typer.Option(help="Leave out what arrives then or later.")] = None,
    scale: Annotated[float, typer.Option(help="Divide lengths by this; 32 makes blocks of 512 tokens ours of 16.")] = 1,
    stretch: Annotated[float, typer.Option(help="Multiply times by this.")] = 1.0,
    max_prompt: Annotated[int | None, typer.Option(help="Cut prompts at so many tokens.")] = None,
    max_output: Annotated[int | None, typer.Option(help="Cut outputs at so many tokens.")] = None,
    output: Annotated[int, typer.Option(help="Tokens of an output where the file does not tell.")] = 128,
    seed: Annotated[int, typer.Option(help="Draws the sample, and the tokens that the file does not tell.")] = 0,
    json_: terminal.JsonOption = None,
) -> None:
    """Read a workload file and show what is in it: kind, origin, bad rows, lengths, arrivals."""
    from scheduler_core.sources.report import shape_remarks, source_as_plain, source_remarks
    from scheduler_core.sources.shape import Shape, shape
    from scheduler_core.sources.source import read_source
    from scheduler_core.sources.summary import summarise

    how = Shape(seed, start, end, sample, first, scale, stretch, max_prompt, max_output, output)
    with terminal.remark_console().status("reading"):
        shaped = shape(read_source(file), how)
        figures = summarise(shaped)
    if json_ is not None:
        document = {
            "source": source_as_plain(shaped.source),
            "shape": dataclasses.asdict(shaped.report),
            "summary": figures,
        }
        if json_ == "-":
            print(json.dumps(document))
            return
        terminal.write_file(Path(json_), (json.dumps(document, indent=1) + "\n").encode())
    console = terminal.result_console()
    console.print(_table(figures))
    console.print()
    for line in (*_words(figures), *shape_remarks(shaped.report), *source_remarks(shaped.source)):
        console.print(line, style="dim", markup=False, highlight=False)


def _table(figures: dict[str, Any]) -> Table:
    result = Table(title="lengths of a request", title_justify="left", box=None, header_style="bold", pad_edge=False)
    result.add_column("")
    for heading in ("requests", "sum", "min", "mean", "p50", "p90", "p99", "max"):
        result.add_column(heading, justify="right")
    for name in ("prompt_tokens", "prompt_characters", "output_tokens"):
        spread = figures[name]
        if spread is not None:
            cells = (spread[key] for key in ("count", "sum", "min", "mean", "p50", "p90", "p99", "max"))
            result.add_row(name.replace("_", " "), *(f"{cell:,.0f}" for cell in cells))
    return result


def _words(figures: dict[str, Any]) -> Iterator[str]:
    arrivals = figures["arrivals"]
    rate, variation = arrivals["requests_per_s"], arrivals["gap_cv"]
    pace = "" if rate is None else f", {rate:.3g} a second"
    burst = "" if variation is None else f"; gaps vary by {variation:.2g} times their mean (1 = Poisson)"
    yield f"{figures['requests']:,} requests over {arrivals['last_s'] - arrivals['first_s']:,.1f} s{pace}{burst}"
    for name, what in (("conversations", "conversations"), ("distinct_hash_ids", "different blocks")):
        if figures[name]:
            yield f"{figures[name]:,} {what}"
    for name, what in (("tenants", "tenant"), ("priorities", "priority")):
        if len(figures[name]) > 1:
            yield f"requests by {what}: " + ", ".join(f"{key} {count:,}" for key, count in figures[name].items())

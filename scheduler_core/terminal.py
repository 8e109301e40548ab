"""What the commands share: results go to stdout, remarks and progress to stderr, figures to files."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from scheduler_core.errors import TickscopeError

JsonOption = Annotated[str | None, typer.Option("--json", metavar="FILE|-", help="Write the figures as JSON.")]


def result_console() -> Console:
    """For results; wide where nobody looks on, so that tables reach files whole."""
    return Console() if sys.stdout.isatty() else Console(width=140)


def remark_console() -> Console:
    return Console(stderr=True)


def write_file(path: Path, data: bytes) -> None:
    """Raises `TickscopeError` where that is not possible."""
    try:
        path.write_bytes(data)
    except OSError as problem:
        raise TickscopeError(f"cannot write {path}: {problem.strerror or problem}") from None


def tell(figures: Mapping[str, Any], json_: str | None, tables: Iterable[Table], lines: Iterable[str]) -> None:
    """JSON alone for "-"; else tables and remarks for people, and JSON in the file if one is named."""
    if json_ == "-":
        print(json.dumps(figures))
        return
    if json_ is not None:
        write_file(Path(json_), (json.dumps(figures, indent=1) + "\n").encode())
    console = result_console()
    for table in tables:
        console.print(table)
        console.print()
    for line in lines:
        console.print(line, style="dim", markup=False, highlight=False)

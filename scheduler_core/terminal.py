"""What the commands share: results go to stdout, remarks and progress to stderr, figures to files."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

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

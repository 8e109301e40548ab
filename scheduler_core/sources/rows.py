"""Rows of a CSV or JSON lines file as values by column name, whatever the columns mean."""

from __future__ import annotations

import csv
import json
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from scheduler_core.errors import WorkloadError
from scheduler_core.sources.limits import Limits
from scheduler_core.sources.lines import Line
from scheduler_core.sources.values import Values, shown

_DELIMITERS = ",;\t"


@dataclass(frozen=True, slots=True)
class Row:
    """The values of a row by lower-case name; `problem` says why there are none."""

    line: int
    values: Values
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Header:
    """The columns of a CSV file, as written."""

    names: tuple[str, ...]
    delimiter: str

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(name.lower() for name in self.names)


def parse_header(line: Line, limits: Limits) -> Header:
    """The first line of a CSV file; raises `WorkloadError`."""
    if line.problem:
        raise WorkloadError(f"its first line {line.problem}")
    delimiter = max(_DELIMITERS, key=line.text.count)
    cells = _cells(line.text, delimiter)
    if isinstance(cells, str):
        raise WorkloadError(f"its first line, which should name the columns, {cells}")
    names = tuple(cell.strip() for cell in cells)
    if len(names) > limits.max_columns:
        raise WorkloadError(f"it has {len(names):,} columns; at most {limits.max_columns} are taken: leave some out")
    keys = [name.lower() for name in names]
    if repeated := next((name for name, key in zip(names, keys, strict=True) if keys.count(key) > 1), None):
        raise WorkloadError(f"the column {shown(repeated)} stands twice in its first line; rename or remove one")
    return Header(names, delimiter)


def table_rows(lines: Iterator[Line], header: Header, limits: Limits, *, has_text: bool) -> Iterator[Row]:
    """Rows below the header; only in a file with text may a quoted value go over several lines."""
    keys = header.keys
    for line in _joined(lines, limits) if has_text else lines:
        if line.problem:
            yield Row(line.number, {}, line.problem)
            continue
        cells = _cells(line.text, header.delimiter)
        if isinstance(cells, str):
            yield Row(line.number, {}, cells)
        elif len(cells) != len(keys):
            problem = f"has {len(cells)} values; there are {len(keys)} columns"
            yield Row(line.number, {}, problem + _end_hint(line))
        else:
            yield Row(line.number, dict(zip(keys, cells, strict=True)))


def object_rows(lines: Iterator[Line]) -> Iterator[Row]:
    """One JSON object a line."""
    for line in lines:
        yield Row(line.number, {}, line.problem) if line.problem else _object_row(line)


def _object_row(line: Line) -> Row:
    try:
        value = json.loads(line.text, object_pairs_hook=_unique, parse_constant=_refuse_constant)
    except json.JSONDecodeError as problem:
        return Row(line.number, {}, f"is not valid JSON ({problem.msg} at position {problem.pos})" + _end_hint(line))
    except RecursionError:
        return Row(line.number, {}, "is nested too deeply")
    except ValueError as problem:
        return Row(line.number, {}, str(problem))
    if not isinstance(value, dict):
        return Row(line.number, {}, f"is {shown(value)}; it must be a JSON object such as {{...}}")
    return Row(line.number, value)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = {key.lower(): value for key, value in pairs}
    if len(result) < len(pairs):
        keys = [key.lower() for key, _ in pairs]
        repeated = next(key for key in result if keys.count(key) > 1)
        raise ValueError(f"has the name {shown(repeated)} twice")
    return result


def _refuse_constant(name: str) -> None:
    raise ValueError(f"holds {name}, which is not a number")


def _end_hint(line: Line) -> str:
    return "; the file seems to end in the middle of this row" if line.is_cut else ""


def _cells(text: str, delimiter: str) -> list[str] | str:
    """The values of one row, or what is wrong with it."""
    try:
        rows = list(csv.reader([text], delimiter=delimiter, strict=True))
    except csv.Error as problem:
        return f"is not valid CSV ({problem})"
    return rows[0] if rows else []


def _joined(lines: Iterator[Line], limits: Limits) -> Iterator[Line]:
    """Lines put together where a quoted value goes on; a quote that is never closed costs its own line only."""
    ahead: deque[Line] = deque()
    while (line := ahead.popleft() if ahead else next(lines, None)) is not None:
        if line.problem or line.text.count('"') % 2 == 0:
            yield line
            continue
        taken, is_closed = _take_quoted(line, ahead, lines, limits)
        if is_closed:
            text = "\n".join((line.text, *(more.text for more in taken)))
            yield Line(line.number, text, is_cut=taken[-1].is_cut)
        else:
            ahead.extendleft(reversed(taken))
            yield Line(line.number, "", "opens a quote that is not closed")


def _take_quoted(line: Line, ahead: deque[Line], lines: Iterator[Line], limits: Limits) -> tuple[list[Line], bool]:
    taken: list[Line] = []
    size = len(line.text)
    while len(taken) < limits.max_lines_of_row and size <= limits.max_line_bytes:
        more = ahead.popleft() if ahead else next(lines, None)
        if more is None:
            break
        taken.append(more)
        size += len(more.text)
        if more.problem:
            break
        if more.text.count('"') % 2:
            return taken, True
    return taken, False

"""Reads a workload file of any known kind, row by row: a bad row is told and left out, the rest is kept."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from scheduler_core.errors import WorkloadError
from scheduler_core.sources.block_size import fits, infer_block_size, misfit
from scheduler_core.sources.formats import Draft, Format, Mooncake, Plain, known_columns, recognise
from scheduler_core.sources.limits import Limits
from scheduler_core.sources.lines import Line, check_bytes, read_lines
from scheduler_core.sources.record import BadRow, Source, SourceReport, SourceRequest
from scheduler_core.sources.rows import Row, object_rows, parse_header, table_rows
from scheduler_core.sources.values import NANOSECONDS, RowError, shown

#: So many rows may be broken before the first that shows what kind of file it is.
_ROWS_TO_RECOGNISE = 100


def read_source(file: str | Path | BinaryIO, limits: Limits | None = None, name: str = "") -> Source:
    """Read a path, or a binary file that can be rewound; raises `WorkloadError` if nothing in it can be used."""
    limits = limits or Limits()
    if isinstance(file, str | Path):
        return _read_path(Path(file), limits)
    name = _printable(name) or "the file"
    try:
        size = file.seek(0, 2)
        file.seek(0)
        check_bytes(size, limits)
        return _Reader(name, limits).read(file)
    except OSError as problem:
        raise WorkloadError(f"cannot read {name}: {problem.strerror or problem}") from None
    except WorkloadError as problem:
        raise WorkloadError(f"{name}: {problem}") from None


def _read_path(path: Path, limits: Limits) -> Source:
    try:
        if path.exists() and not path.is_file():
            raise WorkloadError(f"{path} is not a file")
        with path.open("rb") as file:
            return read_source(file, limits, path.name)
    except (OSError, ValueError) as problem:
        raise WorkloadError(f"cannot read {path}: {getattr(problem, 'strerror', None) or problem}") from None


def _printable(name: str) -> str:
    return "".join(character if character.isprintable() else "?" for character in name[:100])


class _Reader:
    """Reads one file."""

    def __init__(self, name: str, limits: Limits) -> None:
        self._name = name
        self._limits = limits
        self._num_rows = 0
        self._bad: list[BadRow] = []
        self._num_bad = 0
        self._num_ids = 0
        self._drafts: list[Draft] = []
        self._unused: dict[str, None] = {}

    def read(self, file: BinaryIO) -> Source:
        lines = read_lines(file, self._limits)
        first = next(lines, None)
        if first is None:
            raise WorkloadError("it is empty; a workload has at least one request")
        if first.text.lstrip().startswith("["):
            raise WorkloadError("it looks like one JSON array; write one JSON object a line instead")
        kind, rows = self._open(first, lines)
        for row in rows:
            self._take(kind, row)
        block_size = self._check_blocks(kind)
        if not self._drafts:
            raise WorkloadError(self._nothing_left())
        return self._source(kind, block_size)

    def _open(self, first: Line, lines: Iterator[Line]) -> tuple[Format, Iterator[Row]]:
        if first.text.lstrip().startswith("{"):
            return self._open_objects(itertools.chain([first], lines))
        header = parse_header(first, self._limits)
        kind = recognise(header.names, is_table=True)
        if kind is None:
            raise WorkloadError(_unknown(header.names, is_table=True))
        known = {name.lower() for name in (*kind.needs, *kind.also)}
        self._unused = dict.fromkeys(name for name in header.names if name.lower() not in known)
        return kind, table_rows(lines, header, self._limits, has_text=isinstance(kind, Plain))

    def _open_objects(self, lines: Iterator[Line]) -> tuple[Format, Iterator[Row]]:
        rows = object_rows(lines)
        seen: list[Row] = []
        for row in itertools.islice(rows, _ROWS_TO_RECOGNISE):
            seen.append(row)
            if kind := recognise(row.values, is_table=False):
                return kind, itertools.chain(seen, rows)
        names = next((tuple(row.values) for row in seen if row.values), ())
        if names:
            raise WorkloadError(_unknown(names, is_table=False))
        raise WorkloadError(f"no row could be read; line {seen[0].line} {seen[0].problem or 'is an empty object'}")

    def _take(self, kind: Format, row: Row) -> None:
        self._num_rows += 1
        if self._num_rows > self._limits.max_rows:
            raise WorkloadError(
                f"it has more than {self._limits.max_rows:,} rows; that many are taken: "
                f"keep only its first lines, for example with `head -n {self._limits.max_rows}`"
            )
        if row.problem:
            self._leave_out(row.line, row.problem)
            return
        try:
            drafts = list(kind.drafts(row))
            self._check_times(drafts)
        except RowError as problem:
            self._leave_out(row.line, str(problem))
            return
        self._drafts += drafts
        self._num_ids += sum(len(draft.request.hash_ids or ()) for draft in drafts)
        if self._num_ids > self._limits.max_hash_ids:
            raise WorkloadError(
                f"line {row.line}: up to here there are {self._num_ids:,} hash ids; at most "
                f"{self._limits.max_hash_ids:,} are taken: keep only the first {row.line - 1:,} lines"
            )
        if not self._unused and self._num_rows == 1:
            known = {name.lower() for name in (*kind.needs, *kind.also)}
            self._unused = dict.fromkeys(name for name in row.values if name not in known)

    def _check_times(self, drafts: list[Draft]) -> None:
        if self._drafts and (self._drafts[0].time is None) != (drafts[0].time is None):
            raise RowError("has an arrival, the rows before have none" if drafts[0].time else "has no arrival")

    def _leave_out(self, line: int, reason: str) -> None:
        self._num_bad += 1
        if len(self._bad) < self._limits.max_bad_listed:
            self._bad.append(BadRow(line, reason))

    def _check_blocks(self, kind: Format) -> int | None:
        """Leave out rows whose ids do not match their lengths; the size of a block, None where there are no ids."""
        if not isinstance(kind, Mooncake):
            return None
        size = infer_block_size([draft.request for draft in self._drafts], kind.block_size)
        for draft in self._drafts:
            if not fits(draft.request, size):
                self._leave_out(draft.request.line, misfit(draft.request, size))
        self._drafts = [draft for draft in self._drafts if fits(draft.request, size)]
        self._bad.sort(key=lambda bad: bad.line)
        return size

    def _nothing_left(self) -> str:
        if not self._num_rows:
            return "it names columns, but has no rows; add at least one request"
        bad = self._bad[0]
        return f"none of its {self._num_rows:,} rows could be read; line {bad.line} {bad.reason}"

    def _source(self, kind: Format, block_size: int | None) -> Source:
        has_times = self._drafts[0].time is not None
        out_of_order = _count_out_of_order(self._drafts) if has_times else 0
        requests = _in_order(self._drafts, has_times)
        report = SourceReport(
            name=self._name,
            format=kind.name,
            title=kind.title,
            attribution=kind.attribution,
            num_rows=self._num_rows,
            num_requests=len(requests),
            num_bad=self._num_bad,
            bad_rows=tuple(self._bad),
            span_s=requests[-1].arrival,
            has_times=has_times,
            out_of_order=out_of_order,
            block_size=block_size,
            unused_columns=tuple(itertools.islice(self._unused, self._limits.max_columns)),
        )
        return Source(requests, report)


def _in_order(drafts: list[Draft], has_times: bool) -> tuple[SourceRequest, ...]:
    """Requests by arrival, counted from the first; those of one time as they stand in the file."""
    if not has_times:
        # A turn comes after the answer to the one before it, so all first turns go first.
        drafts = sorted(drafts, key=lambda draft: draft.request.turn)
        return tuple(replace(draft.request, arrival=float(second)) for second, draft in enumerate(drafts))
    drafts = sorted(drafts, key=lambda draft: draft.time or 0)
    start = drafts[0].time or 0
    return tuple(replace(draft.request, arrival=((draft.time or 0) - start) / NANOSECONDS) for draft in drafts)


def _count_out_of_order(drafts: list[Draft]) -> int:
    latest, count = drafts[0].time or 0, 0
    for draft in drafts:
        time = draft.time or 0
        count += time < latest
        latest = max(latest, time)
    return count


def _unknown(names: tuple[str, ...], *, is_table: bool) -> str:
    found = ", ".join(shown(name)[1:-1] for name in names[:12]) + (", ..." if len(names) > 12 else "")
    return (
        f"this is no known kind of workload: its columns are {found}; there must be {known_columns(is_table=is_table)}"
    )

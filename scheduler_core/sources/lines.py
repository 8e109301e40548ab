"""The lines of a file, bounded, whatever wrote it: gzip, a byte order mark, CRLF. Knows no format."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from scheduler_core.errors import WorkloadError
from scheduler_core.sources.limits import Limits

CHUNK_BYTES = 1024 * 1024
_GZIP = b"\x1f\x8b"
_BOM = b"\xef\xbb\xbf"
_FOREIGN = {
    b"PK\x03\x04": "a zip file: unpack it first",
    b"PAR1": "a Parquet file: export it as CSV or JSON lines",
    b"BZh": "packed with bzip2: unpack it, or pack it with gzip",
    b"\xfd7zXZ": "packed with xz: unpack it, or pack it with gzip",
    b"\x28\xb5\x2f\xfd": "packed with zstd: unpack it, or pack it with gzip",
    b"\xff\xfe": "UTF-16 text: save it as UTF-8",
    b"\xfe\xff": "UTF-16 text: save it as UTF-8",
}


@dataclass(frozen=True, slots=True)
class Line:
    """A line without its end, counted from 1; `problem` says why it cannot be used."""

    number: int
    text: str
    problem: str = ""
    is_cut: bool = False


def read_lines(file: BinaryIO, limits: Limits) -> Iterator[Line]:
    """All lines that are not blank; raises `WorkloadError` where the file as a whole is beyond the bounds."""
    for number, (data, problem, has_end) in enumerate(_split(file, limits), 1):
        if number > limits.max_lines:
            raise WorkloadError(f"it has more than {limits.max_lines:,} lines; that many are read: keep only the first")
        if number == 1:
            data = data.removeprefix(_BOM)
        line = Line(number, "", problem) if problem else _decode(number, data, not has_end)
        if line.problem or line.text.strip():
            yield line


def _decode(number: int, data: bytes, is_cut: bool) -> Line:
    try:
        return Line(number, data.decode("utf-8"), is_cut=is_cut)
    except UnicodeDecodeError as problem:
        return Line(number, "", f"is not UTF-8 text (byte 0x{data[problem.start]:02x} at position {problem.start})")


def _split(file: BinaryIO, limits: Limits) -> Iterator[tuple[bytes, str, bool]]:
    """(Line, what is wrong with it, whether it has an end)."""
    too_long = f"has more than {limits.max_line_bytes:,} bytes; shorten it"
    pending = b""
    is_skipping = False
    separator = b""
    for chunk, problem in _chunks(file, limits):
        if problem:
            if pending:
                yield (b"", too_long, False) if is_skipping else (pending, "", False)
            yield b"", problem, True
            return
        if not separator:
            separator = b"\r" if b"\n" not in chunk and b"\r" in chunk else b"\n"
        *whole, pending = (pending + chunk).split(separator)
        for data in whole:
            if is_skipping or len(data) > limits.max_line_bytes:
                yield b"", too_long, True
            else:
                yield data.removesuffix(b"\r"), "", True
            is_skipping = False
        if len(pending) > limits.max_line_bytes:
            is_skipping = True
        if is_skipping:
            # Kept short, but not empty, so that the end of the file still finds the line.
            pending = pending[:1] or b" "
    if pending:
        yield (b"", too_long, False) if is_skipping else (pending, "", False)


def _chunks(file: BinaryIO, limits: Limits) -> Iterator[tuple[bytes, str]]:
    """(Unpacked bytes, what is wrong after them); the last of a damaged archive is a problem, not an error."""
    head = file.read(CHUNK_BYTES)
    _refuse_foreign(head)
    if not head.startswith(_GZIP):
        yield from _counted(_plain(file, head), limits)
        return
    file.seek(0)
    with gzip.GzipFile(fileobj=file) as unpacked:
        yield from _counted(_unpacked(unpacked), limits)


def _plain(file: BinaryIO, chunk: bytes) -> Iterator[tuple[bytes, str]]:
    while chunk:
        yield chunk, ""
        chunk = file.read(CHUNK_BYTES)


def _unpacked(file: gzip.GzipFile) -> Iterator[tuple[bytes, str]]:
    while True:
        try:
            # One call of read1 hands over what could be unpacked before the damage.
            chunk = file.read1(CHUNK_BYTES)
        except (EOFError, OSError, zlib.error) as problem:
            yield b"", f"cannot be read: the gzip data is damaged or ends too early ({problem})"
            return
        if not chunk:
            return
        yield chunk, ""


def _counted(chunks: Iterator[tuple[bytes, str]], limits: Limits) -> Iterator[tuple[bytes, str]]:
    total = 0
    for chunk, problem in chunks:
        total += len(chunk)
        check_bytes(total, limits, "the file, unpacked, has at least")
        yield chunk, problem


def check_bytes(count: int, limits: Limits, what: str = "the file has") -> None:
    """Raises `WorkloadError` naming both sizes."""
    if count > limits.max_bytes:
        raise WorkloadError(
            f"{what} {count:,} bytes; at most {limits.max_bytes:,} are read: "
            "keep only its first lines, for example with `head -n 100000`"
        )


def _refuse_foreign(head: bytes) -> None:
    for magic, what in _FOREIGN.items():
        if head.startswith(magic):
            raise WorkloadError(f"this is {what}")

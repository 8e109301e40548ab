"""Messages over a pipe: a JSON header, and bytes beside it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import IO, Any


def write_frame(stream: IO[bytes], header: dict[str, Any], blobs: Sequence[bytes] = ()) -> None:
    """Send one message."""
    text = json.dumps({**header, "sizes": [len(blob) for blob in blobs]}).encode()
    stream.write(len(text).to_bytes(8, "big"))
    stream.write(text)
    for blob in blobs:
        stream.write(blob)
    stream.flush()


def read_frame(stream: IO[bytes]) -> tuple[dict[str, Any], list[bytes]]:
    """Wait for one message; raises `EOFError` where the other side is gone."""
    header = json.loads(_exactly(stream, int.from_bytes(_exactly(stream, 8), "big")))
    return header, [_exactly(stream, size) for size in header["sizes"]]


def _exactly(stream: IO[bytes], size: int) -> bytes:
    data = stream.read(size)
    if len(data) < size:
        raise EOFError("the other side is gone")
    return data

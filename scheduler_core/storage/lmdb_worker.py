"""The process that reads or writes an LMDB folder for `GuardedLmdb`: a damaged page takes down this one only.

Run as a module with the folder, the limit in bytes, and "check" or "trust". It ends when its standard input does.
"""

from __future__ import annotations

import dataclasses
import signal
import sys
from collections.abc import Sequence
from typing import Any

from scheduler_core.storage.backing import StoreError
from scheduler_core.storage.frames import read_frame, write_frame
from scheduler_core.storage.lmdb_backing import LmdbBacking

Answer = tuple[dict[str, Any], Sequence[bytes]]


def serve(folder: str, limit_bytes: int, check: bool) -> None:
    """Answer until nobody asks any more."""
    questions, answers = sys.stdin.buffer, sys.stdout.buffer
    try:
        backing = LmdbBacking(folder, limit_bytes, check=check)
    except StoreError as problem:
        write_frame(answers, {"refused": str(problem)})
        return
    write_frame(answers, {"was_damaged": backing.was_damaged})
    try:
        while True:
            told, values = _answer(backing, *read_frame(questions))
            write_frame(answers, {**told, "begun_anew": backing.num_begun_anew}, values)
    except (EOFError, BrokenPipeError):
        backing.close()


def _answer(backing: LmdbBacking, question: dict[str, Any], blobs: Sequence[bytes]) -> Answer:
    try:
        backing.touch(question.get("touched", []))
        return _asked(backing, question["ask"], question.get("names", []), blobs)
    except Exception as problem:  # whatever it is, whoever asked counts it and goes on
        return {"fault": str(problem) or type(problem).__name__}, ()


def _asked(backing: LmdbBacking, what: str, names: list[str], blobs: Sequence[bytes]) -> Answer:
    """Reads, or changes something; "touch" changes nothing but what was used last."""
    match what:
        case "read":
            return {}, backing.read(names)
        case "missing":
            return {"names": sorted(backing.missing(names))}, ()
        case "contents":
            return dataclasses.asdict(backing.contents()), ()
        case "write":
            backing.write([*zip(names, blobs, strict=True)])
        case "discard":
            backing.discard(names[0])
        case "clear":
            backing.clear()
    return {"evictions": backing.evictions}, ()


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # sent to a whole group it is meant for who asks, who may still write
    serve(sys.argv[1], int(sys.argv[2]), sys.argv[3] == "check")

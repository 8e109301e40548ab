"""Small workload files, written here, and the recorded ones where they stand beside the project."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from scheduler_core.sources.limits import Limits
from scheduler_core.sources.record import Source
from scheduler_core.sources.source import read_source

TRACES = Path(__file__).resolve().parents[3] / "shared" / "traces"
needs_traces = pytest.mark.skipif(not TRACES.exists(), reason="the recorded workloads are not beside the project")

AZURE = (
    "TIMESTAMP,ContextTokens,GeneratedTokens\n"
    "2023-11-16 18:17:03.9799600,4808,10\n"
    "2023-11-16 18:17:04.0319600,3180,8\n"
    "2023-11-16 18:17:05.9799607,110,27\n"
)


def read(text: str | bytes, limits: Limits | None = None) -> Source:
    data = text.encode() if isinstance(text, str) else text
    return read_source(io.BytesIO(data), limits, "sample")


def hashed(*rows: tuple[int, int, list[int]], output: int = 5, **more: object) -> str:
    """A trace with ids: (milliseconds, prompt tokens, ids) for each row."""
    keys = ("timestamp", "input_length", "hash_ids")
    objects = ({**dict(zip(keys, row, strict=True)), "output_length": output, **more} for row in rows)
    return "".join(json.dumps(each) + "\n" for each in objects)


def conversations(*talks: list[str]) -> str:
    return "".join(json.dumps({"question_id": i, "turns": turns}) + "\n" for i, turns in enumerate(talks))


def bad_rows(source: Source) -> list[tuple[int, str]]:
    return [(bad.line, bad.reason) for bad in source.report.bad_rows]


def lengths(source: Source) -> list[int | None]:
    return [request.prompt_tokens for request in source.requests]

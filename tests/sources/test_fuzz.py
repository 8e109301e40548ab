"""Whatever a file holds: it is read, or refused with the one error made for users, and every row is accounted for."""

from __future__ import annotations

import gzip
import io
import json
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from scheduler_core.backends.synthetic import SyntheticRunner
from scheduler_core.errors import WorkloadError
from scheduler_core.sources.conversion import to_specs
from scheduler_core.sources.limits import Limits
from scheduler_core.sources.record import Source
from scheduler_core.sources.shape import Shape, shape
from scheduler_core.sources.source import read_source
from scheduler_core.sources.summary import summarise
from tests.sources.files import AZURE, conversations, hashed

LIMITS = Limits(max_bytes=100_000, max_rows=50, max_line_bytes=2_000, max_lines_of_row=3, max_columns=20)
SAMPLES = (
    AZURE,
    hashed((0, 600, [7, 8]), (3_052, 512, [7]), (4_000, 30, [1])),
    hashed((0, 20, [7, 8]), (3, 16, [7]), chat_id=5, parent_chat_id=-1, turn=1),
    conversations(["one", "two"], ["three"]),
    'arrival,prompt,prompt_tokens,output_tokens,priority,tenant,conversation\n2.5,"a\nb",,9,1,acme,c1\n0.5,,70,,,,\n',
    json.dumps({"arrival": 0, "prompt": "Hi"}) + "\n" + json.dumps({"arrival": 1, "prompt_tokens": 5}),
)
JUNK: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
NAMES = ("timestamp", "input_length", "output_length", "hash_ids", "chat_id", "parent_chat_id", "turns", "arrival")
NAMES += ("prompt", "prompt_tokens", "output_tokens", "priority", "tenant", "conversation")


def read_or_refuse(data: bytes) -> tuple[Source | None, str]:
    try:
        return read_source(io.BytesIO(data), LIMITS), ""
    except WorkloadError as problem:
        return None, str(problem)


def check(data: bytes) -> Source | None:
    """Read `data`, and use what was read in every way."""
    source, message = read_or_refuse(data)
    if source is None:
        assert message.startswith("the file: ")
        assert len(message) < 1_000
        return None
    report = source.report
    assert len(source.requests) == report.num_requests > 0
    assert report.num_bad < report.num_rows <= LIMITS.max_rows
    assert len(report.bad_rows) == min(report.num_bad, LIMITS.max_bad_listed)
    assert report.num_requests + report.num_bad >= report.num_rows
    assert all(len(bad.reason) < 400 and bad.reason.isprintable() for bad in report.bad_rows)
    arrivals = [request.arrival for request in source.requests]
    assert arrivals[0] == 0
    assert arrivals == sorted(arrivals)
    shaped = shape(source, Shape(max_prompt_tokens=50, max_output_tokens=5))
    json.dumps(summarise(shaped), allow_nan=False)
    specs = to_specs(shaped, SyntheticRunner())
    assert len({spec.id for spec in specs}) == len(source.requests)
    assert all(1 <= len(tuple(spec.prompt_token_ids)) <= 50 for spec in specs)
    return source


@given(st.binary(max_size=300))
@example(b"\r")
@example(b"\x1f\x8b")
@example(b'"')
@example(b"prompt\n\xef\xbb\xbf")
def test_any_bytes(data: bytes) -> None:
    check(data)


@given(st.sampled_from(SAMPLES), st.data())
def test_samples_with_bytes_changed_removed_or_put_in(sample: str, data: st.DataObject) -> None:
    changed = bytearray(sample.encode())
    for _ in range(data.draw(st.integers(1, 5))):
        start = data.draw(st.integers(0, len(changed)))
        end = data.draw(st.integers(start, min(len(changed), start + 20)))
        changed[start:end] = data.draw(
            st.binary(max_size=8) | st.sampled_from([b'"', b"\n", b"\r", b",", b"{", b"\0", b"-"])
        )
    check(bytes(changed))


@given(st.sampled_from(SAMPLES), st.data())
def test_archives_that_are_cut_or_damaged(sample: str, data: st.DataObject) -> None:
    packed = bytearray(gzip.compress(sample.encode()))
    packed[data.draw(st.integers(2, len(packed) - 1))] ^= data.draw(st.integers(0, 255))
    check(bytes(packed[: data.draw(st.integers(2, len(packed)))]))


@given(st.lists(st.dictionaries(st.sampled_from(NAMES), JUNK, max_size=8), max_size=6))
def test_objects_with_known_names_and_any_values(rows: list[dict[str, Any]]) -> None:
    check("\n".join(map(json.dumps, rows)).encode())


@given(st.sampled_from(SAMPLES), st.lists(st.dictionaries(st.sampled_from(NAMES), JUNK, max_size=8), max_size=6))
def test_good_rows_survive_whatever_stands_beside_them(sample: str, rows: list[dict[str, Any]]) -> None:
    alone = check(sample.encode())
    assert alone is not None
    if not sample.startswith("{"):
        return
    source = check((sample + "\n" + "\n".join(map(json.dumps, rows))).encode())
    assert source is not None
    assert {request.id for request in alone.requests} <= {request.id for request in source.requests}


@given(st.lists(st.lists(st.text(max_size=8), min_size=7, max_size=7), max_size=6))
def test_tables_with_any_cells(rows: list[list[str]]) -> None:
    header = "arrival,prompt,prompt_tokens,output_tokens,priority,tenant,conversation"
    body = (",".join('"' + cell.replace('"', '""') + '"' for cell in row) for row in rows)
    check("\n".join([header, *body]).encode("utf-8", "replace"))

"""Lines come without their ends, are counted as an editor does, and tell what is wrong with them."""

from __future__ import annotations

import io

import pytest

from scheduler_core.sources.limits import Limits
from scheduler_core.sources.lines import Line, read_lines


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_come_without_their_ends_and_the_last_may_have_none(end: str) -> None:
    data = f"one{end}{end}two{end}three".encode()
    lines = list(read_lines(io.BytesIO(data), Limits()))
    assert lines == [Line(1, "one"), Line(3, "two"), Line(4, "three", is_cut=True)]


def test_a_line_that_spans_what_is_read_at_once_stays_whole() -> None:
    text = "x" * 2_500_000
    assert [line.text for line in read_lines(io.BytesIO(f"a\n{text}\nb\n".encode()), Limits())] == ["a", text, "b"]

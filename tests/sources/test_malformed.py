"""Damaged files: what can be read is read, the rest is told with its line, and nothing else is raised."""

from __future__ import annotations

import gzip
import io
import json
from pathlib import Path

import pytest

from scheduler_core.errors import WorkloadError
from scheduler_core.sources.limits import Limits
from scheduler_core.sources.source import read_source
from tests.sources.files import AZURE, bad_rows, hashed, lengths, read

HEADER = "TIMESTAMP,ContextTokens,GeneratedTokens\n"
TIME = "2023-11-16 18:17:03.9799600"


def error(text: str | bytes, limits: Limits | None = None) -> str:
    with pytest.raises(WorkloadError) as caught:
        read(text, limits)
    return str(caught.value)


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (f"{TIME},NaN,5", "ContextTokens is 'NaN'; it must be a whole number from 1 to 1,000,000"),
        (f"{TIME},-3,5", "ContextTokens is '-3'; it must be a whole number from 1 to 1,000,000"),
        (f"{TIME},0,5", "ContextTokens is '0'; it must be a whole number from 1 to 1,000,000"),
        (f"{TIME},1.5,5", "ContextTokens is '1.5'; it must be a whole number from 1 to 1,000,000"),
        (f"{TIME},5,1000001", "GeneratedTokens is '1000001'; it must be a whole number from 1 to 1,000,000"),
        (f"{TIME},5,1e999", "GeneratedTokens is '1e999'; it must be a whole number from 1 to 1,000,000"),
        (f"{TIME},5,", "GeneratedTokens is ''; it must be a whole number from 1 to 1,000,000"),
        (f"{TIME},5,\u0665", "GeneratedTokens is '\\u0665'; it must be a whole number from 1 to 1,000,000"),
        ("yesterday,5,5", "TIMESTAMP is 'yesterday'; it must be a time such as 2023-11-16 18:17:03.9799600"),
        ("2023-02-30 18:17:03,5,5", "TIMESTAMP is '2023-02-30 18:17:03'; it must be a time such as"),
        ("0001-01-01 00:00:00+23:59,5,5", "TIMESTAMP is '0001-01-01 00:00:00+23:59'; it must be a time such as"),
        (f"{TIME},5", "has 2 values; there are 3 columns"),
        (f"{TIME},5,5,5", "has 4 values; there are 3 columns"),
        (f'{TIME},"5,5', "is not valid CSV"),
    ],
)
def test_a_bad_row_of_a_table_is_told_with_value_and_bounds_and_the_others_stay(row: str, reason: str) -> None:
    source = read(f"{HEADER}{TIME},1,1\n{row}\n{TIME},2,2\n")
    assert lengths(source) == [1, 2]
    ((line, told),) = bad_rows(source)
    assert line == 3
    assert told.startswith(reason)
    assert (source.report.num_rows, source.report.num_bad) == (3, 1)


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ('{"timestamp": 0, "inp', "is not valid JSON (Unterminated string"),
        ("[" * 100_000, "is nested too deeply"),
        ("[1, 2]", "is a list; it must be a JSON object"),
        ("null", "is missing; it must be a JSON object"),
        ('{"timestamp": NaN}', "holds NaN, which is not a number"),
        ('{"timestamp": 1, "timestamp": 2}', "has the name 'timestamp' twice"),
        ('{"timestamp": ' + "9" * 5_000 + "}", "Exceeds the limit"),
        (hashed((-1, 5, [1])), "timestamp is -1; it must be a number from 0 to 1e+14"),
        (hashed((10**15, 5, [1])), "timestamp is 1000000000000000; it must be a number from 0 to 1e+14"),
        (hashed((0, 5, [-1])), "hash_ids holds -1; each must be a whole number from 0 to 2^64 - 1"),
        (hashed((0, 5, [2**64])), "hash_ids holds 18446744073709551616; each must be"),
        (hashed((0, 5, [True])), "hash_ids holds True; each must be"),
        (hashed((0, 5, [[[1]]])), "hash_ids holds a list; each must be"),  # type: ignore[list-item]
        (hashed((0, 5, {})), "hash_ids is an object; it must be a list"),  # type: ignore[arg-type]
        (hashed((0, "5x", [1])), "input_length is '5x'; it must be"),  # type: ignore[arg-type]
        (hashed((0, True, [1])), "input_length is True; it must be"),
        ("{}", "timestamp is missing; it must be a number"),
    ],
)
def test_a_bad_row_of_objects_is_told_and_the_others_stay(row: str, reason: str) -> None:
    source = read(hashed((0, 5, [1])) + row.rstrip("\n") + "\n" + hashed((1, 6, [1])))
    assert lengths(source) == [5, 6]
    ((line, told),) = bad_rows(source)
    assert line == 2
    assert told.startswith(reason), told


def test_bad_rows_may_stand_before_the_one_that_shows_the_kind() -> None:
    source = read('{"timesta\n{"other": 1}\n' + hashed((0, 5, [1])))
    assert lengths(source) == [5]
    assert [line for line, _ in bad_rows(source)] == [1, 2]


def test_all_bad_rows_are_counted_and_the_first_are_listed() -> None:
    source = read(HEADER + f"{TIME},x,1\n" * 50 + f"{TIME},1,1\n", Limits(max_bad_listed=3))
    assert (source.report.num_bad, [line for line, _ in bad_rows(source)]) == (50, [2, 3, 4])


def test_a_last_row_that_is_cut_off_is_told_as_such() -> None:
    table = read(f"{HEADER}{TIME},1,1\n{TIME},2")
    assert bad_rows(table) == [
        (3, "has 2 values; there are 3 columns; the file seems to end in the middle of this row")
    ]
    objects = read(hashed((0, 5, [1])) + '{"timestamp": 0, "input')
    assert bad_rows(objects)[0][1].endswith("the file seems to end in the middle of this row")


def test_a_quote_that_is_never_closed_costs_its_own_row_only() -> None:
    source = read('arrival,prompt\n0,"one\n1,two\n2,three\n')
    assert [request.text for request in source.requests] == ["two", "three"]
    assert bad_rows(source) == [(2, "opens a quote that is not closed")]


def test_a_mark_at_the_start_and_windows_line_ends_do_no_harm() -> None:
    assert lengths(read(b"\xef\xbb\xbf" + AZURE.replace("\n", "\r\n").encode())) == [4808, 3180, 110]
    assert lengths(read(b"\xef\xbb\xbf" + hashed((0, 5, [1])).encode())) == [5]
    assert lengths(read(AZURE.replace("\n", "\r"))) == [4808, 3180, 110]


def test_blank_lines_are_passed_over_and_lines_are_counted_as_an_editor_does() -> None:
    source = read(f"\n\n{HEADER}\n{TIME},x,1\n   \n{TIME},1,1")
    assert (bad_rows(source)[0][0], source.requests[0].line) == (5, 7)


def test_a_row_that_is_not_utf_8_is_told_with_the_byte() -> None:
    source = read(AZURE.encode() + b"2023-11-16 18:17:03,\xff,5\n")
    assert bad_rows(source) == [(5, "is not UTF-8 text (byte 0xff at position 20)")]


def test_gzipped_files_are_read_and_damaged_ones_as_far_as_they_go() -> None:
    rows = hashed(*((i, 5, [i]) for i in range(5_000)))
    packed = gzip.compress(rows.encode())
    assert len(read(packed).requests) == 5_000
    cut = read(packed[: len(packed) // 2])
    assert 0 < len(cut.requests) < 5_000
    assert [bad.reason for bad in cut.report.bad_rows][-1].startswith("cannot be read: the gzip data is damaged")
    assert cut.report.num_bad + len(cut.requests) == cut.report.num_rows
    damaged = bytearray(packed)
    damaged[-6] ^= 0xFF
    assert len(read(bytes(damaged)).requests) == 5_000
    assert read(bytes(damaged)).report.num_bad == 1
    assert "gzip data is damaged" in error(packed[:12])


@pytest.mark.parametrize(
    ("data", "part"),
    [
        (b"", "it is empty"),
        (b"\n \n\r\n", "it is empty"),
        (b"\xef\xbb\xbf", "it is empty"),
        (gzip.compress(b"", mtime=0), "it is empty"),
        (HEADER.encode(), "has no rows"),
        (f"{HEADER}{TIME},x,1\n".encode(), "none of its 1 rows could be read; line 2 ContextTokens is 'x'"),
        (b"PK\x03\x04rest", "this is a zip file: unpack it first"),
        (AZURE.encode("utf-16"), "this is UTF-16 text: save it as UTF-8"),
        (b"\x28\xb5\x2f\xfd....", "packed with zstd"),
        (b"\xff\xff\xff", "its first line is not UTF-8 text"),
        (b'{"a\n{"b', "no row could be read; line 1 is not valid JSON"),
        (b"," * 200, "it has 201 columns; at most 100 are taken"),
    ],
)
def test_a_file_with_nothing_to_use_is_one_error(data: bytes, part: str) -> None:
    assert part in error(data)
    assert error(data).startswith("sample: ")


def test_sizes_are_bounded_and_told_with_bound_and_remedy() -> None:
    assert error(AZURE, Limits(max_bytes=100)) == (
        f"sample: the file has {len(AZURE)} bytes; at most 100 are read: "
        "keep only its first lines, for example with `head -n 100000`"
    )
    assert "more than 2 rows; that many are taken" in error(AZURE, Limits(max_rows=2))
    assert "it has more than 3 lines; that many are read" in error("\n\n" + AZURE, Limits(max_lines=3))
    ids = hashed((0, 1_024, [1, 2]), (1, 1_024, [1, 2]))
    assert "line 2: up to here there are 4 hash ids; at most 3 are taken" in error(ids, Limits(max_hash_ids=3))
    long = read(AZURE + "x" * 500 + f"\n{TIME},7,7\n", Limits(max_line_bytes=100))
    assert bad_rows(long) == [(5, "has more than 100 bytes; shorten it")]
    assert lengths(long)[0] == 4808
    assert len(long.requests) == 4
    last = read(AZURE + "x" * 500, Limits(max_line_bytes=100))
    assert bad_rows(last) == [(5, "has more than 100 bytes; shorten it")]


def test_a_line_longer_than_what_is_read_at_once_is_bounded_too() -> None:
    source = read(AZURE + "x" * 3_000_000 + f"\n{TIME},7,7\n" + "y" * 3_000_000, Limits(max_line_bytes=1_000))
    assert [line for line, _ in bad_rows(source)] == [5, 7]
    assert len(source.requests) == 4


def test_a_small_archive_that_unpacks_to_much_is_refused() -> None:
    bomb = gzip.compress(b"0" * 3_000_000)
    assert "the file, unpacked, has at least" in error(bomb, Limits(max_bytes=1_000_000))


def test_a_file_that_is_too_large_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "large.csv"
    with path.open("wb") as file:
        file.truncate(200_000_000)

    class Unread(io.BytesIO):
        def seek(self, offset: int, whence: int = 0) -> int:
            return 200_000_000 if whence == 2 else 0

        def read(self, size: int | None = -1) -> bytes:
            raise AssertionError("it was read")

    for file_or_path in (path, Unread()):
        with pytest.raises(WorkloadError, match=r"has 200,000,000 bytes; at most 134,217,728 are read"):
            read_source(file_or_path)


def test_what_is_not_a_file_is_told(tmp_path: Path) -> None:
    for path, part in ((tmp_path, "is not a file"), (tmp_path / "none.csv", "No such file"), ("a\0b", "null")):
        with pytest.raises(WorkloadError, match=part):
            read_source(path)


def test_rows_of_another_kind_or_without_a_time_are_told() -> None:
    rows = [{"arrival": 1, "prompt": "x"}, {"prompt": "y"}, {"arrival": 2, "turns": ["z"]}, {"arrival": 3, "prompt": 5}]
    source = read("\n".join(map(json.dumps, rows)))
    assert bad_rows(source) == [
        (2, "has no arrival"),
        (3, "has neither a prompt nor prompt_tokens"),
        (4, "prompt is 5; it must be a text of at least one word"),
    ]


@pytest.mark.parametrize("text", ["\u0000", "a\u0007b", "\ud800", "x" * 200_001])
def test_texts_that_no_tokenizer_takes_are_bad_rows(text: str) -> None:
    rows = [{"turns": ["fine"]}, {"turns": ["fine", text]}]
    source = read("\n".join(map(json.dumps, rows)))
    assert [line for line, _ in bad_rows(source)] == [2]
    assert bad_rows(source)[0][1].startswith("turn 2 h")


def test_names_of_tenants_are_bounded() -> None:
    source = read("prompt_tokens,tenant\n1,a\n2,\x1b[31m\n3," + "x" * 201 + "\n")
    assert lengths(source) == [1]
    assert bad_rows(source)[0][1] == "tenant is '\\x1b[31m'; it must be a name of at most 200 printable characters"

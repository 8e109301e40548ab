"""Each kind of file is recognised by its content and read to the last value."""

from __future__ import annotations

import json
from array import array
from pathlib import Path

import pytest

from scheduler_core.errors import WorkloadError
from scheduler_core.sources.source import read_source
from tests.sources.files import AZURE, TRACES, bad_rows, conversations, hashed, lengths, needs_traces, read


def test_azure_rows_have_lengths_and_times_to_a_tenth_of_a_microsecond() -> None:
    source = read(AZURE)
    assert (source.report.format, source.report.num_bad) == ("azure", 0)
    assert [(r.line, r.arrival, r.prompt_tokens, r.output_tokens) for r in source.requests] == [
        (2, 0.0, 4808, 10),
        (3, 0.052, 3180, 8),
        (4, 2.0000007, 110, 27),
    ]
    assert "CC-BY 4.0" in source.report.attribution.text


def test_times_may_carry_a_zone_and_a_t() -> None:
    rows = ["2024-05-10T02:00:00.5+02:00,1,1", "2024-05-10 00:00:01Z,1,1", "2024-05-09 23:00:02-0100,1,1"]
    source = read("TIMESTAMP,ContextTokens,GeneratedTokens\n" + "\n".join(rows))
    assert [request.arrival for request in source.requests] == [0.0, 0.5, 1.5]


def test_columns_may_stand_in_any_order_case_and_delimiter() -> None:
    source = read(" generatedtokens ;CONTEXTTOKENS;Timestamp;model\n8;30;2023-11-16 18:17:04;x\n")
    assert (source.requests[0].prompt_tokens, source.requests[0].output_tokens) == (30, 8)
    assert source.report.unused_columns == ("model",)


def test_mooncake_rows_have_milliseconds_and_ids_of_512_tokens() -> None:
    source = read(hashed((0, 600, [7, 8]), (3_052, 512, [7])))
    assert (source.report.format, source.report.block_size) == ("mooncake", 512)
    assert [request.arrival for request in source.requests] == [0.0, 3.052]
    assert source.requests[0].hash_ids == array("Q", [7, 8])
    assert "Apache-2.0" in source.report.attribution.text


def test_bailian_rows_have_seconds_ids_of_16_tokens_and_the_chat_they_belong_to() -> None:
    rows = [
        {"chat_id": 5, "parent_chat_id": -1, "timestamp": 61.114, "input_length": 33, "output_length": 2,
         "type": "text", "turn": 1, "hash_ids": [1, 2, 3]},
        {"chat_id": 9, "parent_chat_id": 5, "timestamp": 62.5, "input_length": 60, "output_length": 2,
         "type": "text", "turn": 2, "hash_ids": [1, 2, 3]},
        {"chat_id": 11, "parent_chat_id": 9, "timestamp": 70, "input_length": 64, "output_length": 2,
         "type": "text", "turn": 3, "hash_ids": [1, 2, 3, 4]},
    ]  # fmt: skip
    source = read("\n".join(map(json.dumps, rows)))
    assert (source.report.format, source.report.block_size, source.report.unused_columns) == ("bailian", 16, ())
    assert [request.conversation for request in source.requests] == ["5", "5", "5"]
    assert source.requests[1].arrival == 1.386


def test_the_size_of_a_block_is_told_from_the_lengths_where_it_is_another() -> None:
    assert read(hashed((0, 100, [1, 2]), (1, 65, [1, 3]), (2, 200, [1, 2, 3, 4]))).report.block_size == 64


def test_a_row_whose_ids_do_not_match_its_length_is_left_out() -> None:
    source = read(hashed((0, 1024, [1, 2]), (1, 1024, [1, 2]), (2, 9_000, [1, 2])))
    assert bad_rows(source) == [(3, "has 2 hash ids for 9,000 tokens; in blocks of 512 there must be 18")]
    assert lengths(source) == [1024, 1024]


def test_multi_turn_rows_become_one_request_for_each_turn_first_turns_first() -> None:
    source = read(conversations(["one", "two"], ["three"], ["four", "five"]))
    assert [(r.id, r.text, r.conversation) for r in source.requests] == [
        ("r1.1", "one", "line 1"),
        ("r2.1", "three", "line 2"),
        ("r3.1", "four", "line 3"),
        ("r1.2", "two", "line 1"),
        ("r3.2", "five", "line 3"),
    ]
    assert not source.report.has_times
    assert [request.arrival for request in source.requests] == [0, 1, 2, 3, 4]


def test_our_own_kind_takes_texts_and_lengths_side_by_side() -> None:
    text = (
        "arrival,prompt,prompt_tokens,output_tokens,priority,tenant,conversation\n"
        '2.5,"Hello, ""you""",,9,1,acme,c1\n'
        "0.5,,70,,,,\n"
    )
    late = read(text).requests[1]
    assert (late.text, late.output_tokens, late.priority, late.tenant) == ('Hello, "you"', 9, 1, "acme")
    early = read(text).requests[0]
    assert (early.prompt_tokens, early.output_tokens, early.priority, early.arrival) == (70, None, 0, 0.0)
    rows = [{"arrival": 0, "prompt": "Hi"}, {"arrival": 1.25, "prompt_tokens": 70, "tenant": "acme"}]
    objects = read("\n".join(map(json.dumps, rows)))
    assert [(r.arrival, r.text, r.prompt_tokens) for r in objects.requests] == [(0, "Hi", None), (1.25, "", 70)]


def test_a_quoted_text_may_go_over_several_lines_and_hold_any_delimiter() -> None:
    source = read('arrival,prompt\r\n0,"one\r\n\r\ntwo, three"\r\n1,four\r\n')
    assert [(request.line, request.text) for request in source.requests] == [(2, "one\ntwo, three"), (5, "four")]


def test_a_file_without_the_column_arrival_has_no_times() -> None:
    source = read("prompt_tokens\n5\n6\n")
    assert (source.report.has_times, [request.arrival for request in source.requests]) == (False, [0.0, 1.0])


def test_requests_out_of_order_are_put_in_order_and_counted() -> None:
    source = read("arrival,prompt_tokens\n10,1\n12,2\n11,3\n10,4\n")
    assert [(request.line, request.arrival) for request in source.requests] == [(2, 0), (5, 0), (4, 1), (3, 2)]
    assert source.report.out_of_order == 2


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("a,b\n1,2\n", "its columns are a, b; there must be TIMESTAMP, ContextTokens, GeneratedTokens"),
        ('{"a": 1}\n', "its columns are a; there must be timestamp, input_length, output_length, hash_ids"),
        ("TIMESTAMP,ContextTokens\n", "there must be TIMESTAMP, ContextTokens, GeneratedTokens"),
        ("arrival,prompt,Prompt\n", "the column 'Prompt' stands twice"),
        ('[{"prompt": "x"}]', "one JSON object a line"),
    ],
)
def test_an_unknown_kind_is_told_with_what_was_found_and_what_there_could_be(text: str, part: str) -> None:
    with pytest.raises(WorkloadError) as caught:
        read(text)
    assert part.lower() in str(caught.value).lower()


def test_the_name_of_a_file_does_not_matter(tmp_path: Path) -> None:
    path = tmp_path / "questions.exe"
    path.write_text(AZURE)
    assert read_source(path).report.format == "azure"
    assert read_source(str(path)).report.name == "questions.exe"


@needs_traces
@pytest.mark.parametrize(
    ("name", "kind", "requests", "span", "total"),
    [
        ("azure2023/AzureLLMInferenceTrace_code.csv", "azure", 8_819, 3435.948056, 18_059_974),
        ("azure2023/AzureLLMInferenceTrace_conv.csv", "azure", 19_366, 3501.721937, 22_361_870),
        ("mooncake/conversation_trace.jsonl", "mooncake", 12_031, 3536.999, 144_793_823),
        ("mooncake/synthetic_trace.jsonl", "mooncake", 3_993, 1022.025, 61_194_628),
        ("mtbench/question.jsonl", "mt_bench", 160, 159.0, 0),
        ("vicuna_bench/question.jsonl", "mt_bench", 80, 79.0, 0),
    ],
)
def test_the_recorded_workloads_are_read_whole(name: str, kind: str, requests: int, span: float, total: int) -> None:
    source = read_source(TRACES / name)
    report = source.report
    assert (report.format, report.num_requests, report.num_bad, report.out_of_order) == (kind, requests, 0, 0)
    assert report.span_s == span
    assert sum(request.prompt_tokens or 0 for request in source.requests) == total

"""The command `workload`, as a user runs it."""

from __future__ import annotations

import json
from pathlib import Path

from tests.sources.commands import command
from tests.sources.files import AZURE, conversations, hashed
from tests.test_cli import tickscope


def test_a_file_is_told_with_kind_origin_bad_rows_lengths_and_seed(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text(AZURE + "yesterday,5,5\n")
    done = tickscope("workload", path, "--first", 2, "--stretch", 2, "--seed", 7)
    assert (done.returncode, done.stderr) == (0, "")
    for part in (
        "prompt tokens",
        "Azure LLM inference trace",
        "CC-BY 4.0",
        "1 of 4 rows were left out",
        "line 5 TIMESTAMP is 'yesterday'",
        "1 after the first 2",
        "times multiplied by 2",
        "seed 7",
    ):
        assert part in done.stdout


def test_json_has_source_shape_and_summary(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_text(hashed((0, 1_024, [1, 2]), (4_000, 512, [1])))
    done = command("workload", path, "--scale", 32, "--json", "-")
    told = json.loads(done.stdout)
    assert told["source"]["block_size"] == 512
    assert (told["shape"]["tokens_per_id"], told["shape"]["shape"]["seed"]) == (16, 0)
    assert told["summary"]["prompt_tokens"]["sum"] == 48
    assert told["summary"]["arrivals"]["last_s"] == 4.0
    assert told["summary"]["distinct_hash_ids"] == 2
    target = tmp_path / "told.json"
    assert command("workload", path, "--scale", 32, "--json", target).returncode == 0
    assert json.loads(target.read_text()) == told


def test_texts_are_told_in_characters_and_what_is_assumed_is_said(tmp_path: Path) -> None:
    path = tmp_path / "questions.jsonl"
    path.write_text(conversations(["one", "two"], ["three"]))
    told = command("workload", path).stdout
    for part in ("prompt characters", "2 conversations", "tells no times", "taken as 128 tokens: 3"):
        assert part in told


def test_mistakes_are_one_line_and_status_2(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text(AZURE)
    for words, part in (
        ((tmp_path / "none.csv",), "No such file"),
        ((tmp_path,), "is not a file"),
        ((path, "--scale", 0), "scale is 0; it must be"),
        ((path, "--start", 50), "there is no request from 50 s to the end; trace.csv goes from 0 to 2 s"),
    ):
        done = command("workload", *words)
        assert (done.returncode, done.stdout) == (2, "")
        assert part in done.stderr
        assert len(done.stderr.splitlines()) == 1


def test_what_a_file_says_never_reaches_the_terminal_as_a_command(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_bytes(b"prompt_tokens,\x1b[31mred,tenant\n5,x,[bold]a\n\x1b[2J,y,b\n6,z,c\n")
    done = command("workload", path)
    assert done.returncode == 0
    assert "\x1b" not in done.stdout
    assert "[bold]a 1" in done.stdout

"""The command line, run as a user runs it."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest

from scheduler_core.faults import FAULT_FOLDER, FAULTS
from scheduler_core.workload import list_scenarios

ROOT = Path(__file__).resolve().parents[1]
TRACES = ROOT / "assets" / "traces"
REQUEST_KEYS = {
    "id",
    "status",
    "finish_reason",
    "text",
    "output_token_ids",
    "num_prompt_tokens",
    "num_cached_tokens",
    "num_preemptions",
    "ttft_s",
    "mean_itl_s",
    "e2e_s",
}
TOTAL_KEYS = {
    "ticks",
    "preemptions",
    "query_tokens",
    "hit_tokens",
    "self_hit_tokens",
    "tier_hit_tokens",
    "recomputed_tokens",
    "bytes_saved",
    "virtual_seconds",
    "wall_seconds",
}


def tickscope(*words: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "scheduler_core", *map(str, words)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240, check=False)


def figures(*words: object) -> dict:
    done = tickscope(*words, "--json", "-")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_run_prints_a_table_with_every_request() -> None:
    done = tickscope("run", "first_steps")
    assert done.returncode == 0
    assert all(f"R{i} " in done.stdout for i in range(1, 6))
    assert "preemptions" in done.stdout


def test_json_on_stdout_is_nothing_but_json_and_has_every_key() -> None:
    result = figures("run", "first_steps")
    assert {"config", "requests", "totals"} <= set(result)
    assert all(set(row) >= REQUEST_KEYS for row in result["requests"])
    assert set(result["totals"]) == TOTAL_KEYS
    assert result["config"]["quantum"] == 4


def test_settings_and_presets_change_the_run() -> None:
    assert figures("run", "time_slices", "--set", "quantum=2", "--set", "chunk_size=none")["config"]["quantum"] == 2
    more = figures("run", "time_slices", "--set", "quantum=2", "chunk_size=none")
    assert more["config"]["chunk_size"] is None
    vllm = figures("run", "time_slices", "--preset", "vllm")
    assert vllm["config"]["admission"] == "whole_prompt"
    assert vllm["config"]["num_blocks"] == 48
    assert vllm["totals"]["preemptions"] == 0


def test_a_scenario_may_be_a_path_and_json_and_trace_may_be_files(tmp_path: Path) -> None:
    scenario = tmp_path / "mine.toml"
    scenario.write_text('title = "Mine"\n[[requests]]\nprompt = "hello"\nmax_tokens = 3\n')
    done = tickscope("run", scenario, "--json", tmp_path / "out.json", "--trace", tmp_path / "run.json.gz")
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "out.json").read_text())["requests"][0]["id"] == "R1"
    assert figures("replay", tmp_path / "run.json.gz")["totals"]["ticks"] == 3


def test_run_writes_a_perfetto_file_with_a_track_for_every_request(tmp_path: Path) -> None:
    done = tickscope("run", "first_steps", "--perfetto", tmp_path / "run.json")
    assert done.returncode == 0, done.stderr
    events = json.loads((tmp_path / "run.json").read_text())["traceEvents"]
    tracks = [event["args"]["name"] for event in events if event["name"] == "thread_name"]
    assert tracks == [*(row["id"] for row in figures("run", "first_steps")["requests"]), "Ticks"]


def test_replay_prints_the_totals_of_the_run(tmp_path: Path) -> None:
    first = figures("run", "memory_pressure", "--trace", tmp_path / "run.json.gz")
    again = figures("replay", tmp_path / "run.json.gz")
    assert again["totals"] == first["totals"]
    assert again["requests"] == first["requests"]


def test_a_second_run_above_the_same_folder_hits_it_and_says_the_same(tmp_path: Path) -> None:
    first, second = (figures("run", "first_steps", "--store", tmp_path / "store") for _ in range(2))
    assert first["totals"]["tier_hit_tokens"] == 0
    assert second["totals"]["tier_hit_tokens"] > 50
    assert [row["text"] for row in first["requests"]] == [row["text"] for row in second["requests"]]
    held = figures("cache", "stats", tmp_path / "store")["tiers"][0]
    assert (held["tier"], held["entries"] > 5, held["num_bytes"] > 0) == ("disk", True, True)
    done = tickscope("cache", "clear", tmp_path / "store")
    assert f"{held['entries']} blocks forgotten" in done.stderr
    assert figures("cache", "stats", tmp_path / "store")["tiers"][0]["entries"] == 0


@pytest.mark.parametrize("command", ["stats", "clear"])
def test_looking_into_a_cache_that_is_not_there_makes_none_and_says_so(tmp_path: Path, command: str) -> None:
    done = tickscope("cache", command, tmp_path / "nothing")
    assert (done.returncode, list(tmp_path.iterdir())) == (2, [])
    assert "there is no prefix cache in" in done.stderr
    done = tickscope("cache", command, "redis://127.0.0.1:1/0")
    assert done.returncode == 2
    assert "the shared cache does not answer" in done.stderr


def test_a_mistake_can_be_built_in_and_the_law_that_broke_is_told() -> None:
    done = tickscope("run", FAULT_FOLDER / "compare_no_tokens.toml", "--fault", "compare_no_tokens")
    assert done.returncode == 0
    told = " ".join(done.stdout.split())
    assert "tick 13: A law is broken, and the run stops. A request is only given blocks that hold its own" in told
    listed = tickscope("faults").stdout
    assert all(name in listed for name in FAULTS)


def test_scenarios_lists_every_scenario() -> None:
    done = tickscope("scenarios")
    assert all(name in done.stdout for name in list_scenarios())


def damaged(tmp_path: Path, how: str) -> Path:
    data = (TRACES / "first_steps.json.gz").read_bytes()
    plain = json.loads(gzip.decompress(data))
    if how == "truncated":
        data = data[: len(data) // 2]
    elif how == "foreign":
        data = json.dumps({"traceEvents": []}).encode()
    elif how == "not json":
        data = b"hello"
    elif how == "future":
        data = json.dumps({**plain, "schema_version": 99}).encode()
    elif how == "extra name":
        data = json.dumps({**plain, "colour": "red"}).encode()
    path = tmp_path / "trace.json.gz"
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("truncated", "truncated"),
        ("foreign", "not a Tickscope trace"),
        ("not json", "not valid JSON"),
        ("future", "schema version 99"),
        ("extra name", "unknown name 'colour'"),
    ],
)
def test_a_trace_that_cannot_be_read_is_refused_in_one_line(tmp_path: Path, how: str, words: str) -> None:
    done = tickscope("replay", damaged(tmp_path, how))
    assert done.returncode == 2
    assert done.stdout == ""
    assert words in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run", "nope"], "no scenario 'nope'"),
        (["run", "first_steps", "--set", "quantum"], "FIELD=VALUE"),
        (["run", "first_steps", "--set", "quantum=0"], "quantum is 0"),
        (["run", "first_steps", "--set", "colour=red"], "no setting 'colour'"),
        (["run", "first_steps", "--set", "max_num_seqs=100"], "max_num_batched_tokens"),
        (["run", "first_steps", "--preset", "warp"], "no preset 'warp'"),
        (["run", "first_steps", "--backend", "magic"], "magic"),
        (["run", "first_steps", "--set", "cost=abacus"], "abacus"),
        (["run", "first_steps", "--json", "/nowhere/x.json"], "cannot write"),
        (["run", "first_steps", "--trace", "/nowhere/x.json.gz"], "cannot write"),
        (["run", "first_steps", "--perfetto", "/nowhere/x.json"], "cannot write"),
        (["replay", "missing.json.gz"], "cannot read"),
        (["run"], "Missing argument"),
        (["dance"], "dance"),
        (["run", "first_steps", "--colour"], "--colour"),
    ],
)
def test_a_users_mistake_is_one_line_on_stderr_and_status_2(words: list[str], message: str) -> None:
    done = tickscope(*words)
    assert done.returncode == 2, done.stdout
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert "Traceback" not in done.stderr

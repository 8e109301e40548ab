"""`bench scheduler`, as a user runs it, with and without the peers."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from scheduler_core.bench import cli
from scheduler_core.bench.machine import MachineFacts
from scheduler_core.bench.peers import DEFAULT_PEERS, peers_python, run_module
from scheduler_core.errors import BenchError
from tests.test_cli import tickscope

PEERS = Path(os.environ.get("TICKSCOPE_PEERS", DEFAULT_PEERS))
needs_peers = pytest.mark.skipif(not PEERS.exists(), reason="the peers' environment is not built: make bench-peers")


def test_a_place_without_an_environment_is_an_error_that_names_it_and_the_remedy(tmp_path: Path) -> None:
    done = tickscope("bench", "scheduler", "--peers", tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert str(tmp_path / "bin" / "python") in done.stderr
    assert "make bench-peers" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("ticks", ["19", "401", "-1"])
def test_a_number_of_ticks_that_is_out_of_bounds_is_an_error_with_value_and_bounds(ticks: str) -> None:
    done = tickscope("bench", "scheduler", "--ticks", ticks)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"ticks is {ticks}; it must be from 20 to 400" in done.stderr


def test_an_environment_that_cannot_run_tells_why_in_one_line(tmp_path: Path) -> None:
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.write_text("#!/bin/sh\necho 'no such thing' >&2\nexit 3\n")
    python.chmod(0o755)
    with pytest.raises(BenchError, match=r"status 3 .* no such thing; build it with: make bench-peers"):
        run_module(python, "scheduler_core.bench.scheduler.race", [20])


def test_an_environment_that_is_not_named_may_be_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduler_core.bench.peers.DEFAULT_PEERS", tmp_path)
    assert peers_python(None) is None


def test_a_module_runs_offline_and_its_json_is_read(tmp_path: Path) -> None:
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.write_text('#!/bin/sh\necho "[\\"$HF_HUB_OFFLINE\\", \\"$VLLM_NO_USAGE_STATS\\", \\"$3\\"]"\n')
    python.chmod(0o755)
    assert run_module(python, "any", [7]) == ["1", "1", "7"]


def test_the_machine_is_told_with_its_cores_and_date() -> None:
    here = MachineFacts.here()
    assert here.cpu
    assert here.cores >= 1
    assert here.as_plain().keys() == {"cpu", "cores", "system", "python", "date", "load"}
    assert here.date[:10] in here.text


def test_ours_alone_is_measured_where_the_peers_are_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("scheduler_core.bench.peers.DEFAULT_PEERS", tmp_path)
    cli.scheduler(json_="-", ticks=20)
    told = capsys.readouterr()
    figures = json.loads(told.out)
    measured = {(row["load"], row["contender"], row["waiting"]) for row in figures["rows"]}
    assert {("steady", "ours", 100), ("turnover", "ours", 10_000), ("steady", "tickscope", 10_000)} <= measured
    assert all(contender != "vllm" for _, contender, _ in measured)
    assert figures["same_decisions"] is None
    assert "make bench-peers" in " ".join(told.err.split())


@needs_peers
def test_ours_and_vllms_scheduler_make_the_same_decisions_and_json_is_alone_on_stdout() -> None:
    done = tickscope("bench", "scheduler", "--ticks", "20", "--peers", PEERS, "--json", "-")
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)
    assert figures["same_decisions"] is True
    assert {row["contender"] for row in figures["rows"]} >= {"ours", "vllm", "tickscope"}
    assert [(each["load"], each["waiting"]) for each in figures["ours_over_vllm"]] == [
        ("steady", 100),
        ("steady", 10_000),
        ("turnover", 100),
        ("turnover", 10_000),
    ]
    assert figures["versions"]["vllm"] == "0.32.0"

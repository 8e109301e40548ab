"""`bench fleet`, as a user runs it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from scheduler_core.__main__ import main
from scheduler_core.bench.fleet.plan import Plan, parse_replicas, parse_routers
from scheduler_core.bench.fleet.report import document, remarks, run_figures
from scheduler_core.errors import BenchError
from scheduler_core.replicas.config import ROUTERS
from scheduler_core.serving_config import serving_config

ROOT = Path(__file__).resolve().parents[2]
SMALL = ("--replicas", "1,4", "--requests", "6", "--output-len", "4", "--prefix-len", "64", "--prompt-len", "16")


def bench_fleet(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["scheduler_core", "bench", "fleet", *arguments])
    return main()


def test_the_same_seed_gives_the_same_file_to_the_byte(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    files = [tmp_path / f"{name}.json" for name in "abc"]
    for file, seed in zip(files, ("3", "3", "4"), strict=True):
        assert bench_fleet(monkeypatch, *SMALL, "--seed", seed, "--kill-at", "0.3", "--json", str(file)) == 0
    one, again, other = (file.read_bytes() for file in files)
    assert one == again != other


def test_every_request_is_served_at_every_size_under_every_router(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bench_fleet(monkeypatch, *SMALL, "--kill-at", "0.3", "--json", "-") == 0
    runs = json.loads(capsys.readouterr().out)["runs"]
    assert [(run["num_replicas"], run["router"]) for run in runs] == [(n, r) for n in (1, 4) for r in ROUTERS]
    assert all(run["completed"] == 6 * run["num_replicas"] and not run["failed"] for run in runs)


def test_a_kill_moves_requests_and_loses_none() -> None:
    plan = Plan(serving_config("llama-3.1-8b-h100").replace(num_blocks=512), rate=20.0, kill_at=0.5)
    trace = plan.run(3, "least_loaded")
    assert [(kill.time, kill.replica) for kill in trace.kills] == [(0.5, 2)]
    assert len(trace.moved) == trace.kills[0].num_requests > 0
    assert trace.figures()["completed"] == 60


def test_a_restarted_replica_serves_again_and_the_plan_says_so_only_where_it_was_asked() -> None:
    plan = Plan(
        serving_config("llama-3.1-8b-h100").replace(num_blocks=512),
        rate=20.0,
        kill_at=0.3,
        restart_after=0.1,
        start_seconds=0.2,
    )
    trace = plan.run(3, "least_loaded")
    told = document(plan, [run_figures(trace)])
    assert told["plan"]["restart_after"] == 0.1
    assert told["runs"][0]["comebacks"][0]["requests"] > 0
    assert told["runs"][0]["completed"] == 60
    assert "is back at 0.6 s with an empty cache" in remarks(plan)[-1]
    assert "restart_after" not in document(Plan(plan.engine, kill_at=0.3), [])["plan"]


def test_a_restart_without_a_kill_is_refused() -> None:
    with pytest.raises(BenchError, match="give kill-at too"):
        Plan(serving_config("llama-3.1-8b-h100"), restart_after=1.0)


def test_people_get_a_table_and_its_terms(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert bench_fleet(monkeypatch, *SMALL, "--router", "bounded_hash") == 0
    shown = capsys.readouterr().out
    for expected in ("hit rate", "bounded_hash", "max/mean", "overflow:", "seed 0"):
        assert expected in shown


def test_a_hundred_replicas_keep_prefixes_together_and_the_load_apart() -> None:
    plan = Plan(serving_config("llama-3.1-8b-h100").replace(num_blocks=512), requests=6, rate=6.0, prefix_tokens=256)
    figures = {router: plan.run(100, router).figures() for router in ("round_robin", "bounded_hash")}
    assert figures["bounded_hash"]["completed"] == 600
    assert figures["bounded_hash"]["prefix_hit_rate"] > 2 * figures["round_robin"]["prefix_hit_rate"]


def test_the_recorded_figures_can_be_had_again() -> None:
    recorded = json.loads((ROOT / "assets" / "benchmarks" / "fleet.json").read_text())
    assert [(run["num_replicas"], run["router"]) for run in recorded["runs"]] == [
        (number, router) for number in (1, 10, 100, 1_000) for router in ROUTERS
    ]
    plan = Plan(serving_config("llama-3.1-8b-h100").replace(num_blocks=2_048))
    again = json.loads(json.dumps(document(plan, [run_figures(plan.run(10, router)) for router in ROUTERS])))
    assert again["plan"] == recorded["plan"]
    assert again["runs"] == recorded["runs"][5:10]


@pytest.mark.parametrize("text", ["0", "1,x", "1001", "", "-3", "1.5"])
def test_impossible_numbers_of_replicas_are_named(text: str) -> None:
    with pytest.raises(BenchError, match="whole number from 1 to 1,000"):
        parse_replicas(text)


def test_an_unknown_router_is_named_with_the_choices() -> None:
    with pytest.raises(BenchError, match="router is 'random'"):
        parse_routers("round_robin,random")

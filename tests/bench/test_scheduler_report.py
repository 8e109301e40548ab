"""The figures of a race: worked out by hand from a few times."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from scheduler_core.bench.machine import MachineFacts
from scheduler_core.bench.scheduler import report

MACHINE = MachineFacts("A CPU", 2, "Linux x86_64", "3.11.7", "2026-01-02T03:04:05+00:00", 0.25)


def times(load: str, contender: str, waiting: int, micros: list[float]) -> dict[str, Any]:
    return {"load": load, "waiting": waiting, "contender": contender, "seconds": [m / 1e6 for m in micros]}


def raced(same: bool | None = True) -> dict[str, Any]:
    return {
        "versions": {"python": "3.11.7", "vllm": "0.32.0"},
        "includes": {"ours": "a step", "vllm": "schedule and update"},
        "times": [
            times("steady", "ours", 100, [100, 300, 200]),
            times("steady", "vllm", 100, [400, 400, 400]),
            times("steady", "ours", 10_000, [250, 250, 250]),
            times("steady", "vllm", 10_000, [1000, 500, 500]),
        ],
        "same_decisions": same,
    }


def test_medians_ratios_and_growth_are_those_of_the_times() -> None:
    figures = report.summarise(raced(), MACHINE, 3)
    assert [(row["contender"], row["waiting"], row["median"]) for row in figures["rows"]] == [
        ("ours", 100, 200),
        ("vllm", 100, 400),
        ("ours", 10_000, 250),
        ("vllm", 10_000, 500),
    ]
    assert figures["rows"][3] == {
        "load": "steady",
        "waiting": 10_000,
        "contender": "vllm",
        "median": 500,
        "mean": 666.7,
        "p10": 500,
        "p90": 1000,
    }
    assert figures["ours_over_vllm"] == [
        {"load": "steady", "waiting": 100, "ratio": 0.5},
        {"load": "steady", "waiting": 10_000, "ratio": 0.5},
    ]
    assert [(each["contender"], each["ratio"]) for each in figures["growth"]] == [("ours", 1.25), ("vllm", 1.25)]
    assert figures["machine"]["cpu"] == "A CPU"
    assert figures["sizes"]["waiting"] == [100, 10_000]
    assert (figures["sizes"]["lanes"], figures["sizes"]["num_blocks"], figures["sizes"]["ticks"]) == (256, 10_000, 3)


def test_without_the_peer_there_are_no_ratios_to_it() -> None:
    alone = raced(None)
    alone["times"] = [each for each in alone["times"] if each["contender"] == "ours"]
    figures = report.summarise(alone, MACHINE, 3)
    assert (figures["ours_over_vllm"], figures["same_decisions"], len(figures["growth"])) == ([], None, 1)


@pytest.mark.parametrize(
    ("same", "words"),
    [(True, "decided the same"), (False, "decided differently"), (None, "ticks. A time covers")],
)
def test_people_read_the_figures_what_they_cover_and_the_machine(same: bool | None, words: str) -> None:
    figures = report.summarise(raced(same), MACHINE, 3)
    console = Console(width=140, record=True, file=io.StringIO())
    console.print(report.table(figures))
    shown = console.export_text()
    for word in ("100 waiting", "10,000 waiting", "200 µs", "250 µs", "0.50x", "1.25x", "500 to 1,000"):
        assert word in shown
    told = "\n".join(report.remarks(figures, MACHINE))
    for word in (words, "ours: a step", "A CPU, 2 cores", "2026-01-02", "load 0.25", "vllm 0.32.0"):
        assert word in told

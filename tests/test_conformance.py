"""Decisions equal to vLLM's own, on recorded workloads."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scheduler_core.conformance import compare_file
from scheduler_core.errors import WorkloadError
from tests.test_cli import tickscope

GOLDEN = sorted((Path(__file__).parent / "golden" / "vllm").glob("*.json"))
SHARED = sorted((Path(__file__).resolve().parents[2] / "shared" / "vllm_decisions").glob("*.json"))


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_every_decision_equals_vllms(path: Path) -> None:
    assert compare_file(path) is None


def test_the_golden_workloads_preempt_and_hit() -> None:
    ticks = [tick for path in GOLDEN for tick in json.loads(path.read_text())["ticks"]]
    assert sum(len(tick["preempted"]) for tick in ticks) > 20
    assert sum(sum(tick["admitted"].values()) for tick in ticks) > 100


@pytest.mark.skipif(not SHARED, reason="the full set of recordings is not beside the project")
def test_all_recordings_at_hand_are_identical() -> None:
    assert [path.name for path in SHARED if compare_file(path) is not None] == []


def changed(tmp_path: Path, change: object) -> Path:
    data = json.loads(GOLDEN[0].read_text())
    change(data)  # type: ignore[operator]
    path = tmp_path / "changed.json"
    path.write_text(json.dumps(data))
    return path


@pytest.mark.parametrize("field", ["scheduled", "admitted", "preempted", "finished", "running", "free_blocks"])
def test_a_changed_decision_is_found_with_tick_and_both_sides(tmp_path: Path, field: str) -> None:
    def change(data: dict) -> None:
        tick = next(t for t in data["ticks"] if t["scheduled"])
        request = next(iter(tick["scheduled"]))
        tick[field] = {
            "scheduled": {**tick["scheduled"], request: 99},
            "admitted": {**tick["admitted"], request: 99},
            "preempted": ["somebody"],
            "finished": ["somebody"],
            "running": ["somebody"],
            "free_blocks": -1,
        }[field]

    difference = compare_file(changed(tmp_path, change))
    assert difference is not None
    assert difference.what == field
    assert difference.theirs != difference.ours
    assert difference.reason


def test_the_command_counts_and_tells_differences(tmp_path: Path) -> None:
    good = tickscope("conform", *GOLDEN[:2])
    assert (good.returncode, good.stdout.splitlines()[-1]) == (0, "2/2 identical")

    def change(data: dict) -> None:
        next(t for t in data["ticks"] if t["scheduled"])["free_blocks"] = 0

    bad = tickscope("conform", GOLDEN[1], changed(tmp_path, change))
    assert (bad.returncode, bad.stdout.splitlines()[-1]) == (1, "1/2 identical")
    assert "free_blocks: recorded 0, ours" in bad.stdout


@pytest.mark.parametrize(
    ("text", "words"),
    [("{", "not valid JSON"), ("[]", "format"), ('{"format": "vllm-decisions/1"}', "not a recording")],
)
def test_a_file_of_another_kind_is_refused(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(WorkloadError, match=words):
        compare_file(path)

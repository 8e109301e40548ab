"""Chunking and mixing, alone and together, in the direction of the paper's ablation on every machine."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler_core.bench.load.two_by_two import CORNERS, corner_config, directions, usual_load
from scheduler_core.big_run.big_run import BigRun
from scheduler_core.big_run.checkpoints import Checkpoints
from scheduler_core.load.generator import GeneratedLoad
from scheduler_core.roofline import REAL
from scheduler_core.summary import FEWEST_FOR_P99


def figures(cost: str, seed: int) -> dict[str, dict[str, Any]]:
    load = GeneratedLoad(usual_load(cost, 150, seed))
    return {
        corner.key: BigRun(corner_config(corner, cost), load, checkpoints=Checkpoints(most=0)).run().figures()
        for corner in CORNERS
    }


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("cost", REAL)
def test_the_four_come_out_in_the_direction_of_the_paper(cost: str, seed: int):
    runs = figures(cost, seed)
    assert all(run["completed"] == 150 and run["num_samples"]["itl"] > FEWEST_FOR_P99 for run in runs.values())
    assert directions(runs) == dict.fromkeys(directions(runs), True)


@pytest.mark.parametrize("cost", REAL)
def test_the_four_differ_in_the_two_switches_alone(cost: str):
    configs = [corner_config(corner, cost) for corner in CORNERS]
    assert len(set(configs)) == 4
    changed = {name for config in configs for name in config.changed_from(configs[0])}
    assert changed == {"enable_chunked_prefill", "mixed_batches"}

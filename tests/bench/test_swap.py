"""Swap against recompute: where the cheaper way changes, what a turn does, and the command."""

from __future__ import annotations

import dataclasses
import io
import json
import random

import pytest
from rich.console import Console

from scheduler_core.bench.machine import MachineFacts
from scheduler_core.bench.model_ticks import ModelTicks
from scheduler_core.bench.swap import report
from scheduler_core.bench.swap.crossover import Change, Crossover, Point
from scheduler_core.bench.swap.measure import Samples, lengths, measure, take_turn
from scheduler_core.bench.swap.modelled import crossover, crossovers, point
from scheduler_core.cost_model import LLAMA_31_8B, machine
from scheduler_core.trace import Backend
from tests.bench.test_tick_shape import FakeRunner
from tests.test_cli import tickscope

MACHINE = MachineFacts("A CPU", 2, "Linux x86_64", "3.11.7", "2026-01-02T03:04:05+00:00", 0.25)
BACKEND = Backend("model", model="Small", dtype="float32", device="cpu", kv_bytes_per_token=1_000)


def of(*costs: tuple[int, float, float]) -> Crossover:
    return Crossover.of([Point(*cost) for cost in costs])


def test_the_crossover_lies_where_the_straight_lines_between_the_measured_lengths_meet() -> None:
    found = of((16, 4.0, 1.0), (32, 4.0, 3.0), (64, 4.0, 7.0), (128, 4.0, 15.0))
    assert found.cheaper == "recompute"
    assert found.changes == (Change(40.0, "swap"),)
    assert found.text == "recompute is cheaper from 16 tokens on, swap from 40 on"
    assert found.as_plain()["tokens"] == 40.0


def test_the_cheaper_way_may_change_to_recompute() -> None:
    assert of((16, 1.0, 2.0), (32, 5.0, 2.0)).changes == (Change(20.0, "recompute"),)


@pytest.mark.parametrize("cheaper", ["swap", "recompute"])
def test_one_way_that_is_always_cheaper_has_no_crossover(cheaper: str) -> None:
    swap, recompute = (1.0, 2.0) if cheaper == "swap" else (2.0, 1.0)
    found = of((16, swap, recompute), (2_048, 9 * swap, 9 * recompute))
    assert found.changes == ()
    assert found.text == f"none: {cheaper} is cheaper at every length from 16 to 2,048 tokens"
    assert found.as_plain()["tokens"] is None


def test_one_length_alone_has_no_crossover() -> None:
    assert of((16, 1.0, 2.0)).changes == ()


def test_a_way_that_is_cheaper_only_in_between_is_told_and_not_made_into_one_crossover() -> None:
    found = of((16, 2.0, 1.0), (32, 1.0, 2.0), (64, 2.0, 1.0))
    assert [change.cheaper for change in found.changes] == ["swap", "recompute"]
    assert found.text == "recompute is cheaper from 16 tokens on, swap from 24 on, recompute from 48 on"
    assert found.as_plain()["tokens"] is None


@pytest.mark.parametrize("middle", [(32, 3.0, 3.0), (32, 3.0, 2.9999999), (32, 3.0, 3.0000001)])
def test_a_tie_at_a_measured_length_is_the_crossover(middle: tuple[int, float, float]) -> None:
    assert [round(change.tokens) for change in of((16, 3.0, 1.0), middle, (64, 3.0, 7.0)).changes] == [32]


def test_lengths_are_whole_blocks_that_double() -> None:
    assert lengths(2_048) == [16, 32, 64, 128, 256, 512, 1_024, 2_048]
    assert lengths(100) == [16, 32, 64]


def test_a_turn_computes_the_tokens_alone_then_the_others_without_and_with_them() -> None:
    runner, samples = FakeRunner(), Samples(32)
    ticks = ModelTicks(runner, 60)  # type: ignore[arg-type]
    runner.ticks.clear(), runner.copied.clear()
    take_turn(ticks, samples, random.Random(0))
    assert runner.ticks == [32, 7, 39]
    assert (samples.alone, samples.growth) == ([0.032], [pytest.approx(0.032)])


def test_a_turn_copies_out_whole_blocks_and_in_to_others() -> None:
    runner, samples = FakeRunner(), Samples(64)
    ticks = ModelTicks(runner, 60)  # type: ignore[arg-type]
    runner.copied.clear()
    take_turn(ticks, samples, random.Random(0))
    [(out, source), (back, target)] = runner.copied
    assert (out, back, len(source), len(target), len({*source, *target})) == ("out", "in", 4, 4, 8)
    assert (len(samples.copy_out), len(samples.copy_in)) == (1, 1)


def test_short_lengths_are_measured_more_often() -> None:
    results = measure(FakeRunner(), lengths(512), 3, lambda text: None)  # type: ignore[arg-type]
    turns = {samples.tokens: len(samples.growth) for samples in results}
    assert turns == {16: 24, 32: 12, 64: 6, 128: 3, 256: 3, 512: 3}


def samples_of(tokens: int, copy: float, alone: float, growth: float) -> Samples:
    return Samples(tokens, [copy, copy, 9.0], [copy, copy, 9.0], [alone] * 3, [0.0, growth, growth])


def document() -> dict:
    results = [samples_of(16, 1.0, 3.0, 1.0), samples_of(32, 1.0, 6.0, 3.0)]
    return report.document(results, BACKEND, MACHINE, {"torch": "2.0"})


def test_a_document_has_the_medians_of_every_way_and_its_bytes() -> None:
    row = document()["rows"][1]
    assert (row["tokens"], row["bytes"], row["turns"]) == (32, 32_000, 3)
    assert (row["swap_s"], row["recompute_alone_s"], row["recompute_in_company_s"]) == (2.0, 6.0, 3.0)
    assert row["swap_range_s"] == [2.0, 18.0]


def test_a_document_has_both_crossovers_and_what_they_depend_on() -> None:
    figures = document()
    assert figures["crossover"]["alone"]["tokens"] is None
    assert figures["crossover"]["in_company"]["tokens"] == 24.0
    assert figures["depends_on"] == {
        "at_tokens": 32,
        "kv_bytes_per_token": 1_000,
        "copied_bytes_per_s": 32_000.0,
        "equal_at_bytes_per_s": pytest.approx(64_000 / 3),
        "recomputed_tokens_per_s_alone": 32 / 6,
        "recomputed_tokens_per_s_in_company": 32 / 3,
    }
    assert figures["company"] == "7 decodes at 100"


def test_the_tables_and_remarks_tell_every_length_and_machine() -> None:
    figures, out = document(), io.StringIO()
    console = Console(file=out, width=140)
    for table in report.tables(figures):
        console.print(table)
    told = out.getvalue() + "\n".join(report.remarks(figures, MACHINE))
    assert all(row["title"] in told for row in figures["modelled"])
    assert "2,000.0 ms" in told
    assert "in company: recompute is cheaper from 16 tokens on, swap from 24 on" in told


def test_by_the_model_a_gpu_recomputes_short_texts_while_it_reads_the_weights_anyway() -> None:
    gpu = machine("llama-3.1-8b-a100")
    found = crossover(gpu)
    [change] = found.changes
    assert (found.cheaper, change.cheaper) == ("recompute", "swap")
    below, above = point(gpu, int(change.tokens) // 16 * 16), point(gpu, int(change.tokens) // 16 * 16 + 16)
    assert below.recompute < below.swap
    assert above.swap < above.recompute


def test_by_the_model_a_swap_costs_both_copies_and_nothing_else() -> None:
    gpu = machine("llama-3.1-8b-h100")
    copied = 2 * 160 * LLAMA_31_8B.kv_bytes_per_token
    assert point(gpu, 160).swap == pytest.approx(copied / gpu.host_bandwidth)


def test_by_the_model_a_slower_bus_makes_recompute_worth_while_for_longer() -> None:
    gpu = machine("llama-3.1-8b-a100")
    fast, slow = (crossover(dataclasses.replace(gpu, host_bandwidth=bus)).changes for bus in (32e9, 8e9))
    assert fast[0].tokens < slow[0].tokens
    assert crossover(dataclasses.replace(gpu, host_bandwidth=1e6)).text.startswith("none: recompute is cheaper")


def test_every_machine_with_a_model_has_a_modelled_crossover_on_its_own_bus() -> None:
    own = [row["machine"] for row in crossovers() if row["is_its_own_bus"]]
    assert own == ["smollm2-cpu", "llama-3.1-8b-a100", "llama-3.1-8b-h100"]


@pytest.mark.model
@pytest.mark.alone
def test_the_command_measures_the_real_model_and_prints_json_alone() -> None:
    done = tickscope("bench", "swap", "--rounds", "1", "--longest", "32", "--json", "-")
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)
    assert figures["benchmark"] == "swap"
    assert [(row["tokens"], row["bytes"], row["turns"]) for row in figures["rows"]] == [
        (16, 16 * 45 * 1024, 8),
        (32, 32 * 45 * 1024, 4),
    ]
    names = ("copy_out_s", "copy_in_s", "recompute_alone_s")
    assert all(row[name] > 0 for row in figures["rows"] for name in names)
    assert figures["crossover"].keys() == {"alone", "in_company"}
    assert figures["versions"].keys() == {"python", "torch", "transformers", "numba", "numpy"}

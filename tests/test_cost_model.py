"""How long a tick takes: counts by hand, and the shape of the curve."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from scheduler_core.cost_model import (
    LLAMA_31_8B,
    MACHINES,
    SMOLLM2_135M,
    Work,
    machine,
    tick_seconds,
)
from scheduler_core.errors import ConfigError
from scheduler_core.output import BlockCopy, SchedulerOutput
from tests.helpers import create_engine, create_request, run
from tests.trace_builders import decode, item

ROOT = Path(__file__).parents[1]


def batch(*items: object, out: int = 0) -> SchedulerOutput:
    return SchedulerOutput(0, items, (BlockCopy("A", tuple(range(out))),) if out else ())  # type: ignore[arg-type]


def test_weights_of_the_models_are_those_of_their_published_sizes():
    assert SMOLLM2_135M.body_weights + SMOLLM2_135M.head_weights == pytest.approx(134.5e6, rel=0.001)
    assert LLAMA_31_8B.body_weights + 2 * LLAMA_31_8B.head_weights == pytest.approx(8.03e9, rel=0.001)


def test_kv_of_a_token_is_two_vectors_a_layer():
    assert SMOLLM2_135M.kv_bytes_per_token == 45 * 1024
    assert LLAMA_31_8B.kv_bytes_per_token == 128 * 1024


def test_every_tick_of_the_unit_machine_lasts_a_second():
    for output in (batch(), batch(decode("A", 5, 1)), batch(item("A", 0, 500), out=9)):
        assert tick_seconds(output, machine("unit")) == 1.0


def test_an_unknown_machine_is_an_error_that_names_the_choices():
    with pytest.raises(ConfigError, match=r"'abacus'.*unit.*smollm2-cpu.*a100.*h100"):
        machine("abacus")


def test_a_causal_chunk_attends_to_all_before_it_and_half_of_itself():
    assert Work.of(batch(item("A", 0, 1))).pairs == 1
    assert Work.of(batch(item("A", 0, 4))).pairs == 1 + 2 + 3 + 4
    assert Work.of(batch(item("A", 10, 3))).pairs == 11 + 12 + 13


def test_attention_of_a_prompt_costs_the_same_whole_or_in_chunks():
    chunks, whole = batch(item("A", 0, 10), item("B", 10, 20), item("C", 30, 2)), batch(item("A", 0, 32))
    assert Work.of(chunks).flops(SMOLLM2_135M) == Work.of(whole).flops(SMOLLM2_135M)


def test_only_sampling_positions_pay_for_the_vocabulary():
    silent, sampling = Work.of(batch(item("A", 0, 8))), Work.of(batch(item("A", 0, 8, samples=True)))
    head = SMOLLM2_135M.head_weights
    assert sampling.flops(SMOLLM2_135M) - silent.flops(SMOLLM2_135M) == 2 * head
    assert sampling.bytes(SMOLLM2_135M) - silent.bytes(SMOLLM2_135M) == 4 * head


def test_bytes_grow_with_the_context():
    near, far = (Work.of(batch(decode("A", position, 1))).bytes(LLAMA_31_8B) for position in (9, 1_009))
    assert far - near == 1_000 * LLAMA_31_8B.kv_bytes_per_token


def test_a_tick_without_a_batch_costs_the_overhead():
    for each in MACHINES.values():
        assert tick_seconds(batch(), each) == each.overhead_s


def test_decodes_are_bound_by_memory_and_long_prompts_by_arithmetic_on_a_gpu():
    gpu = machine("llama-3.1-8b-h100")
    decodes = Work.of(batch(*(decode(f"R{i}", 500, 1) for i in range(8))))
    prompt = Work.of(batch(item("A", 0, 4_096, samples=True)))
    assert decodes.bytes(gpu.model) / gpu.memory_bandwidth > decodes.flops(gpu.model) / gpu.peak_flops
    assert prompt.flops(gpu.model) / gpu.peak_flops > prompt.bytes(gpu.model) / gpu.memory_bandwidth


def test_a_second_decode_is_nearly_free_on_a_gpu():
    gpu = machine("llama-3.1-8b-a100")
    one = tick_seconds(batch(decode("A", 100, 1)), gpu)
    two = tick_seconds(batch(decode("A", 100, 1), decode("B", 100, 1)), gpu)
    assert one < two < 1.01 * one


def test_the_faster_machine_is_faster():
    work = batch(item("A", 0, 512, samples=True))
    a100, h100 = machine("llama-3.1-8b-a100"), machine("llama-3.1-8b-h100")
    assert (
        tick_seconds(work, h100)
        < tick_seconds(work, a100)
        < tick_seconds(work, dataclasses.replace(a100, overhead_s=9))
    )


def test_copies_to_the_host_take_their_time():
    cpu = machine("smollm2-cpu")
    saved = 3 * 16 * SMOLLM2_135M.kv_bytes_per_token / cpu.host_bandwidth
    assert tick_seconds(batch(out=3), cpu, block_size=16) == pytest.approx(cpu.overhead_s + saved)


def test_the_cpu_machine_is_near_what_was_measured():
    """The shipped calibration lists each tick's parts with its seconds; half of them are met within a tenth."""
    kept = json.loads((ROOT / "assets" / "benchmarks" / "calibrate.json").read_text())
    cpu = machine("smollm2-cpu")
    fitted = kept["fitted"]["constants"]
    assert cpu.peak_flops == pytest.approx(fitted["peak_flops"], rel=0.02)
    assert cpu.memory_bandwidth == pytest.approx(fitted["memory_bandwidth"], rel=0.02)
    assert cpu.host_bandwidth == pytest.approx(fitted["host_bandwidth"], rel=0.02)
    assert cpu.overhead_s == pytest.approx(fitted["overhead_s"], rel=0.02)
    eight = batch(*(decode(f"R{i}", 50, 1) for i in range(8)))
    assert tick_seconds(eight, cpu) == pytest.approx(0.0211, rel=0.1)


def test_the_clock_of_a_run_is_the_sum_of_its_ticks_with_the_copies_of_its_blocks():
    engine = create_engine(cost="smollm2-cpu", max_num_seqs=1, quantum=2)
    made = run(engine, create_request("A", 40, 5), create_request("B", 40, 5))
    assert any(record.output.copies_in for record in made.records)
    seconds = [tick_seconds(record.output, machine("smollm2-cpu"), engine.config.block_size) for record in made.records]
    assert [record.end - record.start for record in made.records] == pytest.approx(seconds)

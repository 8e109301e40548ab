"""The compiled forward against transformers' own, over random ticks of models of several shapes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import LlamaConfig, LlamaForCausalLM

from scheduler_core.backends.cpu_forward import CpuForward, can_run
from scheduler_core.backends.llama_kernels import exp
from scheduler_core.backends.paged_attention import TransformersForward
from scheduler_core.backends.ragged_batch import RaggedBatch
from scheduler_core.output import ScheduledRequest
from scheduler_core.request import SamplingParams

VOCABULARY = 101


@settings(max_examples=300, deadline=None)
@given(st.floats(-87.0, 88.0, width=32))
def test_exp_is_that_of_numpy_to_the_last_places(number: float) -> None:
    assert exp(np.float32(number)) == pytest.approx(float(np.exp(np.float64(number))), rel=3e-7)


def test_exp_of_what_is_out_of_range_is_tiny_or_huge_and_of_nan_is_nan() -> None:
    low, high = exp(np.float32(-np.inf)), exp(np.float32(np.inf))
    assert 0.0 < low < 1e-37
    assert 1e38 < high < np.inf
    assert np.isnan(exp(np.float32(np.nan)))


@dataclass(frozen=True)
class Shape:
    """Of a model; `wide` has more columns than a panel in every matrix."""

    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    mlp: int
    tied: bool = True


SHAPES = {
    "smollm": Shape(hidden=99, heads=9, kv_heads=3, head_dim=64, mlp=160),
    "no groups": Shape(hidden=40, heads=2, kv_heads=2, head_dim=20, mlp=50),
    "one kv head": Shape(hidden=24, heads=4, kv_heads=1, head_dim=6, mlp=100, tied=False),
}


@cache
def forwards(name: str) -> tuple[Any, CpuForward, TransformersForward]:
    shape = SHAPES[name]
    torch.manual_seed(7)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=shape.hidden,
        intermediate_size=shape.mlp,
        num_hidden_layers=2,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads,
        head_dim=shape.head_dim,
        max_position_embeddings=256,
        initializer_range=0.2,
        tie_word_embeddings=shape.tied,
    )
    model = LlamaForCausalLM(config).eval()
    assert can_run(model)
    return model, CpuForward(model), TransformersForward(model)


@st.composite
def ticks(draw: st.DrawFn) -> list[tuple[int, int]]:
    """(tokens before, tokens now) of each request."""
    decodes = draw(st.lists(st.tuples(st.integers(0, 120), st.just(1)), max_size=12))
    chunks = draw(st.lists(st.tuples(st.integers(0, 120), st.integers(2, 70)), max_size=3))
    return draw(st.permutations(decodes + chunks).filter(bool))


def batch_and_memory(name: str, tick: list[tuple[int, int]], block_size: int) -> tuple[RaggedBatch, Any]:
    """Requests with random tokens and random KV so far, on blocks in random order."""
    rng = np.random.default_rng(len(tick))
    counts = [-(-(before + now) // block_size) for before, now in tick]
    blocks = iter(rng.permutation(sum(counts)).tolist())
    items = [
        ScheduledRequest(
            str(n), tuple(rng.integers(0, VOCABULARY, now).tolist()), before, tuple(next(blocks) for _ in range(count)),
            True, 0, SamplingParams(), 0,
        )
        for n, ((before, now), count) in enumerate(zip(tick, counts, strict=True))
    ]  # fmt: skip
    shape = SHAPES[name]
    slots = sum(counts) * block_size
    memory = rng.standard_normal((2, 2, slots, shape.kv_heads, shape.head_dim)).astype(np.float32)
    return RaggedBatch.make(items, block_size), torch.from_numpy(memory)


@pytest.mark.parametrize("name", SHAPES)
@settings(max_examples=25, deadline=None)
@given(tick=ticks(), block_size=st.sampled_from([1, 4, 16]), threads=st.sampled_from([1, 2, 3]))
def test_a_tick_is_that_of_transformers(name: str, tick: list[tuple[int, int]], block_size: int, threads: int) -> None:
    _, compiled, usual = forwards(name)
    batch, memory = batch_and_memory(name, tick, block_size)
    expected_memory = memory.clone()
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with torch.inference_mode():
            got, expected = compiled.hidden(batch, memory), usual.hidden(batch, expected_memory)
            scores, expected_scores = compiled.logits(got), usual.logits(expected)
    finally:
        torch.set_num_threads(before)
    torch.testing.assert_close(memory, expected_memory, rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(got, expected, rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(scores, expected_scores, rtol=1e-3, atol=2e-3)


@pytest.mark.parametrize("spoiled", [0, 1, 2])
def test_a_request_whose_kv_is_no_number_spoils_its_own_rows_only(spoiled: int) -> None:
    _, compiled, _ = forwards("smollm")
    batch, memory = batch_and_memory("smollm", [(40, 1), (33, 20), (50, 9)], 16)
    with torch.inference_mode():
        clean = compiled.hidden(batch, memory.clone())
        memory[:, :, batch.items[spoiled].block_ids[0] * 16] = torch.nan
        got = compiled.hidden(batch, memory)
    end = batch.ends[str(spoiled)]
    rows = range(end - batch.items[spoiled].num_tokens, end)
    assert got[list(rows)].isnan().all()
    others = [row for row in range(len(got)) if row not in rows]
    torch.testing.assert_close(got[others], clean[others], rtol=0, atol=0)


def test_the_numbers_of_a_request_are_the_same_to_the_bit_alone_and_in_company() -> None:
    _, compiled, _ = forwards("smollm")
    tick = [(40, 1), (33, 20), (50, 9), (7, 1)]
    batch, memory = batch_and_memory("smollm", tick, 16)
    with torch.inference_mode():
        together = compiled.hidden(batch, memory.clone())
        for item in batch.items:
            alone = compiled.hidden(RaggedBatch.make([item], 16), memory.clone())
            end = batch.ends[item.request_id]
            torch.testing.assert_close(alone, together[end - item.num_tokens : end], rtol=0, atol=0)


@pytest.mark.parametrize(("name", "value"), [("hidden_act", "gelu"), ("attention_bias", True), ("mlp_bias", True)])
def test_models_of_other_parts_are_left_to_transformers(name: str, value: object) -> None:
    config = LlamaConfig(vocab_size=9, hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=1)
    setattr(config, name, value)
    assert not can_run(LlamaForCausalLM(config))

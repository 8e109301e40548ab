"""The parts of a Llama layer, against torch and numpy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import rms_norm, scaled_dot_product_attention

from scheduler_core.backends import llama_kernels
from scheduler_core.backends.panels import aligned


def normal(*shape: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@settings(max_examples=300, deadline=None)
@given(st.floats(-87.0, 88.0, width=32))
def test_exp_is_that_of_numpy_to_the_last_places(number: float) -> None:
    assert llama_kernels.exp(np.float32(number)) == pytest.approx(float(np.exp(np.float64(number))), rel=3e-7)


def test_exp_of_what_is_out_of_range_is_tiny_or_huge_and_of_nan_is_nan() -> None:
    low, high = llama_kernels.exp(np.float32(-np.inf)), llama_kernels.exp(np.float32(np.inf))
    assert 0.0 < low < 1e-37
    assert 1e38 < high < np.inf
    assert np.isnan(llama_kernels.exp(np.float32(np.nan)))


def test_norm_is_torchs() -> None:
    x, weight, out = normal(5, 48), normal(48, seed=2), aligned((5, 48))
    llama_kernels.norm(x, 5, weight, np.float32(1e-5), out)
    expected = rms_norm(torch.from_numpy(x), (48,), torch.from_numpy(weight), 1e-5)
    np.testing.assert_allclose(out, expected.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("group", "kv_heads", "head_dim"), [(3, 3, 64), (4, 1, 20)])
@pytest.mark.parametrize("lengths", [[1], [16], [17, 5, 33], [40] * 9])
def test_attention_of_single_tokens_is_torchs_over_each_ones_own_blocks(
    group: int, kv_heads: int, head_dim: int, lengths: list[int]
) -> None:
    block_size, blocks = 16, 4
    rows, heads = len(lengths), group * kv_heads
    keys, values = normal(2, rows * blocks * block_size, kv_heads, head_dim)
    tables = np.random.default_rng(3).permutation(rows * blocks).reshape(rows, blocks)
    qkv, out = normal(rows, (heads + 2 * kv_heads) * head_dim + 5, seed=4), aligned((rows, heads * head_dim))
    attend = llama_kernels.make_attend_singles(group, head_dim)
    attend(qkv, rows, keys, values, tables, block_size, np.array(lengths), np.float32(head_dim**-0.5), out)
    for row, length in enumerate(lengths):
        slots = (tables[row][:, None] * block_size + np.arange(block_size)).ravel()[:length]
        query = torch.from_numpy(qkv[row, : heads * head_dim].reshape(heads, 1, head_dim))
        seen = [torch.from_numpy(part[slots]).transpose(0, 1) for part in (keys, values)]
        expected = scaled_dot_product_attention(query[None], seen[0][None], seen[1][None], enable_gqa=True)
        np.testing.assert_allclose(out[row], expected.numpy().ravel(), rtol=1e-4, atol=1e-5)


def test_a_sequence_that_is_no_number_spoils_its_own_row_only() -> None:
    keys, values = normal(2, 32, 1, 8)
    keys[20] = np.nan
    qkv, out = normal(2, 24), aligned((2, 8))
    tables, lengths = np.array([[0], [1]]), np.array([16, 16])
    llama_kernels.make_attend_singles(1, 8)(qkv, 2, keys, values, tables, 16, lengths, np.float32(1.0), out)
    assert np.isfinite(out[0]).all()
    assert np.isnan(out[1]).all()

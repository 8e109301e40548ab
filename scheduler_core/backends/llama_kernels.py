"""The parts of a Llama layer between its matrix products, and the layer's two halves around the attention.

All arrays are float32, C-contiguous; `x` is the residual stream `[rows, hidden]`. Knows nothing about requests.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, prange, types
from numba.extending import intrinsic

from scheduler_core.backends.panels import FAST, WIDTH, panel_product

_LOWEST, _HIGHEST = np.float32(-87.0), np.float32(88.0)
_LOG2_E = np.float32(1.4426950408889634)
_LN2_HIGH, _LN2_LOW = np.float32(0.693359375), np.float32(-2.12194440e-4)
# exp(r) on |r| <= ln(2) / 2, from r**7 down to r**2: the coefficients of Cephes' expf.
_P7, _P6, _P5 = np.float32(1.9875691500e-4), np.float32(1.3981999507e-3), np.float32(8.3334519073e-3)
_P4, _P3, _P2 = np.float32(4.1665795894e-2), np.float32(1.6666665459e-1), np.float32(5.0000001201e-1)
_ONE, _HALF = np.float32(1.0), np.float32(0.5)


@intrinsic
def _power_of_two(typing: Any, exponent: Any) -> Any:
    """2 ** exponent for a whole float32 from -126 to 127."""

    def emit(context: Any, b: Any, signature: Any, args: Any) -> Any:
        whole = b.fptosi(args[0], ir.IntType(32))
        bits = b.shl(b.add(whole, ir.IntType(32)(127)), ir.IntType(32)(23))
        return b.bitcast(bits, ir.FloatType())

    return types.float32(types.float32), emit


@njit(cache=True, fastmath=FAST, inline="always")
def exp(number):  # type: ignore[no-untyped-def]
    """e ** number in float32 to about one unit in the last place; simple enough to be computed a vector at a time."""
    if number < _LOWEST:
        number = _LOWEST
    if number > _HIGHEST:
        number = _HIGHEST
    whole = np.floor(number * _LOG2_E + _HALF)
    rest = number - whole * _LN2_HIGH - whole * _LN2_LOW
    series = (((((_P7 * rest + _P6) * rest + _P5) * rest + _P4) * rest + _P3) * rest + _P2) * rest * rest + rest + _ONE
    return series * _power_of_two(whole)  # type: ignore[call-arg]


@njit(cache=True, fastmath=FAST)
def _rms_norm(row, weight, eps, out):  # type: ignore[no-untyped-def]
    total = np.float32(0.0)
    for i in range(weight.shape[0]):
        total += row[i] * row[i]
    factor = _ONE / np.sqrt(total / np.float32(weight.shape[0]) + eps)
    for i in range(weight.shape[0]):
        out[i] = weight[i] * (row[i] * factor)


@njit(parallel=True, cache=True, nogil=True)
def norm(x, num_rows, weight, eps, out):  # type: ignore[no-untyped-def]
    for row in prange(num_rows):
        _rms_norm(x[row], weight, eps, out[row])


@njit(cache=True, fastmath=FAST)
def _rotate(head, cos, sin):  # type: ignore[no-untyped-def]
    """RoPE in place: element i turns with element i + half."""
    half = head.shape[0] // 2
    for i in range(half):
        one, other = head[i], head[i + half]
        head[i] = one * cos[i] - other * sin[i]
        head[i + half] = other * cos[i + half] + one * sin[i + half]


@njit(parallel=True, cache=True, nogil=True)
def attention_input(  # type: ignore[no-untyped-def]
    x, num_rows, norm_weight, eps, qkv_panels, num_heads, cos, sin, keys, values, slots, normed, qkv
):
    """The layer up to its attention: K and V of every row go to its slot, the queries stand in `qkv` afterwards.

    `keys` and `values` are `[slots, kv heads, head]`, `cos` and `sin` `[rows, head]`, `slots` `[rows]`, `normed`
    `[rows, hidden]`; a row of `qkv` holds all query heads, then all key heads, then all value heads.
    """
    kv_heads, head_dim = keys.shape[1], keys.shape[2]
    for row in prange(num_rows):
        _rms_norm(x[row], norm_weight, eps, normed[row])
    for number in prange(qkv_panels.shape[0]):
        panel_product(normed, num_rows, qkv_panels, number, qkv)
    for row in prange(num_rows):
        for head in range(num_heads + kv_heads):
            _rotate(qkv[row, head * head_dim : (head + 1) * head_dim], cos[row], sin[row])
        for head in range(kv_heads):
            key = (num_heads + head) * head_dim
            value = key + kv_heads * head_dim
            for i in range(head_dim):
                keys[slots[row], head, i] = qkv[row, key + i]
                values[slots[row], head, i] = qkv[row, value + i]


def make_attend_singles(group: int, head_dim: int) -> Any:
    """The attention of single tokens, compiled for `group` query heads to a KV head and for their size.

    Arrays are indexed rather than sliced in inner loops: a slice counts references, in memory that threads share.
    """

    @njit(cache=True, fastmath=FAST)
    def scores_of(query, keys, table, length, block_size, out):  # type: ignore[no-untyped-def]
        """`out[head, :length]` = products of the queries `[heads, head_dim]` with the keys of their sequence."""
        for first in range(0, length, block_size):
            slot = table[first // block_size] * block_size
            for position in range(first, min(first + block_size, length)):
                for head in range(query.shape[0]):
                    total = np.float32(0.0)
                    for i in range(head_dim):
                        total += query[head, i] * keys[slot, head // group, i]
                    out[head, position] = total
                slot += 1

    @njit(cache=True, fastmath=FAST)
    def mix(weights, values, table, length, block_size, out):  # type: ignore[no-untyped-def]
        """`out[head]` = the values of a sequence, weighted by `weights[head, :length]`."""
        out[:] = np.float32(0.0)
        for first in range(0, length, block_size):
            slot = table[first // block_size] * block_size
            for position in range(first, min(first + block_size, length)):
                for head in range(out.shape[0]):
                    weight = weights[head, position]
                    for i in range(head_dim):
                        out[head, i] += weight * values[slot, head // group, i]
                slot += 1

    @njit(parallel=True, cache=True, nogil=True)
    def attend(qkv, num_rows, keys, values, tables, block_size, lengths, scale, out):  # type: ignore[no-untyped-def]
        """Straight from the paged memory: `tables` `[rows, blocks]`, `lengths` `[rows]` counts the tokens seen.

        A row's heads go together, so that its keys and values are read once, in the order in which they lie.
        """
        num_heads = keys.shape[1] * group
        for row in prange(num_rows):
            query = qkv[row, : num_heads * head_dim].reshape(num_heads, head_dim) * scale
            weights = np.empty((num_heads, lengths[row]), np.float32)
            mixed = np.empty((num_heads, head_dim), np.float32)
            scores_of(query, keys, tables[row], lengths[row], block_size, weights)
            for head in range(num_heads):
                _softmax(weights[head])
            mix(weights, values, tables[row], lengths[row], block_size, mixed)
            out[row] = mixed.reshape(num_heads * head_dim)

    return attend


@njit(cache=True, fastmath=FAST)
def _softmax(scores):  # type: ignore[no-untyped-def]
    highest = np.float32(-np.inf)
    for position in range(scores.shape[0]):
        highest = max(highest, scores[position])
    total = np.float32(0.0)
    for position in range(scores.shape[0]):
        scores[position] = exp(scores[position] - highest)
        total += scores[position]
    for position in range(scores.shape[0]):
        scores[position] /= total


@njit(cache=True, fastmath=FAST)
def _gated(gate, up, out):  # type: ignore[no-untyped-def]
    """SwiGLU: `silu(gate) * up`."""
    for i in range(gate.shape[0]):
        out[i] = gate[i] / (_ONE + exp(-gate[i])) * up[i]


@njit(cache=True, fastmath=FAST)
def _add(row, out):  # type: ignore[no-untyped-def]
    for i in range(out.shape[0]):
        out[i] += row[i]


@njit(parallel=True, cache=True, nogil=True)
def attention_output(  # type: ignore[no-untyped-def]
    x, num_rows, attended, o_panels, norm_weight, eps, gate_panels, up_panels, down_panels, normed, gate, up, added
):
    """The layer after its attention: output projection, norm and SwiGLU, both added to `x`."""
    for number in prange(o_panels.shape[0]):
        panel_product(attended, num_rows, o_panels, number, added)
    for row in prange(num_rows):
        _add(added[row], x[row])
        _rms_norm(x[row], norm_weight, eps, normed[row])
    for number in prange(gate_panels.shape[0]):
        panel_product(normed, num_rows, gate_panels, number, gate)
        panel_product(normed, num_rows, up_panels, number, up)
        first, end = number * WIDTH, (number + 1) * WIDTH
        for row in range(num_rows):
            _gated(gate[row, first:end], up[row, first:end], gate[row, first:end])
    for number in prange(down_panels.shape[0]):
        panel_product(gate, num_rows, down_panels, number, added)
    for row in prange(num_rows):
        _add(added[row], x[row])

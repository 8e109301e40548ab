"""Products of a few queries with keys as they lie in the paged memory, and sums of values, in LLVM's own words.

Both work on strips of a head, STRIP columns each, so that queries or sums stay in registers. Knows no blocks.
"""

from __future__ import annotations

from typing import Any

from numba import njit, types
from numba.extending import intrinsic

from scheduler_core.backends import crew  # noqa: F401  (sees to where kernels are kept)
from scheduler_core.backends.vectors import (
    F32,
    FLOAT,
    I32,
    I64,
    LANES,
    Loop,
    fused,
    load,
    load_spread,
    pointer,
    store,
    total,
)

_VECTORS = 4
#: Columns of a head that are worked on together.
STRIP = _VECTORS * LANES
MOST_ROWS = 4
_LINE = 64


def _make_dots(rows: int) -> Any:
    """`out[r, p] += queries[r, :STRIP] . keys[p, :STRIP]` for p up to `count`."""

    @intrinsic
    def dots(
        typing: Any, queries: Any, q_stride: Any, keys: Any, k_stride: Any, count: Any, out: Any, out_stride: Any
    ) -> Any:
        return types.void(*[types.intp] * 7), lambda context, builder, signature, args: _emit(context, builder, args)

    def _emit(context: Any, b: Any, args: Any) -> Any:
        queries, q_stride, keys, k_stride, count, out, out_stride = args
        held = [
            [load(b, queries, b.add(b.mul(q_stride, I64(row)), I64(v * LANES))) for v in range(_VECTORS)]
            for row in range(rows)
        ]
        loop = Loop(b, count, [])
        first = b.mul(loop.index, k_stride)
        key = [load(b, keys, b.add(first, I64(v * LANES))) for v in range(_VECTORS)]
        for row in range(rows):
            lanes = b.fmul(held[row][0], key[0])
            for v in range(1, _VECTORS):
                lanes = fused(b, held[row][v], key[v], lanes)
            place = pointer(b, out, b.add(b.mul(out_stride, I64(row)), loop.index), F32)
            b.store(b.fadd(b.load(place), total(b, lanes)), place)
        loop.end([])
        return context.get_dummy_value()

    return dots


def _make_mix(rows: int) -> Any:
    """`out[r, :STRIP] += sum over p up to count of weights[r, p] * values[p, :STRIP]`."""

    @intrinsic
    def mix(
        typing: Any, weights: Any, w_stride: Any, values: Any, v_stride: Any, count: Any, out: Any, out_stride: Any
    ) -> Any:
        return types.void(*[types.intp] * 7), lambda context, builder, signature, args: _emit(context, builder, args)

    def _emit(context: Any, b: Any, args: Any) -> Any:
        weights, w_stride, values, v_stride, count, out, out_stride = args
        places = [b.add(b.mul(out_stride, I64(row)), I64(v * LANES)) for row in range(rows) for v in range(_VECTORS)]
        loop = Loop(b, count, [load(b, out, place) for place in places])
        first = b.mul(loop.index, v_stride)
        value = [load(b, values, b.add(first, I64(v * LANES))) for v in range(_VECTORS)]
        sums = []
        for row in range(rows):
            weight = load_spread(b, weights, b.add(b.mul(w_stride, I64(row)), loop.index))
            sums += [fused(b, weight, value[v], loop.carried[row * _VECTORS + v]) for v in range(_VECTORS)]
        loop.end(sums)
        for vector, place in zip(sums, places, strict=True):
            store(b, vector, out, place)
        return context.get_dummy_value()

    return mix


_dots_1, _dots_2, _dots_3, _dots_4 = (_make_dots(rows) for rows in (1, 2, 3, 4))
_mix_1, _mix_2, _mix_3, _mix_4 = (_make_mix(rows) for rows in (1, 2, 3, 4))


@njit(cache=True)
def dots(rows, queries, q_stride, keys, k_stride, count, out, out_stride):  # type: ignore[no-untyped-def]
    """Of at most MOST_ROWS rows; all but the counts and strides, in floats, are addresses."""
    if rows == 4:
        _dots_4(queries, q_stride, keys, k_stride, count, out, out_stride)
    elif rows == 3:
        _dots_3(queries, q_stride, keys, k_stride, count, out, out_stride)
    elif rows == 2:
        _dots_2(queries, q_stride, keys, k_stride, count, out, out_stride)
    else:
        _dots_1(queries, q_stride, keys, k_stride, count, out, out_stride)


@njit(cache=True)
def mix(rows, weights, w_stride, values, v_stride, count, out, out_stride):  # type: ignore[no-untyped-def]
    """Of at most MOST_ROWS rows; all but the counts and strides, in floats, are addresses."""
    if rows == 4:
        _mix_4(weights, w_stride, values, v_stride, count, out, out_stride)
    elif rows == 3:
        _mix_3(weights, w_stride, values, v_stride, count, out, out_stride)
    elif rows == 2:
        _mix_2(weights, w_stride, values, v_stride, count, out, out_stride)
    else:
        _mix_1(weights, w_stride, values, v_stride, count, out, out_stride)


@intrinsic
def _touch(typing: Any, address: Any) -> Any:
    """Read a number and forget it: an atomic read is not optimised away."""

    def emit(context: Any, b: Any, signature: Any, args: Any) -> Any:
        b.load_atomic(b.inttoptr(args[0], I32.as_pointer()), "monotonic", 4)
        return context.get_dummy_value()

    return types.void(types.intp), emit


@njit(cache=True)
def bring(address, num_floats):  # type: ignore[no-untyped-def]
    """Read memory in order once, as the machine foresees it best; then it is near for whatever order follows."""
    for line in range(address, address + num_floats * FLOAT, _LINE):
        _touch(line)  # type: ignore[call-arg]

"""Matrix products at the speed of the machine: weights in panels, and a tile of registers compiled for this CPU.

A panel is `WIDTH` columns of the product, stored `[inputs, WIDTH]`, so that a thread reads its share of the weights
once, front to back, whatever the number of rows; the sums stay in registers. Knows nothing about models.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numba
import numpy as np
from llvmlite import binding, ir
from numba import njit, types
from numba.extending import intrinsic
from numpy.typing import NDArray

from scheduler_core.backends.crew import claim, finish, wait

Floats = NDArray[np.float32]

#: NaN must stay NaN: a request whose values are no numbers is found by them.
FAST = {"contract", "reassoc", "arcp", "nsz"}
_ALIGNMENT = 64


def _tile_shape() -> tuple[int, int, int]:
    """Lanes of a vector, vectors in a row of the tile, rows: as many sums as the registers hold."""
    features = numba.config.CPU_FEATURES or binding.get_host_cpu_features().flatten()  # type: ignore[attr-defined]
    if "+avx512f" in features.split(","):
        return 16, 3, 8
    if "+avx2" in features.split(","):
        return 8, 2, 6
    return 4, 4, 6


LANES, VECTORS, ROWS = _tile_shape()
WIDTH = LANES * VECTORS
#: Bytes of a number.
FLOAT = 4


def pack(weights: Sequence[Floats]) -> Floats:
    """Matrices `[outputs, inputs]` of one shape, one after the other as panels `[all panels, inputs, WIDTH]`.

    The last panel of each is filled up with zeros.
    """
    outputs, inputs = weights[0].shape
    each = num_panels(outputs)
    panels = aligned((len(weights) * each, inputs, WIDTH))
    for number, panel in enumerate(panels):
        columns = weights[number // each][number % each * WIDTH : (number % each + 1) * WIDTH]
        panel[:, : len(columns)] = columns.T
        panel[:, len(columns) :] = 0.0
    return panels


def num_panels(columns: int) -> int:
    return -(-columns // WIDTH)


def aligned(shape: tuple[int, ...]) -> Floats:
    """Memory that starts at a cache line; its content is arbitrary."""
    size = int(np.prod(shape)) * FLOAT
    raw = np.empty(size + _ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % _ALIGNMENT
    return raw[start : start + size].view(np.float32).reshape(shape)


# --- the tile, in LLVM's own words -------------------------------------------------------------------------------

_F32, _I32, _I64 = ir.FloatType(), ir.IntType(32), ir.IntType(64)
_VECTOR = ir.VectorType(_F32, LANES)


def _make_tile(rows: int) -> Any:
    """A product of `rows` rows with one panel: `out[r, :WIDTH] = sum over k of x[r, k] * panel[k, :WIDTH]`."""

    @intrinsic
    def tile(typing: Any, x: Any, x_stride: Any, panel: Any, inputs: Any, out: Any, out_stride: Any) -> Any:
        return types.void(*[types.intp] * 6), lambda context, builder, signature, args: _emit(context, builder, args)

    def _emit(context: Any, b: Any, args: Any) -> Any:
        x, x_stride, panel, inputs, out, out_stride = args
        fma = _declared(b.module, f"llvm.fma.v{LANES}f32", ir.FunctionType(_VECTOR, [_VECTOR] * 3))
        x_rows = [_pointer(b, x, b.mul(x_stride, _I64(FLOAT * row)), _F32) for row in range(rows)]
        before, loop, after = b.block, b.append_basic_block("loop"), b.append_basic_block("after")
        b.branch(loop)
        b.position_at_end(loop)
        k = b.phi(_I64)
        sums = [b.phi(_VECTOR) for _ in range(rows * VECTORS)]
        first = b.mul(k, _I64(WIDTH * FLOAT))
        weights = [_load(b, panel, b.add(first, _I64(v * LANES * FLOAT))) for v in range(VECTORS)]
        after_step = []
        for row in range(rows):
            factor = _spread(b, b.load(b.gep(x_rows[row], [k])))
            for v in range(VECTORS):
                after_step.append(b.call(fma, [factor, weights[v], sums[row * VECTORS + v]]))
        next_k = b.add(k, _I64(1))
        k.add_incoming(_I64(0), before)
        k.add_incoming(next_k, loop)
        for total, new in zip(sums, after_step, strict=True):
            total.add_incoming(ir.Constant(_VECTOR, [0.0] * LANES), before)
            total.add_incoming(new, loop)
        b.cbranch(b.icmp_signed("<", next_k, inputs), loop, after)
        b.position_at_end(after)
        for row in range(rows):
            for v in range(VECTORS):
                offset = b.add(b.mul(out_stride, _I64(FLOAT * row)), _I64(v * LANES * FLOAT))
                b.store(after_step[row * VECTORS + v], _pointer(b, out, offset, _VECTOR)).align = FLOAT
        return context.get_dummy_value()

    return tile


def _declared(module: Any, name: str, kind: Any) -> Any:
    return module.globals.get(name) or ir.Function(module, kind, name=name)


def _pointer(b: Any, base: Any, offset: Any, kind: Any) -> Any:
    return b.inttoptr(b.add(base, offset), kind.as_pointer())


def _load(b: Any, base: Any, offset: Any) -> Any:
    loaded = b.load(_pointer(b, base, offset, _VECTOR))
    loaded.align = FLOAT
    return loaded


def _spread(b: Any, number: Any) -> Any:
    """A vector with `number` in every lane."""
    nothing = ir.Constant(_VECTOR, ir.Undefined)
    one = b.insert_element(nothing, number, _I32(0))
    return b.shuffle_vector(one, nothing, ir.Constant(ir.VectorType(_I32, LANES), [0] * LANES))


_tile_1, _tile_2, _tile_3, _tile_4 = (_make_tile(rows) for rows in (1, 2, 3, 4))
_tile_5, _tile_6, _tile_7, _tile_8 = (_make_tile(rows) for rows in (5, 6, 7, 8))


@njit(cache=True)
def _tile(rows, x, x_stride, panel, inputs, out, out_stride):  # type: ignore[no-untyped-def]
    if rows == 8:
        _tile_8(x, x_stride, panel, inputs, out, out_stride)
    elif rows == 7:
        _tile_7(x, x_stride, panel, inputs, out, out_stride)
    elif rows == 6:
        _tile_6(x, x_stride, panel, inputs, out, out_stride)
    elif rows == 5:
        _tile_5(x, x_stride, panel, inputs, out, out_stride)
    elif rows == 4:
        _tile_4(x, x_stride, panel, inputs, out, out_stride)
    elif rows == 3:
        _tile_3(x, x_stride, panel, inputs, out, out_stride)
    elif rows == 2:
        _tile_2(x, x_stride, panel, inputs, out, out_stride)
    else:
        _tile_1(x, x_stride, panel, inputs, out, out_stride)


@njit(cache=True)
def tile_product(x, first_row, num_rows, first_column, panel, inputs, out, out_row, out_column):  # type: ignore[no-untyped-def]
    """`out` = rows of `x`, from a column on, times the panel at an address; at most ROWS of them."""
    _tile(
        num_rows,
        x.ctypes.data + (first_row * x.shape[1] + first_column) * FLOAT,
        x.shape[1],
        panel,
        inputs,
        out.ctypes.data + (out_row * out.shape[1] + out_column) * FLOAT,
        out.shape[1],
    )


@njit(cache=True)
def panel_product(x, num_rows, panels, number, out, column):  # type: ignore[no-untyped-def]
    """`out[:, column ..]` = `x @` panel, for the first `num_rows` rows."""
    inputs = panels.shape[1]
    panel = panels.ctypes.data + number * inputs * WIDTH * FLOAT
    tiles = -(-num_rows // ROWS)
    for tile in range(tiles):
        # Tiles of like height: nine rows are five and four.
        first, end = tile * num_rows // tiles, (tile + 1) * num_rows // tiles
        tile_product(x, first, end - first, 0, panel, inputs, out, first, column)


@njit(cache=True, nogil=True)
def product(phases, x, num_rows, panels, out):  # type: ignore[no-untyped-def]
    """`out[:num_rows] = x[:num_rows] @ weights`; `out` is as wide as all panels together. One phase."""
    number = claim(phases, 0)
    while number < panels.shape[0]:
        panel_product(x, num_rows, panels, number, out, number * WIDTH)
        finish(phases, 0)
        number = claim(phases, 0)
    wait(phases, 0, panels.shape[0])

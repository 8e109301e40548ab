"""Matrix products at the speed of the machine: weights in panels, and a tile of registers compiled for this CPU.

A panel is `WIDTH` columns of the product, stored `[inputs, WIDTH]`, so that a thread reads its share of the weights
once, front to back, whatever the number of rows; the sums stay in registers. Knows nothing about models.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numba import njit, types
from numba.extending import intrinsic
from numpy.typing import NDArray

from scheduler_core.backends.crew import claim, finish, wait
from scheduler_core.backends.vectors import (
    FLOAT,
    I64,
    LANES,
    ROWS,
    VECTORS,
    ZERO,
    Loop,
    fused,
    load,
    load_spread,
    store,
)

Floats = NDArray[np.float32]

#: NaN must stay NaN: a request whose values are no numbers is found by them.
FAST = {"contract", "reassoc", "arcp", "nsz"}
_ALIGNMENT = 64


WIDTH = LANES * VECTORS


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


def _make_tile(rows: int) -> Any:
    """A product of `rows` rows with one panel: `out[r, :WIDTH] = sum over k of x[r, k] * panel[k, :WIDTH]`."""

    @intrinsic
    def tile(typing: Any, x: Any, x_stride: Any, panel: Any, inputs: Any, out: Any, out_stride: Any) -> Any:
        return types.void(*[types.intp] * 6), lambda context, builder, signature, args: _emit(context, builder, args)

    def _emit(context: Any, b: Any, args: Any) -> Any:
        x, x_stride, panel, inputs, out, out_stride = args
        row_starts = [b.mul(x_stride, I64(row)) for row in range(rows)]
        loop = Loop(b, inputs, [ZERO] * (rows * VECTORS))
        first = b.mul(loop.index, I64(WIDTH))
        weights = [load(b, panel, b.add(first, I64(v * LANES))) for v in range(VECTORS)]
        sums = []
        for row, start in enumerate(row_starts):
            factor = load_spread(b, x, b.add(start, loop.index))
            sums += [fused(b, factor, weights[v], loop.carried[row * VECTORS + v]) for v in range(VECTORS)]
        loop.end(sums)
        for row in range(rows):
            for v in range(VECTORS):
                store(b, sums[row * VECTORS + v], out, b.add(b.mul(out_stride, I64(row)), I64(v * LANES)))
        return context.get_dummy_value()

    return tile


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

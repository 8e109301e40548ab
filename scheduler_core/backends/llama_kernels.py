"""A Llama's layers as one kernel for a crew of threads: phases of items, from the embeddings to the last hidden state.

All arrays are C-contiguous, numbers float32. Knows nothing about requests.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic
from numpy.typing import NDArray

from scheduler_core.backends.attention_tiles import MOST_ROWS, STRIP, bring, dots, mix
from scheduler_core.backends.crew import claim, finish, wait
from scheduler_core.backends.panels import FAST, WIDTH, Floats, panel_product, tile_product
from scheduler_core.backends.vectors import FLOAT

Ints = NDArray[np.int64]

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


class Weights(NamedTuple):
    """All layers' weights; matrices as panels, one layer after the other, the others `[layer, hidden]`."""

    attention_norm: Floats
    qkv: Floats
    o: Floats
    mlp_norm: Floats
    gate: Floats
    up: Floats
    down: Floats
    final_norm: Floats
    eps: np.float32


class Room(NamedTuple):
    """What is computed on the way through a layer, `[rows, columns]`, and a chunk's keys and values as panels.

    `keys` `[panels, head, WIDTH]` holds the keys of WIDTH positions of a KV head, `values` `[parts of a head,
    positions, WIDTH]` the values of as many; see `Chunks`.
    """

    x: Floats
    normed: Floats
    qkv: Floats
    attended: Floats
    gate: Floats
    up: Floats
    added: Floats
    keys: Floats
    values: Floats


class Rows(NamedTuple):
    """A tick's rows: `cos` and `sin` `[rows, head]` of their positions, the `slots` that they write."""

    cos: Floats
    sin: Floats
    slots: Ints


class Singles(NamedTuple):
    """The first rows, a token each of a sequence: `tables` `[rows, blocks]`, and how many tokens each sees."""

    tables: Ints
    lengths: Ints
    block_size: int


class Chunks(NamedTuple):
    """The other rows: several tokens of one sequence each.

    `seen` are the slots that all chunks see, one chunk after the other. A gather `[first seen, how many, KV head,
    panel]` brings the keys and values of up to WIDTH positions together; a task `[first row, rows, position of the
    first row, head, first panel]` is the attention of at most ROWS rows of a head.
    """

    seen: Ints
    gathers: Ints
    tasks: Ints


PHASES_OF_A_LAYER = 9
_ROWS_AT_ONCE = 8
#: Of one sequence; their keys or values fit into the first cache.
_POSITIONS_AT_ONCE = 16


def num_phases(num_layers: int) -> int:
    return num_layers * PHASES_OF_A_LAYER + 1


@njit(cache=True, nogil=True)
def forward(phases, weights, room, rows, singles, chunks, kv, num_heads, scale):  # type: ignore[no-untyped-def]
    """From the embeddings in `room.x` to the last hidden state in `room.normed`; `kv` `[layer, 2, slots, ...]`."""
    num_rows = rows.slots.shape[0]
    phase = 0
    for layer in range(kv.shape[0]):
        keys, values = kv[layer, 0], kv[layer, 1]
        phase = _attention_input(phases, phase, layer, weights, room, rows, keys, values, num_heads)
        phase = _attention(phases, phase, room, singles, chunks, keys, values, num_heads, scale)
        phase = _attention_output(phases, phase, layer, weights, room, num_rows)
    _norm_rows(phases, phase, room.x, num_rows, weights.final_norm, weights.eps, room.normed)


@njit(cache=True)
def _norm_rows(phases, phase, x, num_rows, weight, eps, out):  # type: ignore[no-untyped-def]
    groups = -(-num_rows // _ROWS_AT_ONCE)
    group = claim(phases, phase)
    while group < groups:
        for row in range(group * _ROWS_AT_ONCE, min((group + 1) * _ROWS_AT_ONCE, num_rows)):
            _rms_norm(x, row, weight, eps, out)
        finish(phases, phase)
        group = claim(phases, phase)
    wait(phases, phase, groups)
    return phase + 1


@njit(cache=True)
def _attention_input(phases, phase, layer, weights, room, rows, keys, values, num_heads):  # type: ignore[no-untyped-def]
    """K and V of every row go to its slot; the queries stand in `room.qkv` afterwards."""
    num_rows = rows.slots.shape[0]
    phase = _norm_rows(phases, phase, room.x, num_rows, weights.attention_norm[layer], weights.eps, room.normed)
    each = weights.qkv.shape[0] // weights.attention_norm.shape[0]
    number = claim(phases, phase)
    while number < each:
        panel_product(room.normed, num_rows, weights.qkv, layer * each + number, room.qkv, number * WIDTH)
        finish(phases, phase)
        number = claim(phases, phase)
    wait(phases, phase, each)
    phase += 1
    groups = -(-num_rows // _ROWS_AT_ONCE)
    group = claim(phases, phase)
    while group < groups:
        for row in range(group * _ROWS_AT_ONCE, min((group + 1) * _ROWS_AT_ONCE, num_rows)):
            _rotate_and_keep(row, room.qkv, rows, keys, values, num_heads)
        finish(phases, phase)
        group = claim(phases, phase)
    wait(phases, phase, groups)
    return phase + 1


@njit(cache=True, fastmath=FAST)
def _rotate_and_keep(row, qkv, rows, keys, values, num_heads):  # type: ignore[no-untyped-def]
    """RoPE on a row's queries and keys, in place: element i turns with element i + half; K and V to the slot."""
    kv_heads, head_dim = keys.shape[1], keys.shape[2]
    half, slot = head_dim // 2, rows.slots[row]
    for head in range(num_heads + kv_heads):
        first = head * head_dim
        for i in range(half):
            one, other = qkv[row, first + i], qkv[row, first + half + i]
            qkv[row, first + i] = one * rows.cos[row, i] - other * rows.sin[row, i]
            qkv[row, first + half + i] = other * rows.cos[row, half + i] + one * rows.sin[row, half + i]
    for head in range(kv_heads):
        key = (num_heads + head) * head_dim
        value = key + kv_heads * head_dim
        for i in range(head_dim):
            keys[slot, head, i] = qkv[row, key + i]
            values[slot, head, i] = qkv[row, value + i]


@njit(cache=True)
def _attention(phases, phase, room, singles, chunks, keys, values, num_heads, scale):  # type: ignore[no-untyped-def]
    num_gathers = chunks.gathers.shape[0]
    item = claim(phases, phase)
    while item < num_gathers:
        _gather(item, chunks, keys, values, room.keys, room.values)
        finish(phases, phase)
        item = claim(phases, phase)
    wait(phases, phase, num_gathers)
    phase += 1
    num_singles = singles.lengths.shape[0]
    num_items = num_singles + chunks.tasks.shape[0]
    item = claim(phases, phase)
    while item < num_items:
        if item < num_singles:
            _attend_single(item, room.qkv, singles, keys, values, num_heads, scale, room.attended)
        else:
            _attend_chunk(item - num_singles, room, chunks, keys.shape[2], scale)
        finish(phases, phase)
        item = claim(phases, phase)
    wait(phases, phase, num_items)
    return phase + 1


@njit(cache=True)
def _attention_output(phases, phase, layer, weights, room, num_rows):  # type: ignore[no-untyped-def]
    """Output projection, norm and SwiGLU, both added to `room.x`."""
    num_layers = weights.attention_norm.shape[0]
    phase = _add_product(phases, phase, room.attended, num_rows, weights.o, layer, num_layers, room)
    phase = _norm_rows(phases, phase, room.x, num_rows, weights.mlp_norm[layer], weights.eps, room.normed)
    each = weights.gate.shape[0] // num_layers
    number = claim(phases, phase)
    while number < each:
        panel_product(room.normed, num_rows, weights.gate, layer * each + number, room.gate, number * WIDTH)
        panel_product(room.normed, num_rows, weights.up, layer * each + number, room.up, number * WIDTH)
        _gate(room.gate, room.up, num_rows, number * WIDTH)
        finish(phases, phase)
        number = claim(phases, phase)
    wait(phases, phase, each)
    return _add_product(phases, phase + 1, room.gate, num_rows, weights.down, layer, num_layers, room)


@njit(cache=True)
def _add_product(phases, phase, x, num_rows, panels, layer, num_layers, room):  # type: ignore[no-untyped-def]
    """`room.x += x @ weights`."""
    each = panels.shape[0] // num_layers
    number = claim(phases, phase)
    while number < each:
        column = number * WIDTH
        panel_product(x, num_rows, panels, layer * each + number, room.added, column)
        for row in range(num_rows):
            for i in range(column, min(column + WIDTH, room.x.shape[1])):
                room.x[row, i] += room.added[row, i]
        finish(phases, phase)
        number = claim(phases, phase)
    wait(phases, phase, each)
    return phase + 1


# --- the parts ---------------------------------------------------------------------------------------------------
# Arrays are indexed rather than sliced in inner loops: a slice counts references, in memory that threads share.


@njit(cache=True, fastmath=FAST)
def _rms_norm(x, row, weight, eps, out):  # type: ignore[no-untyped-def]
    total = np.float32(0.0)
    for i in range(weight.shape[0]):
        total += x[row, i] * x[row, i]
    factor = _ONE / np.sqrt(total / np.float32(weight.shape[0]) + eps)
    for i in range(weight.shape[0]):
        out[row, i] = weight[i] * (x[row, i] * factor)


@njit(cache=True, fastmath=FAST)
def _gate(gate, up, num_rows, column):  # type: ignore[no-untyped-def]
    """SwiGLU of a panel's columns, in place: `silu(gate) * up`."""
    for row in range(num_rows):
        for i in range(column, column + WIDTH):
            gate[row, i] = gate[row, i] / (_ONE + exp(-gate[row, i])) * up[row, i]


@njit(cache=True, fastmath=FAST)
def _softmax(scores, row, length):  # type: ignore[no-untyped-def]
    highest = np.float32(-np.inf)
    for position in range(length):
        highest = max(highest, scores[row, position])
    total = np.float32(0.0)
    for position in range(length):
        scores[row, position] = exp(scores[row, position] - highest)
        total += scores[row, position]
    for position in range(length):
        scores[row, position] /= total


@njit(cache=True)
def _attend_single(row, qkv, singles, keys, values, num_heads, scale, out):  # type: ignore[no-untyped-def]
    """A token's attention, straight from the paged memory: its keys and values are read once, as they lie."""
    head_dim, length = keys.shape[2], singles.lengths[row]
    table, block_size = singles.tables[row], singles.block_size
    query = qkv[row, : num_heads * head_dim].reshape(num_heads, head_dim) * scale
    weights = np.zeros((num_heads, length), np.float32)
    mixed = np.zeros((num_heads, head_dim), np.float32)
    if head_dim % STRIP == 0:
        _scores_by_strips(query, keys, table, length, block_size, weights)
    else:
        _scores(query, keys, table, length, block_size, weights)
    for head in range(num_heads):
        _softmax(weights, head, length)
    if head_dim % STRIP == 0:
        _mix_by_strips(weights, values, table, length, block_size, mixed)
    else:
        _mix(weights, values, table, length, block_size, mixed)
    out[row, : num_heads * head_dim] = mixed.reshape(num_heads * head_dim)


@njit(cache=True)
def _scores_by_strips(query, keys, table, length, block_size, out):  # type: ignore[no-untyped-def]
    """`_scores`, for heads of whole strips, some positions at once."""
    kv_heads, head_dim = keys.shape[1], keys.shape[2]
    group = query.shape[0] // kv_heads
    first = 0
    while first < length:
        place = first % block_size
        slot = table[first // block_size] * block_size + place
        count = min(_POSITIONS_AT_ONCE, block_size - place, length - first)
        bring(keys.ctypes.data + slot * kv_heads * head_dim * FLOAT, count * kv_heads * head_dim)
        for head in range(0, kv_heads * group, group):
            for row in range(head, head + group, MOST_ROWS):
                for column in range(0, head_dim, STRIP):
                    dots(
                        min(MOST_ROWS, head + group - row),
                        query.ctypes.data + (row * head_dim + column) * FLOAT,
                        head_dim,
                        keys.ctypes.data + ((slot * kv_heads + head // group) * head_dim + column) * FLOAT,
                        kv_heads * head_dim,
                        count,
                        out.ctypes.data + (row * length + first) * FLOAT,
                        length,
                    )
        first += count


@njit(cache=True)
def _mix_by_strips(weights, values, table, length, block_size, out):  # type: ignore[no-untyped-def]
    """`_mix`, for heads of whole strips, some positions at once."""
    kv_heads, head_dim = values.shape[1], values.shape[2]
    group = weights.shape[0] // kv_heads
    first = 0
    while first < length:
        place = first % block_size
        slot = table[first // block_size] * block_size + place
        count = min(_POSITIONS_AT_ONCE, block_size - place, length - first)
        bring(values.ctypes.data + slot * kv_heads * head_dim * FLOAT, count * kv_heads * head_dim)
        for head in range(0, kv_heads * group, group):
            for row in range(head, head + group, MOST_ROWS):
                for column in range(0, head_dim, STRIP):
                    mix(
                        min(MOST_ROWS, head + group - row),
                        weights.ctypes.data + (row * length + first) * FLOAT,
                        length,
                        values.ctypes.data + ((slot * kv_heads + head // group) * head_dim + column) * FLOAT,
                        kv_heads * head_dim,
                        count,
                        out.ctypes.data + (row * head_dim + column) * FLOAT,
                        head_dim,
                    )
        first += count


@njit(cache=True, fastmath=FAST)
def _scores(query, keys, table, length, block_size, out):  # type: ignore[no-untyped-def]
    """`out[head, :length]` = products of the queries `[heads, head_dim]` with the keys of their sequence."""
    group = query.shape[0] // keys.shape[1]
    for first in range(0, length, block_size):
        slot = table[first // block_size] * block_size
        for position in range(first, min(first + block_size, length)):
            for head in range(query.shape[0]):
                total = np.float32(0.0)
                for i in range(query.shape[1]):
                    total += query[head, i] * keys[slot, head // group, i]
                out[head, position] = total
            slot += 1


@njit(cache=True, fastmath=FAST)
def _mix(weights, values, table, length, block_size, out):  # type: ignore[no-untyped-def]
    """`out[head]` += the values of a sequence, weighted by `weights[head, :length]`."""
    group = out.shape[0] // values.shape[1]
    for first in range(0, length, block_size):
        slot = table[first // block_size] * block_size
        for position in range(first, min(first + block_size, length)):
            for head in range(out.shape[0]):
                weight = weights[head, position]
                for i in range(out.shape[1]):
                    out[head, i] += weight * values[slot, head // group, i]
            slot += 1


@njit(cache=True)
def _gather(item, chunks, keys, values, key_panels, value_panels):  # type: ignore[no-untyped-def]
    """Bring the keys and values of a panel's positions together: keys turned, a column per position."""
    first, count, head, panel = chunks.gathers[item]
    head_dim = keys.shape[2]
    for j in range(count):
        slot = chunks.seen[first + j]
        for i in range(head_dim):
            key_panels[panel, i, j] = keys[slot, head, i]
            value_panels[i // WIDTH, panel * WIDTH + j, i % WIDTH] = values[slot, head, i]


@njit(cache=True)
def _attend_chunk(task, room, chunks, head_dim, scale):  # type: ignore[no-untyped-def]
    """Rows of a chunk: products with panels of keys, softmax over what each may see, products with the values."""
    first_row, num_rows, position, head, panel = chunks.tasks[task]
    length = position + num_rows
    panels, parts = -(-length // WIDTH), room.values.shape[0]
    weights = np.empty((num_rows, panels * WIDTH), np.float32)
    mixed = np.empty((num_rows, parts * WIDTH), np.float32)
    for number in range(panels):
        keys = room.keys.ctypes.data + (panel + number) * head_dim * WIDTH * FLOAT
        tile_product(room.qkv, first_row, num_rows, head * head_dim, keys, head_dim, weights, 0, number * WIDTH)
    for row in range(num_rows):
        _scale(weights, row, position + row + 1, length, scale)
        _softmax(weights, row, position + row + 1)
    for part in range(parts):
        values = room.values.ctypes.data + (part * room.values.shape[1] + panel * WIDTH) * WIDTH * FLOAT
        tile_product(weights, 0, num_rows, 0, values, length, mixed, 0, part * WIDTH)
    for row in range(num_rows):
        for i in range(head_dim):
            room.attended[first_row + row, head * head_dim + i] = mixed[row, i]


@njit(cache=True, fastmath=FAST)
def _scale(scores, row, seen, length, scale):  # type: ignore[no-untyped-def]
    """Scale what the row may see; it gives no weight to what comes after."""
    for position in range(seen):
        scores[row, position] *= scale
    for position in range(seen, length):
        scores[row, position] = np.float32(0.0)

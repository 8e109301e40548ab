"""Words of LLVM for vectors of float32, as wide as this CPU has them."""

from __future__ import annotations

from typing import Any

import numba
from llvmlite import binding, ir

F32, I8, I32, I64, VOID = ir.FloatType(), ir.IntType(8), ir.IntType(32), ir.IntType(64), ir.VoidType()
#: Bytes of a number.
FLOAT = 4


def _tile_shape() -> tuple[int, int, int]:
    """Lanes of a vector, vectors in a row of the tile, rows: as many sums as the registers hold."""
    features = numba.config.CPU_FEATURES or binding.get_host_cpu_features().flatten()  # type: ignore[attr-defined]
    if "+avx512f" in features.split(","):
        return 16, 3, 8
    if "+avx2" in features.split(","):
        return 8, 2, 6
    return 4, 4, 6


LANES, VECTORS, ROWS = _tile_shape()
VECTOR = ir.VectorType(F32, LANES)
ZERO = ir.Constant(VECTOR, [0.0] * LANES)


def declared(module: Any, name: str, result: Any, *arguments: Any) -> Any:
    """A function that LLVM or the system knows by name."""
    return module.globals.get(name) or ir.Function(module, ir.FunctionType(result, arguments), name=name)


def fused(b: Any, one: Any, other: Any, total: Any) -> Any:
    """`one * other + total`."""
    return b.call(declared(b.module, f"llvm.fma.v{LANES}f32", VECTOR, VECTOR, VECTOR, VECTOR), [one, other, total])


def total(b: Any, vector: Any) -> Any:
    """The sum of all lanes."""
    add = declared(b.module, f"llvm.vector.reduce.fadd.v{LANES}f32", F32, F32, VECTOR)
    return b.call(add, [F32(0.0), vector], fastmath=("reassoc",))


def pointer(b: Any, address: Any, offset: Any, kind: Any) -> Any:
    """To what lies `offset` floats after an address."""
    return b.inttoptr(b.add(address, b.mul(offset, I64(FLOAT))), kind.as_pointer())


def load(b: Any, address: Any, offset: Any) -> Any:
    vector = b.load(pointer(b, address, offset, VECTOR))
    vector.align = FLOAT
    return vector


def store(b: Any, vector: Any, address: Any, offset: Any) -> None:
    b.store(vector, pointer(b, address, offset, VECTOR)).align = FLOAT


def load_spread(b: Any, address: Any, offset: Any) -> Any:
    """A vector with one number in every lane."""
    nothing = ir.Constant(VECTOR, ir.Undefined)
    one = b.insert_element(nothing, b.load(pointer(b, address, offset, F32)), I32(0))
    return b.shuffle_vector(one, nothing, ir.Constant(ir.VectorType(I32, LANES), [0] * LANES))


class Loop:
    """`for index in range(length)`, length at least 1, with values carried from turn to turn."""

    def __init__(self, b: Any, length: Any, carried: list[Any]) -> None:
        self._b, self._length = b, length
        before = b.block
        self._body, self._after = b.append_basic_block("body"), b.append_basic_block("after")
        b.branch(self._body)
        b.position_at_end(self._body)
        self.index = b.phi(I64)
        self.index.add_incoming(I64(0), before)
        self.carried = [b.phi(value.type) for value in carried]
        for phi, value in zip(self.carried, carried, strict=True):
            phi.add_incoming(value, before)

    def end(self, carried: list[Any]) -> None:
        """What the turn makes of the carried values; after the last, the builder goes on behind the loop."""
        b = self._b
        following = b.add(self.index, I64(1))
        self.index.add_incoming(following, b.block)
        for phi, value in zip(self.carried, carried, strict=True):
            phi.add_incoming(value, b.block)
        b.cbranch(b.icmp_signed("<", following, self._length), self._body, self._after)
        b.position_at_end(self._after)

"""Threads that share the work of a kernel and never wait for one that holds none of it.

A kernel is a sequence of phases, each so many independent items. Every thread runs the whole kernel and claims items
as it goes; a phase is over when its items are done, whoever did them. So a thread that the system has put aside, on
cores that are shared with a browser, delays the others by the one item in its hands at most.
"""

from __future__ import annotations

import os
import platform
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic
from numpy.typing import NDArray

from scheduler_core.backends.kernel_cache import keep_kernels_apart

keep_kernels_apart()

_I64 = ir.IntType(64)
_LINE = 8  # int64s in a cache line: phases do not disturb each other
_CLAIMED, _DONE = 0, 1
_SPINS_BEFORE_YIELD = 500

Phases = NDArray[np.int64]


class Crew:
    """The threads; one kernel at a time."""

    def __init__(self) -> None:
        self._executor: ThreadPoolExecutor | None = None
        self._size = 1

    def run(self, threads: int, kernel: Any, num_phases: int, *arguments: Any) -> None:
        """`kernel(phases, *arguments)` by up to `threads` threads, this one among them."""
        phases = np.zeros((num_phases, _LINE), np.int64)
        if kernel.signatures:  # what is not compiled yet is compiled by one
            self._grow(threads)
            for _ in range(threads - 1):
                assert self._executor is not None
                self._executor.submit(kernel, phases, *arguments)
        kernel(phases, *arguments)

    def _grow(self, threads: int) -> None:
        if threads > self._size:
            if self._executor:
                self._executor.shutdown(wait=False)
            self._executor = ThreadPoolExecutor(threads - 1, thread_name_prefix="kernel")
            self._size = threads


@njit(cache=True, inline="always")
def claim(phases, phase):  # type: ignore[no-untyped-def]
    """The next item of a phase; past its last one there is nothing left to claim."""
    return _add_one(phases.ctypes.data + (phase * _LINE + _CLAIMED) * 8)  # type: ignore[call-arg]


@njit(cache=True, inline="always")
def finish(phases, phase):  # type: ignore[no-untyped-def]
    """Tell that a claimed item is done."""
    _add_one(phases.ctypes.data + (phase * _LINE + _DONE) * 8)  # type: ignore[call-arg]


@njit(cache=True)
def wait(phases, phase, num_items):  # type: ignore[no-untyped-def]
    """Wait until all items of a phase are done; gives its core away when that takes long."""
    done = phases.ctypes.data + (phase * _LINE + _DONE) * 8
    spins = 0
    while _read(done) < num_items:  # type: ignore[call-arg]
        spins += 1
        if spins < _SPINS_BEFORE_YIELD:
            _pause()
        else:
            _yield()


@intrinsic
def _add_one(typing: Any, address: Any) -> Any:
    """Atomically; gives back the number before."""

    def emit(context: Any, b: Any, signature: Any, args: Any) -> Any:
        return b.atomic_rmw("add", b.inttoptr(args[0], _I64.as_pointer()), _I64(1), "seq_cst")

    return types.int64(types.intp), emit


@intrinsic
def _read(typing: Any, address: Any) -> Any:
    def emit(context: Any, b: Any, signature: Any, args: Any) -> Any:
        return b.load_atomic(b.inttoptr(args[0], _I64.as_pointer()), "acquire", 8)

    return types.int64(types.intp), emit


@intrinsic
def _pause(typing: Any) -> Any:
    """Tell the core that this is a loop which waits, where it has a word for that."""

    def emit(context: Any, b: Any, signature: Any, args: Any) -> Any:
        if platform.machine() in ("x86_64", "AMD64"):
            b.call(_function(b.module, "llvm.x86.sse2.pause", ir.VoidType()), [])
        return context.get_dummy_value()

    return types.void(), emit


@intrinsic
def _yield(typing: Any) -> Any:
    """Let another thread have the core, where the system has POSIX's word for that."""

    def emit(context: Any, b: Any, signature: Any, args: Any) -> Any:
        if os.name == "posix":
            b.call(_function(b.module, "sched_yield", ir.IntType(32)), [])
        return context.get_dummy_value()

    return types.void(), emit


def _function(module: Any, name: str, result: Any) -> Any:
    return module.globals.get(name) or ir.Function(module, ir.FunctionType(result, []), name=name)

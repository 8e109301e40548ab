"""Bytes in this process, least recently used out first: for tests, and for simulations of a lower tier."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence

from scheduler_core.storage.backing import Contents


class MemoryBacking:
    """Holds up to `limit_bytes`; `tier` is the name under which its hits are told.

    In a simulation, where values are empty, each counts as `value_bytes`.
    """

    def __init__(self, limit_bytes: int, tier: str = "memory", value_bytes: int | None = None) -> None:
        self.tier = tier
        self._value_bytes = value_bytes
        self._limit = limit_bytes
        self._values: OrderedDict[str, bytes] = OrderedDict()
        self._bytes = 0
        self._evictions = 0
        self._lock = threading.Lock()

    @property
    def is_paused(self) -> bool:
        return False

    def read(self, names: Sequence[str]) -> list[bytes]:
        with self._lock:
            found = []
            for name in names:
                if name not in self._values:
                    break
                found.append(self._values[name])
            return found

    def touch(self, names: Sequence[str]) -> None:
        with self._lock:
            for name in reversed(names):
                if name in self._values:
                    self._values.move_to_end(name)

    def missing(self, names: Sequence[str]) -> set[str]:
        with self._lock:
            return {name for name in names if name not in self._values}

    def write(self, items: Sequence[tuple[str, bytes]]) -> None:
        with self._lock:
            for name, value in reversed(items):
                self._drop(name)
                self._values[name] = value
                self._bytes += self._size(value)
            while self._bytes > self._limit and self._values:
                self._drop(next(iter(self._values)))
                self._evictions += 1

    def discard(self, name: str) -> None:
        with self._lock:
            self._drop(name)

    def contents(self) -> Contents:
        return Contents(len(self._values), self._bytes, self._limit, self._evictions)

    def clear(self) -> None:
        with self._lock:
            self._values.clear()
            self._bytes = 0

    def close(self) -> None:
        """Nothing to close."""

    def _drop(self, name: str) -> None:
        if name in self._values:
            self._bytes -= self._size(self._values.pop(name))

    def _size(self, value: bytes) -> int:
        return len(value) if self._value_bytes is None else self._value_bytes

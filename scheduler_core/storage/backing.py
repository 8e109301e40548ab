"""What a store asks of the place that keeps its bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from scheduler_core.errors import TickscopeError


class StoreError(TickscopeError):
    """A store that cannot be opened, with the remedy."""


class StoreFault(Exception):
    """An operation that failed; the caller treats it as a miss and counts it."""


class NotAsked(StoreFault):
    """Nothing was tried, because the last tries failed."""


@dataclass(frozen=True, slots=True)
class Contents:
    """How much a place holds; `limit_bytes` 0 = it sets its own limit, `entries` -1 = it cannot say."""

    entries: int
    num_bytes: int
    limit_bytes: int
    evictions: int = 0


class Backing(Protocol):
    """Bytes by name, read and written in chains: earlier names are worth more than later ones.

    Every method but `close` raises `StoreFault` and nothing else.
    """

    @property
    def tier(self) -> str:
        """The tier's name, as it stands in events and counters."""
        ...

    @property
    def is_paused(self) -> bool:
        """Whether nothing is asked at the moment, because the last tries failed."""
        ...

    def read(self, names: Sequence[str]) -> list[bytes]:
        """The values of the longest run of names that are there."""
        ...

    def touch(self, names: Sequence[str]) -> None:
        """Count a chain as used now, its first block last, so that no parent goes before its child."""
        ...

    def missing(self, names: Sequence[str]) -> set[str]:
        """Those that are to be written."""
        ...

    def write(self, items: Sequence[tuple[str, bytes]]) -> None:
        """Keep all, or raise."""
        ...

    def discard(self, name: str) -> None:
        """Forget one value, because it is unusable."""
        ...

    def contents(self) -> Contents: ...

    def clear(self) -> None: ...

    def close(self) -> None: ...

"""Which entries of a store were used since it was last written to."""

from __future__ import annotations

import threading
from collections.abc import Sequence


class RecentUse:
    """Names in the order of their last use. Written with the next change: a read never waits for the disk."""

    def __init__(self) -> None:
        self._names: dict[str, None] = {}
        self._lock = threading.Lock()

    def __bool__(self) -> bool:
        return bool(self._names)

    def note(self, chain: Sequence[str]) -> None:
        """These were used now; a chain's first counts as used last, so that no parent goes before its child."""
        with self._lock:
            for name in reversed(chain):
                self._names.pop(name, None)
                self._names[name] = None

    def take(self) -> list[str]:
        """The names, least recently used first; from here on they are forgotten."""
        with self._lock:
            names, self._names = self._names, {}
        return [*names]

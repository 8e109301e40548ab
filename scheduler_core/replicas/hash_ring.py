"""Consistent hashing: which replica a key belongs to, so that a replica that goes moves only its own keys."""

from __future__ import annotations

import hashlib
from bisect import bisect
from collections.abc import Iterator

#: Places of each replica on the ring; more make their shares more even.
PLACES = 64


class HashRing:
    """Replicas on a ring of 64-bit numbers (Karger et al., STOC'97); the same ring in every process."""

    def __init__(self, num_replicas: int) -> None:
        places = [
            (_place(f"{replica}:{n}".encode()), replica) for replica in range(num_replicas) for n in range(PLACES)
        ]
        places.sort()
        self._num_replicas = num_replicas
        self._places = [place for place, _ in places]
        self._owners = [replica for _, replica in places]

    def walk(self, key: bytes) -> Iterator[int]:
        """All replicas, each once, in the order in which they come clockwise after the key."""
        owners, start, seen = self._owners, bisect(self._places, _place(key)), set[int]()
        for step in range(len(owners)):
            replica = owners[(start + step) % len(owners)]
            if replica not in seen:
                seen.add(replica)
                yield replica
            if len(seen) == self._num_replicas:
                return


def _place(name: bytes) -> int:
    return int.from_bytes(hashlib.sha256(name).digest()[:8], "big")

"""Who leaves so that a waiting request can enter: as few as needed, worst first, and only if it then fits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

R = TypeVar("R")


def fewest(candidates: Iterable[R], fits: Callable[[Sequence[R]], bool]) -> list[R]:
    """A smallest-enough selection of `candidates` (worst first) after which `fits` holds; empty if there is none.

    Takes from the front until it fits, then lets stay whoever turns out not to be needed, the best first.
    """
    leaving: list[R] = []
    for candidate in candidates:
        leaving.append(candidate)
        if fits(leaving):
            break
    else:
        return []
    for candidate in reversed(leaving[:-1]):
        without = [other for other in leaving if other is not candidate]
        if fits(without):
            leaving = without
    return leaving

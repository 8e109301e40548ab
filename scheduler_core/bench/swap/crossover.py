"""Where the cheaper of two ways changes with the length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Self


@dataclass(frozen=True, slots=True)
class Point:
    """The seconds that each way takes at a length in tokens."""

    tokens: int
    swap: float
    recompute: float

    @property
    def cheaper(self) -> str:
        """Equal costs count for swap, which leaves the model to the others."""
        return "swap" if self.swap <= self.recompute else "recompute"


@dataclass(frozen=True, slots=True)
class Change:
    """From `tokens` on, `cheaper` is the cheaper way."""

    tokens: float
    cheaper: str


@dataclass(frozen=True, slots=True)
class Crossover:
    """Which way is cheaper at the `shortest` length looked at, and every change from there to the `longest`."""

    shortest: int
    longest: int
    cheaper: str
    changes: tuple[Change, ...]

    @classmethod
    def of(cls, points: Sequence[Point]) -> Self:
        """Of points in order of length; between two of them both costs are taken to grow evenly."""
        changes = tuple(_change(one, other) for one, other in pairwise(points) if one.cheaper != other.cheaper)
        return cls(points[0].tokens, points[-1].tokens, points[0].cheaper, changes)

    @property
    def text(self) -> str:
        if not self.changes:
            return f"none: {self.cheaper} is cheaper at every length from {self.shortest:,} to {self.longest:,} tokens"
        later = ", ".join(f"{change.cheaper} from {change.tokens:,.0f} on" for change in self.changes)
        return f"{self.cheaper} is cheaper from {self.shortest:,} tokens on, {later}"

    def as_plain(self) -> dict[str, Any]:
        """For JSON; `tokens` is the one length from which the other way is cheaper, None if there is not just one."""
        return {
            "tokens": round(self.changes[0].tokens, 1) if len(self.changes) == 1 else None,
            "cheaper_when_shorter": self.cheaper,
            "changes": [{"tokens": round(each.tokens, 1), "cheaper": each.cheaper} for each in self.changes],
            "text": self.text,
        }


def _change(one: Point, other: Point) -> Change:
    before, after = one.recompute - one.swap, other.recompute - other.swap
    share = before / (before - after)
    return Change(one.tokens + share * (other.tokens - one.tokens), other.cheaper)

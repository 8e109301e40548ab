"""`Explanation`: what a request did in a tick, and the rules that led to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

#: What an explanation can be about.
EXPLANATION_KINDS = (
    "not_arrived",
    "refused",
    "waiting",
    "ran",
    "left_out",
    "preempted",
    "finished",
    "aborted",
    "failed",
    "spared",
)


@dataclass(frozen=True, slots=True)
class Check:
    """One rule: `ok` is True where it was met, False where it stopped the request, None for a plain remark."""

    ok: bool | None
    text: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """`remedy` is the smallest change that would have let the request go on, "" where there is nothing to say."""

    headline: str
    checks: tuple[Check, ...]
    remedy: str
    kind: str


def options(subject: str, ways: Sequence[str], later: str = "") -> str:
    """Says "It would run now with 1 more block, or with 5 lanes; else once R2 is done."."""
    return f"{subject} would run now {', or '.join(ways)}{f'; else {later}' if later else ''}."

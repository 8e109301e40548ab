"""The answers a question offers: plausible ones, the right one among them, at a place that gives nothing away."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from scheduler_core.prediction_scene import Scene

#: The value of the answer "nobody": no request can have an empty id.
NOBODY = ""
MAX_WHO = 5
MAX_NUMBERS = 4


@dataclass(frozen=True, slots=True)
class Choice:
    """One answer: what it is to the program, and to people."""

    value: str
    label: str


def nobody() -> Choice:
    return Choice(NOBODY, "nobody")


def who(
    scene: Scene,
    candidates: Sequence[str],
    right: Collection[str],
    topic: str,
    labels: Mapping[str, str] | None = None,
) -> tuple[Choice, ...]:
    """At most five of the candidates, mixed; a right and a wrong one stay in wherever there are both."""
    drawn = _mixed(f"{scene.salt}{topic}|draw", candidates)
    sure = {*[value for value in drawn if value in right][:1], *[value for value in drawn if value not in right][:1]}
    kept = sorted(drawn, key=lambda value: value not in sure)[:MAX_WHO]
    named = labels or {request_id: f"{request_id} (arrives now)" for request_id in scene.arrived}
    return tuple(Choice(value, named.get(value, value)) for value in _mixed(f"{scene.salt}{topic}|place", kept))


def numbers(right: int, likely: Collection[int], salt: str, allowed: range, step: int) -> tuple[int, ...]:
    """Four numbers in order, the right one at a place drawn by lot; likely ones go before those `step` apart."""
    near = [right + sign * times * max(1, step) for times in (1, 2, 3) for sign in (-1, 1)]
    pool = [value for value in dict.fromkeys([*likely, *near]) if value in allowed and value != right]
    below, above = ([v for v in pool if v < right], [v for v in pool if v > right])
    place = _lot(salt, "place") % MAX_NUMBERS
    num_below = min(len(below), max(place, MAX_NUMBERS - 1 - len(above)))
    chosen = below[:num_below] + above[: MAX_NUMBERS - 1 - num_below]
    return tuple(sorted([right, *chosen]))


def _mixed(salt: str, values: Sequence[str]) -> list[str]:
    return sorted(values, key=lambda value: _lot(salt, value))


def _lot(salt: str, value: str) -> int:
    """A number drawn by lot: the same for the same question in every process."""
    return int.from_bytes(hashlib.sha256(f"{salt}|{value}".encode()).digest()[:8], "big")

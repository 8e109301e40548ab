"""Whose picture it is: the mark of Tickscope, small in a corner."""

from __future__ import annotations

from pages.components.picture.palette import COMPUTED, GENERATED, PREEMPTED
from pages.components.picture.paper import Paper
from pages.components.picture.typeface import width

NAME, SIZE = "Tickscope", 12.5
_BARS = ((0, 8, 10, COMPUTED), (7, 1, 17, COMPUTED), (14, 5, 13, GENERATED), (21, 12, 6, PREEMPTED))
_SCALE = 0.62


def mark_width() -> float:
    return 26 * _SCALE + 6 + width(NAME, SIZE, 700)


def draw_mark(paper: Paper, right: float, y: float) -> None:
    """The four bars and the name, ending at `right` on the baseline `y`."""
    x, top = right - mark_width(), y - 18 * _SCALE
    for left, above, high, color in _BARS:
        paper.rect(x + left * _SCALE, top + above * _SCALE, 5 * _SCALE, high * _SCALE, color, round_=0.9)
    paper.text(x + 26 * _SCALE + 6, y, NAME, SIZE, weight=700)

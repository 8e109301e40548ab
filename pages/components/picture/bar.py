"""The bar of a request: its tokens from left to right, by what is known of each."""

from __future__ import annotations

from pages.components.picture.palette import CACHED, COMPUTED, GENERATED, mix
from pages.components.picture.paper import Paper
from pages.components.picture.scene import RequestView

HIGH = 14


def draw_bar(paper: Paper, view: RequestView, x: float, middle: float, wide: float) -> None:
    """A bar of `wide` pixels, filled by as many tokens as the request can get."""
    palette, y = paper.palette, middle - HIGH / 2
    paper.rect(x, y, wide, HIGH, mix(palette.ink, palette.card, 0.07), round_=4)
    is_level = view.tokens - view.computed <= 1 and view.computed >= view.prompt
    known = view.tokens if is_level else view.computed

    def place(first: int, end: int, fill: str) -> None:
        if end > first:
            at = x + wide * first / view.limit
            paper.rect(at, y, max(wide * (end - first) / view.limit - 0.8, 1), HIGH, fill, round_=3)

    place(0, view.hit, CACHED)
    place(0, view.hit, "url(#cached)")
    place(view.hit, min(view.computed, view.prompt), COMPUTED)
    place(max(view.prompt, view.hit), known, GENERATED)
    if view.tokens > known:
        at = x + wide * known / view.limit
        left = wide * (view.tokens - known) / view.limit
        fill = mix(COMPUTED, palette.card, 0.08)
        paper.rect(at, y, left, HIGH, fill, round_=3, stroke=COMPUTED, thick=1.5, dashed="3 2.5")
    if view.scheduled:
        _chunk(paper, view, x, y, wide, known)


def _chunk(paper: Paper, view: RequestView, x: float, y: float, wide: float, known: int) -> None:
    """The tokens of this tick, outlined; dashed where they are computed for the second time."""
    end = x + wide * max(view.computed, known if view.decodes else 0) / view.limit
    start = x + wide * (view.computed - view.scheduled) / view.limit
    room = max(end - start, 7)
    ink = paper.palette.preempted_ink if view.again else paper.palette.ink
    fill = GENERATED if view.decodes else COMPUTED
    paper.rect(end - room, y - 2, room, HIGH + 4, fill, round_=4)
    paper.rect(end - room, y - 2, room, HIGH + 4, round_=4, stroke=ink, thick=2, dashed="3 2" if view.again else "")

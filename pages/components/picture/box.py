"""The box of a card or a lane, and what befell its request in this tick."""

from __future__ import annotations

from pages.components.picture.palette import COMPUTED, GENERATED, PREEMPTED, WAITING
from pages.components.picture.paper import Paper
from pages.components.picture.scene import RequestView, Scene

PAD = 12
_COLORS = {
    "RequestArrived": WAITING,
    "RequestAdmitted": COMPUTED,
    "RequestPreempted": PREEMPTED,
    "RequestRefused": PREEMPTED,
    "RequestFinished": GENERATED,
}


def draw_box(paper: Paper, x: float, y: float, wide: float, high: float, news: str) -> None:
    """A card or a lane; what is new in this tick has a coloured edge."""
    paper.rect(x, y, wide, high, paper.palette.card, round_=8, stroke=news or paper.palette.line)
    draw_news(paper, x, y, high, news)


def draw_news(paper: Paper, x: float, y: float, high: float, news: str) -> None:
    """The coloured edge at the left of a box."""
    if news:
        paper.path(f"M{x + 4} {y}a8 8 0 0 0 -4 8v{high - 16}a8 8 0 0 0 4 8z", fill=news)


def news_of(view: RequestView, scene: Scene) -> str:
    """The colour of what befell a request in this tick, "" if nothing did."""
    mine = [type(e).__name__ for e in scene.record.events if getattr(e, "request_id", "") == view.id]
    found = [_COLORS[name] for name in mine if name in _COLORS]
    return found[-1] if found else ""

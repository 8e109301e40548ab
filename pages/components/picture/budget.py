"""The budget of a tick as one bar: who gets how much of it."""

from __future__ import annotations

from pages.components.picture.palette import COMPUTED, GENERATED, PREEMPTED
from pages.components.picture.paper import Paper
from pages.components.picture.scene import RequestView, Scene
from pages.components.picture.typeface import width


def draw_budget(paper: Paper, scene: Scene, x: float, y: float, wide: float, used: int, budget: int) -> None:
    """The tokens used, of `budget`; what is over it is hatched."""
    paper.rect(x, y, wide, 24, paper.palette.card, round_=6, stroke=paper.palette.line)
    scale, at = max(used, budget, 1), x
    paper.define(f'<clipPath id="budget"><rect x="{x}" y="{y}" width="{wide}" height="24" rx="6"/></clipPath>')
    paper.add('<g clip-path="url(#budget)">')
    for view in scene.batch:
        part = max(view.scheduled / scale * wide, 3)
        color, ink = (GENERATED, "#0b1016") if view.decodes else (COMPUTED, "#ffffff")
        paper.rect(at, y, part - 1, 24, color)
        words = _segment(view, part)
        paper.text(at + (part - 1) / 2, y + 16.5, words, 11.5, weight=600, fill=ink, anchor="middle")
        at += part
    free = x + wide - at
    if used < budget and free > 60:
        words = f"{budget - used:,} free"
        paper.text(at + free / 2, y + 16.5, words, 12, fill=paper.palette.soft, anchor="middle")
    if used > budget:
        limit = x + wide * budget / scale
        paper.rect(limit, y, x + wide - limit, 24, "url(#published)")
        paper.rect(limit - 1, y, 3, 24, PREEMPTED)
    paper.add("</g>")


def _segment(view: RequestView, room: float) -> str:
    words = view.id if view.decodes else f"{view.id} · chunk of {view.scheduled}"
    choices = ((words, 12), (view.id, 8), (view.label, 3))
    return next((text for text, edge in choices if width(text, 11.5, 600) + edge < room), "")

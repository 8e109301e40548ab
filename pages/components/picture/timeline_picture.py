"""The whole timeline of a run as a picture for slides."""

from __future__ import annotations

from pages.components.picture.footer import draw_mark, mark_width
from pages.components.picture.palette import CACHED, COMPUTED, GENERATED, PREEMPTED, Palette
from pages.components.picture.paper import Paper, one_line
from pages.components.picture.scene import Scenes
from pages.components.picture.timeline import Timeline
from pages.components.picture.typeface import fit, width
from scheduler_core.words import count

WIDE, EDGE, PAD, ROW, HEAD, FOOT = 1120, 24, 16, 22, 68, 48
#: A tick is at least so wide, up to the widest picture; past that, ticks share a pixel.
MIN_PITCH, WIDEST = 3.0, 3200.0
#: With more requests the rows are lower, so that the picture stays one.
TALLEST = 1600


def timeline_svg(scenes: Scenes, palette: Palette, title: str = "", *, font: bool = False) -> str:
    """A complete SVG document: a row a request in order of arrival, a column a tick."""
    trace = scenes.trace
    title = one_line(title or trace.title or trace.scenario or "A run")
    names = min(max((width(name, 12.5, 600) for name in scenes.specs), default=20), 130) + 14
    row = min(float(ROW), TALLEST / max(len(scenes.specs), 1))
    rest = 2 * EDGE + 2 * PAD + names + 14
    plot = min(max(WIDE - rest, MIN_PITCH * len(scenes)), WIDEST)
    high = HEAD + PAD + row * len(scenes.specs) + 24 + PAD + FOOT
    paper = Paper(plot + rest, high, palette, f"Timeline of {title}")
    _head(paper, title, scenes)
    paper.rect(EDGE, HEAD, paper.wide - 2 * EDGE, high - HEAD - FOOT, palette.panel, round_=12)
    rows = Timeline(scenes, paper, plot, row)
    left, top = EDGE + PAD + names, HEAD + PAD
    for place, name in enumerate(scenes.specs):
        size = min(12.5, row - 2)
        if size >= 6:
            at = top + (place + 0.5) * row + size * 0.36
            paper.text(EDGE + PAD, at, fit(name, names - 12, size, 600), size, weight=600)
    paper.add(f'<g transform="translate({left:.2f} {top})">')
    rows.draw()
    paper.add("</g>")
    rows.axis(left, top + rows.high + 4)
    _legend(paper, EDGE, high - 18)
    draw_mark(paper, paper.wide - EDGE, high - 18)
    return paper.svg(font=font)


def _head(paper: Paper, title: str, scenes: Scenes) -> None:
    told = f"{count(len(scenes.specs), 'request')}, {count(len(scenes), 'tick')}"
    right = paper.wide - EDGE
    paper.text(right, 41, told, 13, fill=paper.palette.soft, anchor="end")
    paper.text(EDGE, 42, fit(title, right - EDGE - width(told, 13) - 24, 19, 700), 19, weight=700)


def _legend(paper: Paper, x: float, y: float) -> None:
    """What the bars, lines and signs say, as far as there is room."""
    end = paper.wide - EDGE - mark_width() - 16
    for name in ("reads its prompt", "writes its answer", "cache hit", "waits", "preempted", "finished"):
        if x + 30 + width(name, 12) > end:
            return
        _key(paper, name, x, y - 4.5)
        x = paper.text(x + 20, y, name, 12, fill=paper.palette.soft) + 18


def _key(paper: Paper, name: str, x: float, middle: float) -> None:
    match name:
        case "waits" | "preempted":
            fill = "url(#wait)" if name == "waits" else "url(#away)"
            paper.rect(x, middle - 2.5, 15, 5, fill)
            if name == "preempted":
                cross = f"M{x - 1} {middle - 3.5}l7 7m0 -7l-7 7"
                for color, thick in ((paper.palette.ground, 4), (PREEMPTED, 2)):
                    paper.path(cross, stroke=color, thick=thick, cap="round")
        case "cache hit":
            paper.rect(x + 3, middle - 6, 9, 12, CACHED)
            paper.rect(x + 3, middle - 6, 9, 12, "url(#cached)")
            paper.rect(x + 3, middle - 6, 9, 12, stroke=paper.palette.cached_edge)
        case "finished":
            paper.tick_mark(x + 4, middle, paper.palette.generated_ink)
        case _:
            fill = COMPUTED if name == "reads its prompt" else GENERATED
            paper.rect(x, middle - 6, 15, 12, fill, round_=2.5)

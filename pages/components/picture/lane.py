"""A lane of the model: the bar of its request, its slice, and what it reads or writes."""

from __future__ import annotations

from pages.components.picture.bar import draw_bar
from pages.components.picture.box import PAD, draw_box, draw_news, news_of
from pages.components.picture.palette import COMPUTED, GENERATED, PREEMPTED, mix
from pages.components.picture.paper import Paper, one_line
from pages.components.picture.scene import RequestView, Scene
from pages.components.picture.typeface import fit, fit_end, width


def draw_lane(
    paper: Paper,
    x: float,
    y: float,
    wide: float,
    high: float,
    view: RequestView,
    scene: Scene,
    *,
    share: float,
    name_room: float,
) -> None:
    """A running request; its bar takes `share` of the room that the longest one has."""
    draw_box(paper, x, y, wide, high, "")
    draw_news(paper, x, y, high, news_of(view, scene))
    middle = y + high / 2
    name = fit(view.id, name_room, 13, 700)
    paper.text(x + PAD, middle + 4.5, name, 13, weight=700)
    at = x + PAD + name_room + 12
    track = wide * 0.34
    draw_bar(paper, view, at, middle, track * share)
    at += track + 14
    if scene.config.quantum:
        _ring(paper, at, middle, view.slice_used, scene.config.quantum)
        at += 68
    _words(paper, at, middle + 4.5, x + wide - PAD - at, view)


def draw_idle_lane(paper: Paper, x: float, y: float, wide: float, high: float, place: int) -> None:
    """One that nobody has."""
    paper.rect(x, y, wide, high, round_=8, stroke=paper.palette.line, dashed="4 3")
    paper.text(x + PAD, y + high / 2 + 4.5, f"lane {place + 1} is free", 12.5, fill=paper.palette.soft)


def _ring(paper: Paper, x: float, middle: float, used: int, quantum: int) -> None:
    over = used >= quantum
    color, ink = (PREEMPTED, paper.palette.preempted_ink) if over else (COMPUTED, paper.palette.soft)
    turn = 2 * 3.14159265 * 6.5
    ring = f'<circle cx="{x + 9}" cy="{middle}" r="6.5" fill="none" stroke-width="4"'
    paper.add(f'{ring} stroke="{paper.palette.line}"/>')
    if used:
        dash = f"{turn * min(used / quantum, 1):.2f} {turn:.2f}"
        paper.add(f'{ring} stroke="{color}" stroke-dasharray="{dash}" transform="rotate(-90 {x + 9} {middle})"/>')
    paper.text(x + 24, middle + 4.5, f"{used}/{quantum}", 12.5, weight=600 if over else 400, fill=ink)


def _words(paper: Paper, x: float, y: float, room: float, view: RequestView) -> None:
    """What it writes, its end in sight and the new piece marked; while it reads, how far it is."""
    done = view.reason is not None
    if view.is_reading and not view.fresh and not done:
        verb = "computing again" if view.again else "reading"
        words = f"{verb}, {view.computed:,} of {view.tokens:,} tokens"
        if not view.scheduled:
            words = f"not in this batch; {view.computed:,} of {view.tokens:,} tokens"
        paper.text(x, y, fit(words, room, 12.5), 12.5, fill=paper.palette.soft)
        return
    end = x + room
    if done:
        paper.text(end - 12, y, "done", 12, fill=paper.palette.soft, anchor="end")
        paper.tick_mark(end - 9, y - 4.5, paper.palette.generated_ink, 8)
        room -= 60
    fresh = one_line(view.fresh if view.text.strip() else view.fresh.lstrip())
    fresh = fit(fresh, room * 0.6, 12.5)
    old = fit_end(one_line(view.text.lstrip()), room - width(fresh, 12.5) - 4, 12.5)
    # XML drops a blank at the edge of a text, so what it takes is added to the place.
    at = paper.text(x, y, old.rstrip(), 12.5) if old else x
    at += width(old[len(old.rstrip()) :], 12.5)
    lead = width(fresh[: len(fresh) - len(fresh.lstrip())], 12.5)
    if fresh.strip():
        mark = mix(GENERATED, paper.palette.card, 0.24)
        paper.rect(at - 1, y - 13.5, width(fresh, 12.5) + 2, 18, mark, round_=3)
        paper.text(at + lead, y, fresh.strip(), 12.5)

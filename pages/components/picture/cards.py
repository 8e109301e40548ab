"""The cards of those who wait and of those who have finished."""

from __future__ import annotations

from math import ceil

from pages.components.picture.box import PAD, draw_box, news_of
from pages.components.picture.palette import GENERATED, PREEMPTED, WAITING, mix
from pages.components.picture.paper import Paper, one_line
from pages.components.picture.scene import RequestView, Scene
from pages.components.picture.typeface import fit, width
from scheduler_core.request import FinishReason, RequestStatus
from scheduler_core.words import count

_ENDS = {FinishReason.ABORT: "aborted", FinishReason.REJECTED: "refused", FinishReason.ERROR: "failed"}


def draw_cards(
    paper: Paper,
    x: float,
    top: float,
    wide: float,
    room: float,
    views: tuple[RequestView, ...],
    scene: Scene,
    nobody: str,
) -> None:
    """A list of requests within `room`: narrow cards if there are many, and how many more if they are too many."""
    if not views:
        paper.text(x + PAD, top + 10, nobody, 12, fill=paper.palette.soft)
        return
    is_many = len(views) * 54 - 6 > room
    step = 32 if is_many else 54
    shown = len(views) if len(views) * step - 6 <= room else int((room - 16) // step)
    for place, view in enumerate(views[:shown]):
        draw = _narrow_card if is_many else _card
        draw(paper, x + PAD, top + place * step, wide - 2 * PAD, view, scene)
    if shown < len(views):
        y = top + shown * step + 9
        paper.text(x + PAD, y, f"and {len(views) - shown} more", 12, fill=paper.palette.soft)


def _card(paper: Paper, x: float, y: float, wide: float, view: RequestView, scene: Scene) -> None:
    draw_box(paper, x, y, wide, 48, news_of(view, scene))
    tag, color, ink = _tag(paper, view)
    tag_wide = width(tag, 11, 600) + 16
    paper.text(x + 13, y + 19, fit(view.id, wide - tag_wide - 34, 13, 700), 13, weight=700)
    _pill(paper, x + wide - 8 - tag_wide, y + 6, tag_wide, tag, color, ink)
    line = fit(_line(view, scene), wide - 26, 12)
    paper.text(x + 13, y + 38, line, 12, fill=paper.palette.soft)


def _narrow_card(paper: Paper, x: float, y: float, wide: float, view: RequestView, scene: Scene) -> None:
    draw_box(paper, x, y, wide, 26, news_of(view, scene))
    tag, color, ink = _tag(paper, view, short=True)
    tag_wide = width(tag, 11, 600) + 16
    end = paper.text(x + 12, y + 18, fit(view.id, wide * 0.4, 13, 700), 13, weight=700)
    _pill(paper, x + wide - 6 - tag_wide, y + 4, tag_wide, tag, color, ink)
    room = x + wide - 6 - tag_wide - end - 16
    paper.text(end + 8, y + 18, fit(_line(view, scene), room, 12), 12, fill=paper.palette.soft)


def _tag(paper: Paper, view: RequestView, *, short: bool = False) -> tuple[str, str, str]:
    """The words of a card's pill, its colour, and that of its text."""
    if view.reason is not None:
        if bad := _ENDS.get(view.reason):
            return f"{bad} ×", PREEMPTED, paper.palette.preempted_ink
        words = str(view.generated) if short else f"{view.generated} tok"
        return f"{words}  √", GENERATED, paper.palette.generated_ink
    if view.status is RequestStatus.PREEMPTED:
        return ("×" if short else "preempted ×"), PREEMPTED, paper.palette.preempted_ink
    return f"waits {view.waited}", WAITING, paper.palette.soft


def _pill(paper: Paper, x: float, y: float, wide: float, words: str, color: str, ink: str) -> None:
    paper.rect(x, y, wide, 18, mix(color, paper.palette.card, 0.15), round_=9)
    told = words.removesuffix("  √")
    if told == words:
        paper.text(x + wide / 2, y + 13, words, 11, weight=600, fill=ink, anchor="middle")
        return
    paper.text(x + 8, y + 13, told, 11, weight=600, fill=ink)
    paper.tick_mark(x + wide - 15, y + 9, ink, 7)


def _line(view: RequestView, scene: Scene) -> str:
    if view.reason is not None:
        text = one_line((view.text + view.fresh).strip())
        return f"“{text}”" if text else "no text" if view.reason in _ENDS else ""
    level = "" if scene.config.policy == "fcfs" else f" · class {view.level}"
    if view.saved:
        return f"{count(ceil(view.saved / scene.config.block_size), 'block')} on the host{level}"
    if view.status is RequestStatus.PREEMPTED:
        return f"{count(view.tokens, 'token')} to redo{level}"
    return f"prompt {view.prompt:,}{level}"

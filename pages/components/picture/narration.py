"""What happened in a tick, set in lines: the headline in bold, as many others as have room."""

from __future__ import annotations

from pages.components.picture.palette import CACHED, COMPUTED, GENERATED, PREEMPTED, WAITING, mix
from pages.components.picture.paper import Paper
from pages.components.picture.typeface import fit, width
from scheduler_core.narration import narrate_tick
from scheduler_core.sentence import Sentence
from scheduler_core.trace import Trace

SIZE, SMALL, LINE, SMALL_LINE, PAD = 14.5, 12.5, 21, 18.5, 12
MAX_LINES, MAX_OTHERS = 2, 2
_TONES = {
    **dict.fromkeys(("law", "preempted", "refused", "fault"), PREEMPTED),
    **dict.fromkeys(("restored", "admitted", "progress"), COMPUTED),
    **dict.fromkeys(("finished", "decode"), GENERATED),
    **dict.fromkeys(("hit", "loaded"), CACHED),
}

Word = tuple[str, int]


class Narration:
    """The sentences of any tick of a run in a box that is always as high."""

    def __init__(self, trace: Trace, room: float) -> None:
        self._trace, self._room = trace, room
        self.high = 2 * PAD + MAX_LINES * LINE + MAX_OTHERS * SMALL_LINE

    def told(self, tick: int) -> str:
        """The headline, as one sentence or two."""
        return narrate_tick(self._trace, tick)[0].whole

    def draw(self, paper: Paper, tick: int, x: float, y: float, wide: float) -> None:
        first, *others = narrate_tick(self._trace, tick)
        tone, palette = _TONES.get(first.kind, WAITING), paper.palette
        paper.rect(x, y, wide, self.high, mix(tone, palette.ground, 0.09), round_=10)
        paper.rect(x, y, 4, self.high, tone, round_=2)
        lines = _wrap(first, self._room)
        used = len(lines) * LINE + min(len(others), MAX_OTHERS) * SMALL_LINE
        at = y + (self.high - used) / 2 + 15.5
        for line in lines:
            _draw_words(paper, line, x + 4 + PAD, at)
            at += LINE
        left = len(others) - MAX_OTHERS
        for place, sentence in enumerate(others[:MAX_OTHERS]):
            more = f" · and {left} more" if left > 0 and place == MAX_OTHERS - 1 else ""
            self._other(paper, sentence, more, x + 4 + PAD, at - 1)
            at += SMALL_LINE

    def _other(self, paper: Paper, sentence: Sentence, more: str, x: float, y: float) -> None:
        soft, room = paper.palette.soft, self._room - width(more, SMALL)
        lead = fit(sentence.lead, room, SMALL, 600)
        end = paper.text(x, y, lead, SMALL, weight=600, fill=soft) + 4
        text = fit(sentence.text, max(room - (end - x), 0), SMALL) if sentence.text else ""
        end = paper.text(end, y, text, SMALL, fill=soft) if text != "…" else end - 4
        paper.text(end + width(" ", SMALL), y, more.strip(), SMALL, fill=soft)


def _wrap(sentence: Sentence, room: float) -> list[list[Word]]:
    """The words with their weights in at most `MAX_LINES` lines, the last one cut."""
    words: list[Word] = [(word, 700) for word in sentence.lead.split()] + [(w, 400) for w in sentence.text.split()]
    lines: list[list[Word]] = [[]]
    used = 0.0
    for place, (word, weight) in enumerate(words):
        needs = width(word, SIZE, weight) + width(" ", SIZE)
        if lines[-1] and used + needs > room:
            if len(lines) == MAX_LINES:
                rest = " ".join(text for text, _ in words[place:])
                lines[-1].append((fit(rest, max(room - used, 12), SIZE, weight), weight))
                return lines
            lines.append([])
            used = 0.0
        lines[-1].append((fit(word, room, SIZE, weight), weight))
        used += needs
    return lines


def _draw_words(paper: Paper, words: list[Word], x: float, y: float) -> None:
    """One text for each stretch of a weight."""
    at = x
    stretch: list[str] = []
    for place, (word, weight) in enumerate(words):
        stretch.append(word)
        if place + 1 == len(words) or words[place + 1][1] != weight:
            at = paper.text(at, y, " ".join(stretch), SIZE, weight=weight) + width(" ", SIZE)
            stretch = []

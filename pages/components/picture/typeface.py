"""Inter, as it travels with the app: how wide a text is, and which characters it has."""

from __future__ import annotations

from functools import cache, lru_cache
from pathlib import Path

from PIL import ImageFont

FOLDER = Path(__file__).resolve().parents[3] / "assets" / "fonts"
#: Weight -> file. Their figures all have one width, so that numbers do not shake from frame to frame.
FILES = {weight: FOLDER / f"inter-latin-{weight}.ttf" for weight in (400, 600, 700)}
WOFF2 = FOLDER / "inter-latin.woff2"

_MEASURE = 200
_ABSENT = "\uffff"
#: Stands where the typeface has no sign.
SUBSTITUTE = "?"


@cache
def _font(weight: int) -> ImageFont.FreeTypeFont:
    return ImageFont.truetype(str(FILES[weight]), _MEASURE, layout_engine=ImageFont.Layout.BASIC)


@lru_cache(maxsize=4096)
def _advance(character: str, weight: int) -> float:
    sign = SUBSTITUTE if "\ud800" <= character <= "\udfff" else character
    return _font(weight).getlength(sign) / _MEASURE


def width(text: str, size: float, weight: int = 400) -> float:
    """Pixels that a line takes."""
    return size * sum(_advance(character, weight) for character in text)


def fit(text: str, room: float, size: float, weight: int = 400) -> str:
    """The text, cut at its end to the room there is."""
    if width(text, size, weight) <= room:
        return text
    room -= width("…", size, weight)
    kept = 0
    for character in text:
        room -= size * _advance(character, weight)
        if room < 0:
            break
        kept += 1
    return text[:kept].rstrip() + "…"


def fit_end(text: str, room: float, size: float, weight: int = 400) -> str:
    """The text, cut at its beginning to the room there is."""
    if width(text, size, weight) <= room:
        return text
    return fit(text[::-1], room, size, weight)[::-1]


@lru_cache(maxsize=4096)
def has(character: str) -> bool:
    """Whether the typeface has a sign for this character."""
    if character.isascii():
        return character.isprintable() or character in "\n\t"
    mask, absent = (_font(400).getmask(sign) for sign in (character, _ABSENT))
    return (mask.size, bytes(mask)) != (absent.size, bytes(absent))


def drawable(text: str) -> str:
    """The text with a substitute for every character that the typeface has not."""
    return text if text.isascii() else "".join(c if has(c) else SUBSTITUTE for c in text)

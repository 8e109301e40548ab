"""A sheet to draw on: SVG elements in order, every text escaped."""

from __future__ import annotations

import base64
import re
from functools import cache
from xml.sax.saxutils import escape, quoteattr

from pages.components.picture.palette import PREEMPTED, Palette
from pages.components.picture.typeface import WOFF2, width
from pages.components.plain import visible

FAMILY = "Inter, Inter Variable, system-ui, sans-serif"
#: Characters that XML does not allow, or that would turn the direction of a line around.
_UNFIT = re.compile(r"[\ufffe\uffff\u202a-\u202e\u2066-\u2069\u200e\u200f]")


class Paper:
    """`wide` by `high` pixels in the colours of a palette."""

    def __init__(self, wide: float, high: float, palette: Palette, label: str = "") -> None:
        self.wide, self.high, self.palette = wide, high, palette
        self._label = label
        self._parts: list[str] = []
        self._defs: list[str] = []

    def add(self, element: str) -> None:
        """An element as it stands."""
        self._parts.append(element)

    def define(self, element: str) -> None:
        self._defs.append(element)

    def rect(
        self,
        x: float,
        y: float,
        wide: float,
        high: float,
        fill: str = "none",
        *,
        round_: float = 0,
        stroke: str = "",
        thick: float = 1,
        dashed: str = "",
    ) -> None:
        """A rectangle; a stroke runs inside its edge."""
        if stroke:
            x, y, wide, high = x + thick / 2, y + thick / 2, wide - thick, high - thick
        if wide <= 0 or high <= 0:
            return
        line = f' stroke="{stroke}" stroke-width="{_n(thick)}"' if stroke else ""
        dash = f' stroke-dasharray="{dashed}"' if dashed else ""
        corner = f' rx="{_n(round_)}"' if round_ else ""
        self.add(
            f'<rect x="{_n(x)}" y="{_n(y)}" width="{_n(wide)}" height="{_n(high)}"{corner} fill="{fill}"{line}{dash}/>'
        )

    def path(self, d: str, *, fill: str = "none", stroke: str = "", thick: float = 1, cap: str = "butt") -> None:
        line = f' stroke="{stroke}" stroke-width="{_n(thick)}" stroke-linecap="{cap}"' if stroke else ""
        join = ' stroke-linejoin="round"' if cap == "round" else ""
        self.add(f'<path d="{d}" fill="{fill}"{line}{join}/>')

    def text(
        self,
        x: float,
        y: float,
        words: str,
        size: float = 13,
        *,
        weight: int = 400,
        fill: str = "",
        anchor: str = "start",
        spacing: float = 0,
    ) -> float:
        """A line on the baseline `y`; tells where it ends."""
        if not words:
            return x
        marks = f' font-weight="{weight}"' if weight != 400 else ""
        marks += f' text-anchor="{anchor}"' if anchor != "start" else ""
        marks += f' letter-spacing="{_n(spacing)}"' if spacing else ""
        marks += f' fill="{fill or self.palette.ink}"'
        told = escape(one_line(words))
        self.add(f'<text x="{_n(x)}" y="{_n(y)}" font-size="{_n(size)}"{marks}>{told}</text>')
        return x + width(words, size, weight) + spacing * len(words)

    def tick_mark(self, x: float, y: float, color: str, size: float = 8) -> None:
        """✓, from its left end in the middle of a line: the typeface has none."""
        s = size / 8
        d = f"M{_n(x)} {_n(y)}l{_n(2.6 * s)} {_n(3 * s)}l{_n(5 * s)} {_n(-6.6 * s)}"
        self.path(d, stroke=color, thick=1.8 * s, cap="round")

    def body(self) -> str:
        """What was drawn, without the document around it."""
        return "".join(self._parts)

    def svg(self, *, font: bool = False, clear: bool = False) -> str:
        """The whole document; with `font` the typeface travels inside, so that it looks the same anywhere.

        A `clear` one has no ground.
        """
        size = f'width="{_n(self.wide)}" height="{_n(self.high)}"'
        label = f' role="img" aria-label={quoteattr(one_line(self._label))}' if self._label else ""
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="0 0 {_n(self.wide)} {_n(self.high)}" '
            f'font-family="{FAMILY}"{label}>'
        )
        style = f"<style>{_font_face()}</style>" if font else ""
        defs = f"<defs>{''.join(self._defs)}{_hatches(self.palette)}</defs>"
        ground = "" if clear else f'<rect width="100%" height="100%" fill="{self.palette.ground}"/>'
        return "\n".join([head, style, defs, ground, *self._parts, "</svg>"])


def one_line(words: str) -> str:
    """A text as one line of characters that can be seen: breaks, tabs and controls as signs."""
    return _UNFIT.sub("·", visible(words.replace("\n", "¶").replace("\t", " ")))


def _hatches(palette: Palette) -> str:
    """Patterns by name: over cached blocks, over published ones, and the lines of those that wait or are away."""
    made = {
        "cached": (5, "#ffffff", palette.hatch, 1.7),
        "published": (6, "#ffffff", palette.faint_hatch, 1.5),
        "wait": (5, palette.wait_line, 1, 1.3),
        "away": (5, PREEMPTED, 1, 1.3),
        "idle": (5, palette.line, 1, 1.3),
    }
    return "".join(_hatch(name, *how) for name, how in made.items())


def _hatch(name: str, size: float, color: str, opacity: float, thick: float) -> str:
    faint = f' stroke-opacity="{opacity}"' if opacity < 1 else ""
    lines = "".join(f"M{_n(shift)} {size}l{size} {-size}" for shift in (-size, 0, size))
    return (
        f'<pattern id="{name}" width="{size}" height="{size}" patternUnits="userSpaceOnUse">'
        f'<path d="{lines}" stroke="{color}" stroke-width="{thick}"{faint}/></pattern>'
    )


@cache
def _font_face() -> str:
    data = base64.b64encode(WOFF2.read_bytes()).decode("ascii")
    return (
        "@font-face{font-family:Inter;font-weight:100 900;"
        f"src:url(data:font/woff2;base64,{data}) format('woff2')}}text{{font-variant-numeric:tabular-nums}}"
    )


def _n(value: float) -> str:
    """A number with as many digits as can be seen."""
    return f"{value:.2f}".rstrip("0").rstrip(".") or "0"

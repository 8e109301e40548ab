"""The colours of the stage, for light and dark pictures."""

from __future__ import annotations

from dataclasses import dataclass

WAITING, COMPUTED, GENERATED, PREEMPTED, CACHED = "#777777", "#0072b2", "#009e73", "#d55e00", "#cc79a7"


def mix(color: str, ground: str, share: float) -> str:
    """`share` of a colour over a ground, both as in "#0072b2"."""
    pairs = zip(_channels(color), _channels(ground), strict=True)
    return "#" + "".join(f"{round(a * share + b * (1 - share)):02x}" for a, b in pairs)


def _channels(color: str) -> tuple[int, int, int]:
    return int(color[1:3], 16), int(color[3:5], 16), int(color[5:7], 16)


@dataclass(frozen=True, slots=True)
class Palette:
    """What differs between the themes; the five colours of the states are the same in both.

    `on_...` are colours of text on a ground, `hatch` is the white of a pattern with its share of opacity.
    """

    name: str
    ground: str
    panel: str
    card: str
    ink: str
    computed_ink: str
    generated_ink: str
    preempted_ink: str
    cached_edge: str
    hatch: float
    faint_hatch: float
    line_share: float

    @property
    def soft(self) -> str:
        return mix(self.ink, self.ground, 0.72)

    @property
    def line(self) -> str:
        return mix(self.ink, self.ground, self.line_share)

    @property
    def edge(self) -> str:
        return mix(self.ink, self.ground, 0.28)

    @property
    def wait_line(self) -> str:
        return mix(self.ink, self.ground, 0.52)


LIGHT = Palette(
    "light",
    ground="#ffffff",
    panel="#f5f7fa",
    card="#ffffff",
    ink="#1b2430",
    computed_ink="#00568a",
    generated_ink="#00664a",
    preempted_ink="#9c4300",
    cached_edge="#ad5a88",
    hatch=0.55,
    faint_hatch=0.28,
    line_share=0.13,
)
DARK = Palette(
    "dark",
    ground="#0e1117",
    panel="#1d2430",
    card="#0e1117",
    ink="#e8eaed",
    computed_ink="#6fbdf2",
    generated_ink="#45cfa4",
    preempted_ink="#ff9a57",
    cached_edge="#dc9cc0",
    hatch=0.42,
    faint_hatch=0.24,
    line_share=0.16,
)
PALETTES = {palette.name: palette for palette in (LIGHT, DARK)}

"""A small curve under a slider: what each of its positions would give, with the choice of the figure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

import streamlit as st

from pages.components.curve import Curve
from pages.components.frame import asset
from scheduler_core.sensitivity import FIGURES

_component = st.components.v2.component(
    "tickscope_sparkline", css=asset("sparkline.css"), js=asset("turns.js", "sparkline.js")
)


def sparkline(
    curve: Curve, *, field: str, figure: str, offered: Sequence[str], notes: Sequence[str], note: str, look: int,
    key: str,
) -> str:  # fmt: skip
    """Draw the curve of a figure; the name of the figure that the visitor has just chosen, "" if none was.

    Call it inside a fragment: with a `look` above 0, another number each time, the browser soon asks again.
    `note` is shown, `notes` stand above the table of values.
    """
    data = asdict(curve) | {
        "field": field,
        "figure": figure,
        "meaning": FIGURES[figure].meaning,
        "options": [{"name": name, "words": FIGURES[name].words} for name in offered],
        "notes": list(notes),
        "note": note,
        "look": look,
    }
    result = _component(key=key, data=data, on_choose_change=_nothing, on_look_change=_nothing)
    chosen = result.get("choose")
    return chosen if chosen in offered and chosen != figure else ""


def _nothing() -> None:
    """A callback makes Streamlit keep the key."""

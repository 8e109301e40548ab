"""A small curve under a slider: what each of its positions would give."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from pages.components.frame import asset

_component = st.components.v2.component("tickscope_sparkline", css=asset("sparkline.css"), js=asset("sparkline.js"))


def sparkline(values: Sequence[float], at: int, *, caption: str, value: str, key: str) -> None:
    """Draw one value for each position of a slider, with a mark at position `at`, whose value is told in words."""
    label = f"{caption}: from {min(values):g} to {max(values):g}, here {value}"
    _component(key=key, data={"values": list(values), "at": at, "caption": caption, "value": value, "label": label})

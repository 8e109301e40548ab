"""Fields that begin with a value of the state and are then their own: a value in code does not reset them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import streamlit as st


def begin(key: str, value: Any) -> str:
    """Give a field its first value, unless it has one; returns the key."""
    if key not in st.session_state:
        st.session_state[key] = value
    return key


def forget(keys: Iterable[str]) -> None:
    """Let these fields begin anew."""
    for key in keys:
        st.session_state.pop(key, None)


def whole(title: str, key: str, value: int, low: int, high: int, told: str | None = None) -> int:
    """A whole number from `low` to `high`."""
    begin(key, max(low, min(high, value)))
    return int(st.number_input(title, low, high, key=key, help=told, step=1))


def number(title: str, key: str, value: float, low: float, high: float, told: str | None = None) -> float:
    """A number from `low` to `high`."""
    begin(key, max(low, min(high, float(value))))
    return float(st.number_input(title, float(low), float(high), key=key, help=told, format="%g", step=None))

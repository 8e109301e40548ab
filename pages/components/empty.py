"""What stands where there is nothing to show yet: one line that says what to do, with a button where one helps."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from pages.components.plain import plain


def empty(text: str, *, key: str, button: str = "", on_click: Callable[[], None] | None = None) -> None:
    """Say what to do next, and offer to do it."""
    with st.container(border=True, key=f"empty_{key}", horizontal=True, vertical_alignment="center"):
        st.markdown(plain(text), width="content")
        if button:
            st.button(button, key=f"do_{key}", on_click=on_click)

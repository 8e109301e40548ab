"""Tells a screen reader what a part of the page from scratch has come to."""

from __future__ import annotations

import streamlit as st

from pages.components.frame import asset

_announce = st.components.v2.component("tickscope_from_scratch", js=asset("lesson.js"), css=asset("lesson.css"))


def announce(part: str, text: str) -> None:
    """Say a new text once; draw it empty beforehand, so that it is there when there is something to say."""
    _announce(key=f"announce_{part}", data={"text": text})

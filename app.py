"""Tickscope's home page."""

from __future__ import annotations

import streamlit as st

from pages.components.frame import frame

frame("app.py")
st.title("See how an LLM server decides who runs next")

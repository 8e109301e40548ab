"""The page from scratch put together: the naive scheduler, the same requests under the real one, the fault museum."""

from __future__ import annotations

import streamlit as st

from pages.components.frame import asset
from pages.components.from_scratch_museum import museum
from pages.components.from_scratch_naive import naive
from pages.components.from_scratch_real import real


def from_scratch(fresh: bool) -> None:
    """Draw everything; `fresh` tells that the visitor has just come to the page."""
    st.title("From scratch", anchor=False)
    st.html(f"<style>{asset('lesson_page.css')}{asset('from_scratch.css')}</style>")
    st.markdown(
        "A scheduler for a language model can be written in some sixty lines. They run, and hardly anything in them "
        "works. See what goes wrong, and then how the real one does it."
    )
    naive()
    real(fresh)
    museum(fresh)

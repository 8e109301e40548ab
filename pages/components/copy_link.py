"""A link with a button that copies it."""

from __future__ import annotations

import streamlit as st

from pages.components.frame import asset

_HTML = """<div class="copy">
<button type="button"></button><span class="said" role="status" aria-live="polite"></span>
</div>"""
_copy = st.components.v2.component("tickscope_copy", html=_HTML, css=asset("copy.css"), js=asset("copy.js"))

#: Browsers and chats take a link of this length; past it they cut.
MAX_LINK = 8_000


def copy_link(address: str, key: str) -> None:
    """Draw button and link; a link that is too long is not offered but told."""
    if len(address) > MAX_LINK:
        told = f"This link would have {len(address):,} characters, more than the {MAX_LINK:,} that every browser takes"
        st.caption(f"{told}: your requests are too long for it. Send the trace instead.")
        return
    _copy(key=key, data={"text": address, "label": "Copy link"})
    st.code(address, language=None, wrap_lines=True)

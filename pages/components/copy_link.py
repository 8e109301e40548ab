"""A link with a button that copies it."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlencode, urlsplit

import streamlit as st

from pages.components.frame import asset

_HTML = """<div class="copy">
<button type="button">Copy link</button><span class="said" role="status" aria-live="polite"></span>
</div>"""
_copy = st.components.v2.component("tickscope_copy", html=_HTML, css=asset("copy.css"), js=asset("copy.js"))

#: Browsers and chats take a link of this length; past it they cut.
MAX_LINK = 8_000


def copy_link(address: str, key: str, *, is_shown: bool = True) -> None:
    """Draw the button and, if it `is_shown`, the link; one that is too long is not offered but told."""
    if len(address) > MAX_LINK:
        told = f"This link would have {len(address):,} characters, more than the {MAX_LINK:,} that every browser takes"
        st.caption(f"{told}: your requests are too long for it. Send a file of the run instead.")
        return
    place = "below" if is_shown else "in the address bar"
    failed = f"The browser did not allow it: select the link {place} and copy it."
    _copy(key=key, data={"text": address, "failed": failed})
    if is_shown:
        st.code(address, language=None, wrap_lines=True)


def here(query: Mapping[str, str], tick: int) -> str:
    """The address of this page with that query, at a tick."""
    asked = urlsplit(st.context.url or "")
    parts = urlencode(dict(query) | ({"tick": str(tick)} if tick else {}))
    return f"{asked.scheme}://{asked.netloc}{asked.path}" + (f"?{parts}" if parts else "")

"""What every page starts with: its title, the looks, and the navigation of our own."""

from __future__ import annotations

import base64
import gc
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import streamlit as st

from pages.components.teach_state import enter_teach, teach
from pages.components.terms import definitions

ROOT = Path(__file__).resolve().parents[2]
ASSETS = ROOT / "assets"

SIDEBAR_PIXELS = 264


@dataclass(frozen=True, slots=True)
class PageEntry:
    """A line of the navigation; `group` is the heading it stands under, "" for the top."""

    path: str
    label: str
    group: str = ""


#: A new page is one line here, once its file exists.
PAGES = (
    PageEntry("app.py", "Home"),
    PageEntry("pages/playground.py", "Playground"),
    PageEntry("pages/chunked_prefill.py", "Chunked prefill", "Lessons"),
    PageEntry("pages/prefix_caching.py", "Prefix caching", "Lessons"),
    PageEntry("pages/preemption.py", "Preemption", "Lessons"),
    PageEntry("pages/from_scratch.py", "From scratch", "Lessons"),
    PageEntry("pages/compare.py", "Compare", "Tools"),
    PageEntry("pages/workloads.py", "Workloads", "Tools"),
    PageEntry("pages/scale_out.py", "Scale out", "Tools"),
    PageEntry("pages/operations.py", "Operations", "Tools"),
    PageEntry("pages/glossary.py", "Glossary", "Tools"),
)

#: The pages that have a teacher view, in which there is no navigation.
TEACHABLE = (
    "pages/playground.py",
    "pages/chunked_prefill.py",
    "pages/prefix_caching.py",
    "pages/preemption.py",
    "pages/compare.py",
)

_FONT_FACE = """@font-face {{ font-family: "Inter Variable"; font-style: normal; font-weight: 100 900;
font-display: swap; src: url(data:font/woff2;base64,{data}) format("woff2"); }}
"""


def frame(page: str) -> bool:
    """Configure the page that stands in the file `page` and draw brand and navigation; call it first.

    Tells whether the visitor has just come to the page.
    """
    entry = next(entry for entry in PAGES if entry.path == page)
    st.set_page_config(
        page_title=f"{entry.label} · Tickscope",
        page_icon=str(ASSETS / "logo.svg"),
        layout="wide",
        initial_sidebar_state=SIDEBAR_PIXELS,
    )
    fresh = st.session_state.get("page") != page
    st.session_state["page"] = page
    if fresh and page in TEACHABLE:
        enter_teach()
    _forget_what_stays()
    st.html(f"<style>{_styles()}</style>")
    if page not in TEACHABLE or teach() is None:
        with st.sidebar:
            _brand(key="brand")
            with st.container(key="nav"):
                _navigation(entry)
    with st.container(key="terms"):
        _terms(key="definitions", data={"terms": definitions()})
    return fresh


def _navigation(here: PageEntry) -> None:
    group = ""
    for entry in PAGES:
        if entry.group != group:
            group = entry.group
            st.html(f'<div class="ts-group">{group}</div>')
        with st.container(key="here" if entry is here else None):
            st.page_link(entry.path, label=entry.label, width="stretch")


@cache
def _forget_what_stays() -> None:
    """Take what was imported out of the collector's rounds: Streamlit makes a full one after every run of a page."""
    gc.collect()
    gc.freeze()


@cache
def _styles() -> str:
    # The font travels inside the style sheet, so a class room without a network sees the same page.
    data = base64.b64encode((ASSETS / "fonts" / "inter-latin.woff2").read_bytes()).decode("ascii")
    return _FONT_FACE.format(data=data) + asset("frame.css")


def asset(*names: str) -> str:
    """The texts of files in assets/page, one after the other."""
    return "\n".join((ASSETS / "page" / name).read_text(encoding="utf-8") for name in names)


def _brand_html() -> str:
    logo = (ASSETS / "logo.svg").read_text(encoding="utf-8").strip()
    return asset("brand.html").replace("{logo}", logo.replace("<svg ", '<svg aria-hidden="true" ', 1))


# The brand, and the script that closes the sidebar of a phone.
_brand = st.components.v2.component("tickscope_brand", html=_brand_html(), css=asset("brand.css"), js=asset("frame.js"))
# The definitions of marked terms; in the page's own tree, so that a link can be described by one.
_terms = st.components.v2.component(
    "tickscope_terms", css=asset("terms.css"), js=asset("terms.js"), isolate_styles=False
)

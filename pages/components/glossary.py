"""The glossary: all terms in their groups, with a search, and a way to the place that shows each."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl

import streamlit as st

from pages.components.frame import PAGES, asset
from pages.components.lesson_runs import shipped_lesson
from pages.components.plain import cut, plain
from scheduler_core.errors import TickscopeError
from scheduler_core.glossary import Term, terms
from scheduler_core.glossary import glossary as groups_of_terms
from scheduler_core.lesson import list_lessons

SENTENCE = (
    "The words of the field, as this app uses them. In the lessons they are underlined with dots: point at one, move "
    "the focus to it, or tap it."
)

_component = st.components.v2.component(
    "tickscope_glossary", css=asset("glossary.css"), js=asset("turns.js", "glossary.js")
)


def glossary() -> None:
    """Draw the page."""
    st.title("Glossary", anchor=False)
    st.markdown(f":gray[{SENTENCE}]")
    try:
        groups = [{"title": group.title, "terms": [_sent(term) for term in group.terms]} for group in groups_of_terms()]
        wanted = _wanted()
    except TickscopeError as problem:
        st.error(plain(str(problem)))
        return
    result = _component(key="glossary", data={"groups": groups, "wanted": wanted}, on_open_change=_nothing)
    if asked := result.get("open"):
        open_place(str(asked))


def _nothing() -> None:
    """A callback makes Streamlit keep the key."""


def _wanted() -> str:
    """The term that a link asks for, "" for none; one that is not there is told."""
    asked = st.query_params.get("term", "")
    if asked and asked not in terms():
        st.warning(f"The link asks for the term {plain(cut(asked))}, which is not in the list. Search for it below.")
        return ""
    return asked


def _sent(term: Term) -> dict[str, Any]:
    return {
        "key": term.key,
        "name": term.name,
        "full": term.full,
        "forms": list(term.forms),
        "text": term.text,
        "look": term.look,
        "see": term.see,
        "place": place(term.see),
        "source": list(term.source or ()),
    }


def place(see: str) -> str:
    """Where a term is shown, in words: "Lesson 1, step 5"; "" for nowhere."""
    if not see:
        return ""
    page, query = _split(see)
    label = next(entry.label for entry in PAGES if entry.path == f"pages/{page}.py")
    if page in list_lessons():
        label = f"Lesson {shipped_lesson(page).number}"
    details = {"step": "step {}", "panel": "{}"}
    told = [words.format(query[name]) for name, words in details.items() if name in query]
    return ", ".join([label, *told])


def _split(see: str) -> tuple[str, dict[str, str]]:
    page, _, query = see.partition("?")
    return page, dict(parse_qsl(query))


def open_place(see: str) -> None:
    """Go where a term is shown; the browser may ask only for what the list has."""
    if see in {term.see for term in terms().values()}:
        page, query = _split(see)
        st.switch_page(f"pages/{page}.py", query_params=query)

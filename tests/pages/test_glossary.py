"""The glossary's page, and the terms that are marked in texts."""

from __future__ import annotations

import re

import pytest

from pages.components.frame import PAGES
from pages.components.glossary import open_place, place
from pages.components.plain import plain
from pages.components.terms import definitions, mark
from scheduler_core.glossary import terms
from scheduler_core.lesson import list_lessons, load_lesson
from tests.pages.helpers import component, everything_said, open_home, open_page


def test_it_lists_every_term_once():
    at = open_page("glossary")
    assert not at.exception, at.exception
    sent = [term["key"] for group in component(at, "tickscope_glossary")["groups"] for term in group["terms"]]
    assert sent == list(terms())


def test_a_link_to_a_term_points_at_it():
    assert component(open_page("glossary", term="quantum"), "tickscope_glossary")["wanted"] == "quantum"


@pytest.mark.parametrize("asked", ["nonsense", "<script>alert(1)</script>", "A" * 5000, "🌊"])
def test_a_term_that_is_not_there_is_told(asked: str):
    at = open_page("glossary", term=asked)
    assert not at.exception, at.exception
    assert component(at, "tickscope_glossary")["wanted"] == ""
    assert "which is not in the list" in everything_said(at)


def test_a_place_is_told_in_words():
    assert place("chunked_prefill?step=5") == "Lesson 1, step 5"
    assert place("playground?panel=Charts") == "Playground, Charts"
    assert place("compare?pair=batching") == "Compare"
    assert all(place(term.see) for term in terms().values())


def test_what_the_browser_asks_for_is_opened_only_if_it_is_in_the_list(monkeypatch: pytest.MonkeyPatch):
    opened: list[tuple[str, object]] = []
    monkeypatch.setattr(
        "pages.components.glossary.st.switch_page", lambda path, query_params: opened.append((path, query_params))
    )
    for asked in ("https://example.com/", "../app", "chunked_prefill?step=5", "playground"):
        open_place(asked)
    assert opened == [("pages/chunked_prefill.py", {"step": "5"}), ("pages/playground.py", {})]


def test_the_first_occurrence_of_a_term_is_marked_and_no_other():
    assert mark("A tick, two ticks.") == "A [tick](glossary?term=tick), two ticks."
    seen: set[str] = set()
    assert mark("a lane", seen) == "a [lane](glossary?term=lane)"
    assert mark("another lane", seen) == "another lane"


@pytest.mark.parametrize("text", ["`tick`", "[a tick](x)", "# A tick", "| tick | lane |", "https://a.example/tick"])
def test_code_links_headings_and_tables_are_left_alone(text: str):
    assert mark(text) == text


def test_text_of_users_stays_text():
    marked = mark(plain("R1](javascript:alert(1)) <b>tick</b> [x](y)"))
    assert re.findall(r"(?<!\\)\]\((.*?)\)", marked) == ["glossary?term=tick"]
    assert "<b>" not in marked.replace(r"\<b\>", "")


@pytest.mark.parametrize("name", list_lessons())
def test_each_step_of_a_lesson_marks_terms_each_once(name: str):
    for step in load_lesson(name).steps:
        at = open_page(name, step=str(step.number))
        marked = re.findall(r"\(glossary\?term=([a-z0-9-]+)\)", "\n".join(text.value for text in at.markdown))
        assert marked, step.title
        assert len(marked) == len(set(marked)), step.title
        assert set(marked) <= set(terms())


def test_what_a_screen_reader_is_told_of_a_step_has_no_link_in_it():
    assert "glossary" not in component(open_page("chunked_prefill"), "tickscope_lesson")["text"]


def test_every_page_can_tell_every_definition():
    at = open_home()
    assert component(at, "tickscope_terms")["terms"] == definitions()
    assert {key: entry["text"] for key, entry in definitions().items()} == {t.key: t.text for t in terms().values()}


def test_it_stands_in_the_navigation():
    assert "pages/glossary.py" in [entry.path for entry in PAGES]

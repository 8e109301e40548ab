"""The glossary: what the lessons use is defined, and what is defined is used."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scheduler_core.errors import GlossaryError
from scheduler_core.glossary import GLOSSARY_FILE, Term, glossary, occurrences, terms
from scheduler_core.lesson import LESSON_FOLDER, list_lessons, load_lesson

ROOT = Path(__file__).resolve().parents[1]

#: Words of the field: wherever a lesson has one of them, a reader must be able to ask what it means.
JARGON = (
    "requests?", "prompts?", "tokens?", "lanes?", "queue", "tenants?", "ticks?", "batch(es)?", "prefills?", "decodes?",
    "chunks?", "chunked prefills?", "token budget", "stall(ed|s)?", "KV", "keys and values", "blocks?", "prefix cache",
    "hash chain", "hits?", "kept for reuse", "evict(s|ed|ion)?", "salt", "host pool", "admitted", "promised",
    "preempt(s|ed|ions?)?", "swap(ped|ping)?", "recomputed?", "quantum", "slices?", "class(es)?", "push(-| )out",
    "thrashing", "starvation", "starves?", "ageing", "multi-level feedback queue", "TTFT", "time to first token",
    "ITL", "inter-token latency", "latency", "scenario",
)  # fmt: skip

#: Where people read: pages and stage, the sentences about a run, scenarios and lessons.
ON_SCREEN = (
    "pages/**/*.py",
    "assets/player/*.js",
    "assets/lessons/*.md",
    "assets/scenarios/*.toml",
    "scheduler_core/*.py",
)


def keys(text: str) -> list[str]:
    return [term.key for _, _, term in occurrences(text)]


def lesson_texts() -> dict[str, str]:
    """What each lesson tells, without placeholders."""
    told = {}
    for name in list_lessons():
        lesson = load_lesson(name)
        parts = [f"{step.title}\n{step.text}\n{step.after}" for step in lesson.steps]
        parts += [f"{check.question}\n{check.answer}" for check in lesson.checks]
        told[name] = re.sub(r"\{[^}]*\}", "0", "\n".join(parts))
    return told


@pytest.mark.parametrize("name", list_lessons())
def test_every_word_of_the_field_in_a_lesson_is_defined(name: str):
    text = lesson_texts()[name]
    covered = [range(start, end) for start, end, _ in occurrences(text)]
    found = [match for word in JARGON for match in re.finditer(rf"(?<![\w-]){word}(?![\w-])", text, re.IGNORECASE)]
    assert len(found) > 50
    undefined = {match.group() for match in found if not any(match.start() in part for part in covered)}
    assert undefined == set()


def test_every_term_is_used_somewhere_in_the_app():
    own = {GLOSSARY_FILE, ROOT / "pages/components/glossary.py", ROOT / "scheduler_core/glossary.py"}
    files = [path for pattern in ON_SCREEN for path in ROOT.glob(pattern) if path not in own]
    used = set(keys("\n".join(path.read_text(encoding="utf-8") for path in files)))
    assert set(terms()) - used == set()


@pytest.mark.parametrize("term", terms().values(), ids=lambda term: term.key)
def test_a_definition_is_one_or_two_plain_sentences(term: Term):
    assert 1 <= len(re.findall(r"[.!?](?=\s|$)", term.text)) <= 3
    assert term.text.endswith(".")
    assert term.text[0].isupper()
    assert len(term.text) <= 200
    assert not re.search(r"[*_`<>\[\]]", term.text)
    assert term.name.lower() != term.text.lower()


def test_the_page_or_step_that_shows_a_term_exists():
    steps = {name: len(load_lesson(name).steps) for name in list_lessons()}
    for term in terms().values():
        page, _, query = term.see.partition("?")
        assert (ROOT / "pages" / f"{page}.py").exists(), term.name
        if page in steps:
            assert 1 <= int(query.removeprefix("step=")) <= steps[page], term.name


def test_the_step_of_a_lesson_that_shows_a_term_speaks_of_it():
    for term in terms().values():
        page, _, query = term.see.partition("?step=")
        if (LESSON_FOLDER / f"{page}.md").exists():
            step = load_lesson(page).steps[int(query) - 1]
            assert term.key in keys(f"{step.title} {step.text} {step.after}"), term.name


def test_sources_are_addresses_with_a_title():
    for term in terms().values():
        if term.source:
            title, address = term.source
            assert title
            assert address.startswith("https://")


def test_the_longest_form_wins_and_line_breaks_do_not_matter():
    assert keys("A chunk, and chunked\nprefill.") == ["chunk", "chunked-prefill"]
    assert keys("the Token Budget of a tick") == ["token-budget", "tick"]


def test_parts_of_words_are_no_terms():
    assert keys("ticklish, blockade, tokenizer, a-tick, non-block, white") == []


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('[[groups]]\ntitle = "G"\n[[groups.terms]]\nname = "A"\ntext = "B."\nwho = 1', "has no key 'who'"),
        ('[[groups]]\ntitle = "G"\n[[groups.terms]]\nname = "A"', "needs a name and a text"),
        ('[[groups]]\ntitle = "G"\n[[groups.terms]]\nname = "A"\ntext = "B."\nlook = "red"', "the looks are cached"),
        (
            '[[groups]]\ntitle = "G"\n[[groups.terms]]\nname = "A"\ntext = "B."\n'
            '[[groups.terms]]\nname = "C"\nforms = ["a"]\ntext = "D."',
            "'a' belongs to A already",
        ),
        ("groups = [", "cannot read"),
    ],
)
def test_a_bad_glossary_is_told(text: str, told: str, tmp_path: Path):
    path = tmp_path / "glossary.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(GlossaryError, match=re.escape(told)):
        glossary(path)

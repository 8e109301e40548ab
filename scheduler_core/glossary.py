"""The glossary: each term of the app with its definition, and where in a text a term stands. Knows no page."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from scheduler_core.errors import GlossaryError

GLOSSARY_FILE = Path(__file__).resolve().parent.parent / "assets" / "glossary.toml"
#: The ways in which the stage draws a thing.
LOOKS = ("cached", "computed", "chunk", "todo", "generated", "preempted", "kept", "free")

_TERM_KEYS = ("name", "text", "full", "forms", "look", "see", "source")


@dataclass(frozen=True, slots=True)
class Term:
    """A term with its definition in one or two sentences.

    `full` is what an abbreviation stands for, `forms` are the words by which it is found, `look` is how the stage draws
    it, `see` the page (with a query) that shows it, `source` a title and an address; each is empty where there is none.
    """

    key: str
    name: str
    text: str
    full: str
    forms: tuple[str, ...]
    look: str
    see: str
    source: tuple[str, str] | None


@dataclass(frozen=True, slots=True)
class Group:
    """Terms that belong together, under a title."""

    title: str
    terms: tuple[Term, ...]


@cache
def glossary(path: Path = GLOSSARY_FILE) -> tuple[Group, ...]:
    """All terms in their groups, as the file has them; raises `GlossaryError`."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as problem:
        raise GlossaryError(f"cannot read {path.name}: {problem}") from None
    groups = tuple(Group(group["title"], tuple(map(_term, group["terms"]))) for group in table["groups"])
    _check(groups)
    return groups


@cache
def terms() -> dict[str, Term]:
    """Every term by its key, in the order of the file."""
    return {term.key: term for group in glossary() for term in group.terms}


def occurrences(text: str) -> Iterator[tuple[int, int, Term]]:
    """Start, end and term of every form in a text, longer forms before the shorter ones within them."""
    pattern, by_form = _finder()
    for found in pattern.finditer(text):
        yield found.start(), found.end(), by_form[_folded(found.group())]


@cache
def _finder() -> tuple[re.Pattern[str], dict[str, Term]]:
    by_form = {_folded(form): term for term in terms().values() for form in term.forms}
    # A line may be broken anywhere between two words of a form.
    longest_first = sorted(by_form, key=len, reverse=True)
    forms = "|".join(re.escape(form).replace(r"\ ", r"\s+") for form in longest_first)
    return re.compile(rf"(?<![\w-])(?:{forms})(?![\w-])", re.IGNORECASE), by_form


def _folded(form: str) -> str:
    return " ".join(form.lower().split())


def _term(table: dict[str, Any]) -> Term:
    name = table.get("name", "")
    if unknown := [key for key in table if key not in _TERM_KEYS]:
        raise GlossaryError(f"the term {name!r} has no key {unknown[0]!r}; the keys are {', '.join(_TERM_KEYS)}")
    if not name or not table.get("text"):
        raise GlossaryError(f"the term {name!r} needs a name and a text")
    if (look := table.get("look", "")) and look not in LOOKS:
        raise GlossaryError(f"the term {name!r} looks like {look!r}; the looks are {', '.join(LOOKS)}")
    source = table.get("source")
    return Term(
        re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-"),
        name,
        table["text"],
        table.get("full", ""),
        tuple(table.get("forms", (name, f"{name}s"))),
        look,
        table.get("see", ""),
        (source[0], source[1]) if source else None,
    )


def _check(groups: tuple[Group, ...]) -> None:
    """No two terms may claim the same word."""
    owners: dict[str, str] = {}
    for term in (term for group in groups for term in group.terms):
        for form in map(_folded, term.forms):
            if owners.setdefault(form, term.name) != term.name:
                raise GlossaryError(f"the form {form!r} belongs to {owners[form]} already; take it from {term.name}")

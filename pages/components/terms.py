"""Terms in a text of ours: the first time each stands there it is a link that tells its definition."""

from __future__ import annotations

import re
from typing import Any

from scheduler_core.glossary import occurrences, terms

#: What must not be cut into: code, links and images, headings, rows of tables, escaped marks, addresses.
_CLOSED = re.compile(r"`[^`]*`|!?\[[^\]]*\]\([^)]*\)|^#.*$|^\s*\|.*$|\\.|https?://\S+", re.MULTILINE)


def mark(text: str, seen: set[str] | None = None) -> str:
    """Markdown in which the first occurrence of each term is a link to its definition.

    `seen` holds the keys of the terms that were marked before on the same page; it grows.
    """
    seen = set() if seen is None else seen
    closed = [found.span() for found in _CLOSED.finditer(text)]
    parts, at = [], 0
    for start, end, term in occurrences(text):
        if term.key in seen or any(first < end and start < last for first, last in closed):
            continue
        seen.add(term.key)
        parts += [text[at:start], f"[{text[start:end]}](glossary?term={term.key})"]
        at = end
    return "".join([*parts, text[at:]])


def definitions() -> dict[str, Any]:
    """Name and definition of every term by its key, as the browser is sent them."""
    return {
        term.key: {"name": f"{term.name} · {term.full}" if term.full else term.name, "text": term.text}
        for term in terms().values()
    }

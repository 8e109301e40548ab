"""Text of users inside Streamlit's Markdown: shown as it stands, never read as markup."""

from __future__ import annotations

import re

_MARKUP = re.compile(r"([\\`*_{}\[\]()<>#+\-.!|~$:&@])")
_UNSEEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]")


def plain(text: str) -> str:
    """The text with every mark of Markdown disarmed and unprintable characters made visible."""
    return _MARKUP.sub(r"\\\1", visible(text))


def visible(text: str) -> str:
    """Control characters and lone surrogates by their numbers, as in ⟨U+0007⟩."""
    return _UNSEEN.sub(lambda found: f"⟨U+{ord(found.group()):04X}⟩", text)


def cut(text: str, limit: int = 40) -> str:
    """The text in quotes, shortened to `limit` characters."""
    shown = " ".join(visible(text).split())
    return f"“{shown if len(shown) <= limit else shown[: limit - 1] + '…'}”"

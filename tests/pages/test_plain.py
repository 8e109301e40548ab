"""Text of users as text."""

from __future__ import annotations

import pytest

from pages.components.plain import cut, plain, visible


@pytest.mark.parametrize("text", ["![x](http://evil/a.png)", "**b**", "`c`", "<script>", ":material/x:", "$x$", "# h"])
def test_no_mark_of_markup_stays_armed(text: str):
    shown = plain(text)
    marks = [place for place, character in enumerate(shown) if character in "![]()*`<>:$#_/" and character != "/"]
    assert marks
    assert all(shown[place - 1] == "\\" for place in marks)


def test_what_cannot_be_seen_is_named():
    assert visible("a\x07\ud800") == "a⟨U+0007⟩⟨U+D800⟩"


def test_a_long_text_is_cut():
    assert cut("a" * 100) == "“" + "a" * 39 + "…”"

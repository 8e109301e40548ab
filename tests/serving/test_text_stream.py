"""Text as it comes: whole characters only, and nothing of a stop string."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_core.serving.text_stream import Detokenizer, StopStrings, TextStream


def decode_bytes(token_ids: list[int]) -> str:
    """A tokenizer whose tokens are single bytes."""
    return bytes(token_ids).decode("utf-8", "replace")


def decode_letters(token_ids: list[int]) -> str:
    return "".join(map(chr, token_ids))


def parts(text: str, stop: list[str], min_tokens: int = 0) -> list[str]:
    """What is shown after each letter, and at the end."""
    stream = TextStream(decode_letters, stop, min_tokens)
    shown = []
    for letter in text:
        shown.append(stream.add(ord(letter)))
        if stream.has_stopped:
            return shown
    return [*shown, stream.finish()]


def test_a_character_is_shown_once_all_its_bytes_are_there() -> None:
    detokenizer = Detokenizer(decode_bytes)
    assert [detokenizer.add(byte) for byte in "aé😀b".encode()] == ["a", "", "é", "", "", "", "😀", "b"]
    assert detokenizer.finish() == ""


def test_half_a_character_at_the_end_is_shown_as_such() -> None:
    detokenizer = Detokenizer(decode_bytes)
    assert [detokenizer.add(byte) for byte in "é".encode()[:1]] == [""]
    assert detokenizer.finish() == "\ufffd"


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=40))
def test_the_parts_of_any_text_make_up_the_text_and_none_is_half_a_character(text: str) -> None:
    detokenizer = Detokenizer(decode_bytes)
    shown = [detokenizer.add(byte) for byte in text.encode()] + [detokenizer.finish()]
    assert "".join(shown) == text


@given(st.lists(st.integers(0, 255), max_size=40))
def test_bytes_that_are_no_text_pass_without_an_error(token_ids: list[int]) -> None:
    detokenizer = Detokenizer(decode_bytes)
    shown = "".join([detokenizer.add(byte) for byte in token_ids] + [detokenizer.finish()])
    assert bool(shown) == bool(token_ids)


def test_many_tokens_without_text_do_not_pile_up() -> None:
    longest = 0

    def decode(token_ids: list[int]) -> str:
        nonlocal longest
        longest = max(longest, len(token_ids))
        return "".join("x" for token_id in token_ids if token_id)

    detokenizer = Detokenizer(decode)
    assert [detokenizer.add(0) for _ in range(500)] == [""] * 500
    assert detokenizer.add(1) == "x"
    assert longest < 20


def test_a_stop_string_across_tokens_ends_the_text_before_it() -> None:
    assert parts("one STOP two", ["STOP"]) == ["o", "n", "e", " ", "", "", "", ""]


def test_what_only_began_like_a_stop_string_is_shown_after_all() -> None:
    assert parts("a STOx", ["STOP"]) == ["a", " ", "", "", "", "STOx", ""]


def test_what_is_held_back_at_the_end_is_shown() -> None:
    assert parts("a ST", ["STOP"]) == ["a", " ", "", "", "ST"]


def test_the_first_of_several_stop_strings_counts() -> None:
    stops = StopStrings(["yz", "x"])
    assert stops.add("abxyz") == "ab"
    assert stops.found == "x"


def test_before_min_tokens_no_stop_string_counts() -> None:
    assert "".join(parts("..a..", ["."], min_tokens=3)) == "..a"


@given(st.text("ab", max_size=30), st.lists(st.text("ab", min_size=1, max_size=4), min_size=1, max_size=3))
def test_the_text_shown_is_what_stands_before_the_first_stop_string(text: str, stop: list[str]) -> None:
    places = [text.find(each) for each in stop if each in text]
    # The first that is complete ends the text: of two that overlap the one that ends first.
    ends = [(text.find(each) + len(each), text.find(each)) for each in stop if each in text]
    expected = text[: min(place for end, place in ends if end == min(ends)[0])] if places else text
    assert "".join(parts(text, stop)) == expected


@pytest.mark.parametrize("stop", [[], ["zz"]])
def test_without_a_hit_the_whole_text_is_shown(stop: list[str]) -> None:
    assert "".join(parts("hello world", stop)) == "hello world"

"""Requests of a visitor's own."""

from __future__ import annotations

import pytest

from pages.components.own_requests import (
    OwnRequest,
    free_id,
    from_pasted,
    length_problem,
    problems,
    request_problems,
)
from pages.components.settings import Limits

LIMITS = Limits(max_requests=3, max_prompt_tokens=100, max_output_tokens=50)


def test_a_good_request_has_no_problem():
    assert problems([OwnRequest("R0", "Why is the sky blue?\n\tTell me.")], LIMITS) == []


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        (OwnRequest("R0", ""), "empty prompt"),
        (OwnRequest("R0", " \n "), "empty prompt"),
        (OwnRequest("R0", "hi", max_tokens=0), "max tokens of R0 is 0; it must be from 1 to 50"),
        (OwnRequest("R0", "hi", max_tokens=10**9), "1,000,000,000; it must be from 1 to 50. Set it to 50"),
        (OwnRequest("R0", "hi", priority=-1), "class of R0 is -1"),
        (OwnRequest("R0", "hi", arrival=-1), "arrival of R0 is -1"),
        (OwnRequest("R0", "a\ud800b"), "U+D800 at position 2"),
        (OwnRequest("R0", "a\x07b"), "U+0007 at position 2"),
        (OwnRequest("R0", "a\x9bb"), "U+009B at position 2"),
        (OwnRequest("", "hi"), "no name"),
        (OwnRequest("=1+1", "hi"), "no name"),
        (OwnRequest("R" * 17, "hi"), "no name"),
        (OwnRequest("R0", "hi", system="\x00"), "system prompt has the character U+0000"),
    ],
)
def test_a_bad_request_is_told_with_value_and_remedy(request_: OwnRequest, said: str):
    [message] = request_problems(request_, LIMITS)
    assert said in message


def test_markup_in_a_prompt_is_just_text():
    assert request_problems(OwnRequest("R0", "<script>alert(1)</script> ![x](http://a)"), LIMITS) == []


def test_a_mistake_in_what_all_share_is_told_once():
    rows = [OwnRequest(f"R{n}", "hi", system="\x00") for n in range(3)]
    assert len(problems(rows, LIMITS)) == 1


def test_two_of_one_name_are_refused():
    assert "“R1”" in problems([OwnRequest("R1", "a"), OwnRequest("R1", "b")], LIMITS)[0]


def test_too_many_requests_are_refused_with_the_limit():
    assert "at most 3" in problems([OwnRequest(f"R{n}", "a") for n in range(4)], LIMITS)[0]


def test_none_at_all_is_told():
    assert "add one" in problems([], LIMITS)[0]


def test_a_prompt_past_the_site_or_the_sequence_is_told():
    assert "at most 100" in length_problem(OwnRequest("R0", ""), 101, 1024, LIMITS)
    assert "longest sequence at 64" in length_problem(OwnRequest("R0", ""), 64, 64, LIMITS)
    assert length_problem(OwnRequest("R0", ""), 63, 64, LIMITS) == ""


def test_pasted_text_becomes_one_request_a_block():
    made = from_pasted("One\nline two\r\n\r\n\n\nThree", ["R0"])
    assert [(r.id, r.prompt) for r in made] == [("R1", "One\nline two"), ("R2", "Three")]


def test_a_free_name_is_the_first_gap():
    assert free_id(["R0", "R2"]) == "R1"

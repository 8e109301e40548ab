"""A recorded run to which something is added: recorded tokens where there are any, made-up ones elsewhere."""

from __future__ import annotations

from scheduler_core.backends.patched_replay import MADE_UP_FROM, PatchedReplay, made_up
from scheduler_core.engine import fork
from scheduler_core.trace import Trace
from tests.helpers import create_engine, create_request, finish_reasons, hit_tokens, outputs, run


def recorded() -> Trace:
    return run(create_engine(), create_request("A", 8, max_tokens=6), create_request("B", 8, max_tokens=6))


def test_what_was_recorded_stays_as_it_was():
    trace = recorded()
    forked = fork(trace, 2, trace.config, PatchedReplay(trace), add=[create_request("C", 8, max_tokens=4)])
    assert {name: tokens for name, tokens in outputs(forked).items() if name != "C"} == outputs(trace)


def test_new_words_are_made_up_and_told():
    trace = recorded()
    runner = PatchedReplay(trace)
    added = create_request("C", list(runner.encode("What is a ship?")), max_tokens=4)
    forked = fork(trace, 2, trace.config, runner, add=[added])
    assert made_up(forked) == ("C",)
    assert len(outputs(forked)["C"]) == 4
    assert all(token >= MADE_UP_FROM for token in outputs(forked)["C"])
    assert finish_reasons(forked)["C"].value == "length"
    assert made_up(trace) == ()


def test_what_is_made_up_is_the_same_each_time():
    trace = recorded()
    twice = [
        fork(trace, 2, trace.config, PatchedReplay(trace), add=[create_request("C", 8, max_tokens=4)]) for _ in range(2)
    ]
    assert outputs(twice[0]) == outputs(twice[1])


def test_the_words_of_a_new_prompt_are_kept_apart_from_recorded_tokens():
    runner = PatchedReplay(recorded())
    tokens = runner.encode_chat("What is a ship?", "Be kind.")
    assert min(tokens) >= MADE_UP_FROM
    assert "ship?" in "".join(runner.token_text(token) for token in tokens)


def test_who_asks_the_same_gets_the_recorded_answer_and_its_blocks():
    trace = recorded()
    again = create_request("C", list(trace.request("A").prompt_token_ids), max_tokens=6)
    forked = fork(trace, len(trace.records), trace.config, PatchedReplay(trace, {"C": "A"}), add=[again])
    assert outputs(forked)["C"] == outputs(trace)["A"]
    assert made_up(forked) == ()
    assert hit_tokens(forked)["C"] == [4]


def test_an_answer_longer_than_the_recorded_one_goes_on_made_up():
    trace = recorded()
    again = create_request("C", list(trace.request("A").prompt_token_ids), max_tokens=8)
    forked = fork(trace, 1, trace.config, PatchedReplay(trace, {"C": "A"}), add=[again])
    assert outputs(forked)["C"][:6] == outputs(trace)["A"]
    assert made_up(forked) == ("C",)

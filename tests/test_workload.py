"""Scenarios and drafts: what is read, and what is refused with which words."""

from __future__ import annotations

from pathlib import Path

import pytest

from scheduler_core.backends.synthetic import SyntheticRunner
from scheduler_core.engine import Engine
from scheduler_core.errors import RequestError, TickscopeError, WorkloadError
from scheduler_core.metrics import request_metrics
from scheduler_core.workload import Draft, list_scenarios, load_scenario, parse_scenario

MINIMAL = 'title = "t"\n[[requests]]\nprompt = "hello"\n'


def test_the_first_tour_is_listed_in_teaching_order() -> None:
    assert list_scenarios()[:7] == [
        "first_steps",
        "long_prompt_meets_chat",
        "burst",
        "shared_system_prompt",
        "time_slices",
        "memory_pressure",
        "priorities",
    ]


@pytest.mark.parametrize("name", list_scenarios())
def test_every_shipped_scenario_says_what_to_look_for_and_runs_to_its_end(name: str) -> None:
    scenario = load_scenario(name)
    assert scenario.title
    assert scenario.description
    assert len(scenario.look_for) >= 3
    runner = SyntheticRunner()
    engine = Engine(scenario.config, runner)
    for spec in scenario.specs(runner):
        engine.add_request(spec)
    assert all(m.is_completed for m in request_metrics(engine.run()))


def test_a_minimal_scenario_needs_a_title_and_a_prompt() -> None:
    scenario = parse_scenario(MINIMAL, "mine")
    assert scenario.requests == (Draft("R1", "hello"),)


def test_optional_settings_are_switched_off_with_none() -> None:
    scenario = parse_scenario('preset = "vllm"\n' + MINIMAL.replace("[[", '[config]\nquantum = "none"\n[[', 1), "mine")
    assert scenario.config.quantum is None
    assert scenario.config.admission == "whole_prompt"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("title = ", "not valid TOML"),
        ("", "title is missing"),
        ('title = "t"', "no request"),
        ('titel = "t"', "no key 'titel'"),
        (MINIMAL + "max_token = 3\n", "no key 'max_token'"),
        (MINIMAL + 'max_tokens = "many"\n', "max_tokens is 'many'"),
        (MINIMAL + "max_tokens = true\n", "max_tokens is True"),
        ('title = "t"\n[[requests]]\nid = "a"\n', "'a' has no prompt"),
        (MINIMAL + 'id = "a"\n[[requests]]\nid = "a"\nprompt = "x"\n', "'a' is used twice"),
        ('title = "t"\n[config]\nquantum = 0\n[[requests]]\nprompt = "x"', "quantum is 0"),
        ('title = "t"\n[config]\nspeed = 1\n[[requests]]\nprompt = "x"', "no setting 'speed'"),
        ('title = "t"\npreset = "warp"\n[[requests]]\nprompt = "x"', "no preset 'warp'"),
        ('title = "t"\nconfig = 3\n[[requests]]\nprompt = "x"', "config is not a table"),
        ('title = "t"\nlook_for = 3\n[[requests]]\nprompt = "x"', "look_for"),
    ],
)
def test_a_broken_scenario_is_refused_naming_the_key(text: str, words: str) -> None:
    with pytest.raises(WorkloadError, match=words):
        parse_scenario(text, "mine")


def test_an_unknown_scenario_lists_those_there_are() -> None:
    with pytest.raises(WorkloadError, match=r"no scenario 'nope'.*first_steps"):
        load_scenario("nope")


def test_a_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(WorkloadError, match="not UTF-8"):
        load_scenario(path)
    with pytest.raises(WorkloadError, match="cannot read"):
        load_scenario(tmp_path / "missing.toml")


@pytest.mark.parametrize(
    ("draft", "words"),
    [
        (Draft("a", ""), "'a' has an empty prompt"),
        (Draft("a", " \n\t"), "empty prompt"),
        (Draft("a", "x\ud800y"), r"surrogate pair \(U\+D800\) at position 1"),
        (Draft("a", "x\x00"), r"control character \(U\+0000\) at position 1"),
        (Draft("a", "x\x1b[31m"), r"U\+001B"),
        (Draft("a", "x", max_tokens=0), "max_tokens is 0; it must be from 1"),
        (Draft("a", "x", max_tokens=10**9), "max_tokens is 1000000000"),
        (Draft("a", "x", temperature=-1.0), "temperature is -1"),
        (Draft("a", "x", top_p=0.0), "top_p is 0"),
        (Draft("a", "x", arrival_time=-1), "arrival_time"),
        (Draft("a", "x", arrival_time=float("nan")), "arrival_time"),
        (Draft("a", "x", priority=-1), "priority"),
        (Draft("", "x"), "empty id"),
        (Draft("a", "x" * 200_001), "200001 characters"),
    ],
)
def test_an_impossible_request_is_refused_with_value_and_remedy(draft: Draft, words: str) -> None:
    with pytest.raises(RequestError, match=words):
        draft.spec(SyntheticRunner())


def test_markup_in_a_prompt_is_only_text() -> None:
    spec = Draft("a", "<script>alert(1)</script>").spec(SyntheticRunner())
    assert spec.prompt == "<script>alert(1)</script>"


def test_messages_are_one_line() -> None:
    for text in ("title = ", "", MINIMAL + "x = 1"):
        with pytest.raises(TickscopeError) as problem:
            parse_scenario(text, "mine")
        assert "\n" not in str(problem.value)

"""The comparison without a browser."""

from __future__ import annotations

import dataclasses
import json
from types import SimpleNamespace
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from pages.components.compare_pairs import PAIRS
from pages.components.compare_state import CompareState, WhatIf, default_state, from_address, to_query
from pages.components.fields import preset_config
from pages.components.own_requests import OwnRequest, pack
from pages.components.play_state import PlayState
from pages.components.runs import Workload, own_scenario, recording, scenario_names, shipped
from scheduler_core.backends.replay import ReplayRunner
from scheduler_core.backends.synthetic import SyntheticRunner
from scheduler_core.comparison import first_difference, request_differences, total_differences
from scheduler_core.engine import Engine, fork
from scheduler_core.trace import Trace
from tests.helpers import create_engine
from tests.pages.helpers import component, everything_said, open_home, open_playground

PAGE = "pages/compare.py"
NAMES = scenario_names()


def open_compare(**query: str) -> AppTest:
    """The comparison by a link with that query."""
    at = open_home()
    for name, value in query.items():
        at.query_params[name] = value
    at.switch_page(PAGE)
    return at.run()


def stages(at: AppTest) -> list[dict[str, Any]]:
    """What the two stages were sent, left and right."""
    assert not at.exception, at.exception
    found = [e for e in at.get("bidi_component") if e.proto.component_name == "tickscope.stage"]
    assert len(found) == 2
    return [json.loads(element.proto.json) for element in found]


def ticks(at: AppTest) -> list[int]:
    return [data["run"]["ticks"] for data in stages(at)]


def said(at: AppTest) -> str:
    return (everything_said(at) + "\n" + "\n".join(element.value for element in at.markdown)).replace("\\", "")


def state(at: AppTest) -> CompareState:
    found: CompareState = at.session_state["compare"]
    return found


def replayed(name: str, preset: str = "", **changes: Any) -> Trace:
    """The core's own run of a scenario on its recorded tokens."""
    recorded = recording(name)
    assert recorded is not None
    config = preset_config(preset, shipped(name).config).replace(**changes)
    engine = Engine(config, ReplayRunner(recorded))
    for spec in recorded.requests:
        engine.add_request(spec)
    return engine.run()


def opened(at: AppTest, popover: str) -> AppTest:
    """The page with a popover open: what is in it is drawn only then."""
    at.session_state[popover] = True
    return at.run()


RIGHT_SETTINGS = "pop_settings_Right"


def sides_of(key: str) -> tuple[Trace, Trace]:
    pair = PAIRS[key]
    left, right = (replayed(pair.scenario, side.preset, **side.changes) for side in (pair.first, pair.second))
    return left, right


@pytest.mark.parametrize("key", PAIRS)
def test_every_pair_plays_both_sides_and_tells_where_they_part(key: str):
    at = open_compare(pair=key)
    left, right = sides_of(key)
    assert ticks(at) == [len(left.records), len(right.records)]
    first = first_difference(left, right)
    assert first is not None
    assert f"Tick {first.tick} is the first that differs" in said(at)
    assert [data["options"]["mark"] for data in stages(at)] == [first.tick, first.tick]
    assert not at.error


@pytest.mark.parametrize(
    ("key", "figure", "wins"),
    [
        ("chunked", "worst_gap", "first"),
        ("cache", "mean_ttft", "first"),
        ("cache", "hit_tokens", "second"),
        ("priority", "preemptions", "first"),
        ("quantum", "mean_ttft", "first"),
        ("quantum", "preemptions", "second"),
        ("swap", "recomputed_tokens", "first"),
        ("vllm", "preemptions", "second"),
        ("batching", "duration", "second"),
    ],
)
def test_a_pair_s_scenario_is_one_in_which_the_choice_matters(key: str, figure: str, wins: str):
    total = next(total for total in total_differences(*sides_of(key)) if total.name == figure)
    assert total.left is not None
    assert total.right is not None
    assert (total.left < total.right) == (wins == "first")
    assert total.left != total.right


def test_no_pair_names_a_setting_that_the_scenario_has_anyway():
    for pair in PAIRS.values():
        for side in (pair.first, pair.second):
            base = preset_config(side.preset, shipped(pair.scenario).config)
            assert all(getattr(base, name) != value for name, value in side.changes.items())


def test_the_two_stages_are_linked_and_told_apart():
    left, right = (data["options"] for data in stages(open_compare()))
    assert left["link"] == right["link"] != ""
    assert left["label"].startswith("Left stage: chunks of 32 tokens")
    assert right["label"].startswith("Right stage: whole prompts")


def test_equal_sides_say_that_they_are_equal():
    at = open_compare(scenario="first_steps")
    assert "Both sides are equal" in said(at)
    assert [data["options"]["mark"] for data in stages(at)] == [None, None]
    assert ticks(at)[0] == ticks(at)[1]


def test_different_settings_without_effect_are_told_with_the_reason():
    at = open_compare(scenario="first_steps", a_max_num_seqs="20", b_max_num_seqs="30")
    assert "The settings differ, but both runs are equal" in said(at)
    assert "ever ran at once" in said(at)


def test_the_sides_can_be_swapped():
    at = open_compare(pair="quantum")
    before = ticks(at)
    at.button(key="swap_sides").click().run()
    assert ticks(at) == before[::-1]
    assert stages(at)[0]["options"]["label"].startswith("Left stage: quantum of 8 ticks")
    assert state(at).pair == "quantum"
    at.button(key="swap_sides").click().run()
    assert ticks(at) == before


def test_a_setting_of_one_side_changes_that_side_only():
    at = open_compare(scenario="time_slices")
    opened(at, RIGHT_SETTINGS).select_slider(key="set_b_quantum").set_value(1).run()
    assert ticks(at) == [len(replayed("time_slices").records), len(replayed("time_slices", quantum=1).records)]
    assert state(at).first.overrides == {}
    assert state(at).second.overrides == {"quantum": 1}


def test_a_pair_is_chosen_from_the_list():
    at = open_compare()
    opened(at, "pop_pair").radio(key="set_pair").set_value("swap").run()
    assert state(at).pair == "swap"
    assert ticks(at) == [len(trace.records) for trace in sides_of("swap")]


@pytest.mark.parametrize("name", NAMES)
def test_every_scenario_can_be_compared(name: str):
    at = open_compare(pair="quantum")
    opened(at, "pop_compare_scenario").radio(key="set_compare_scenario").set_value(name).run()
    left, right = replayed(name, quantum=2), replayed(name, quantum=8)
    assert ticks(at) == [len(left.records), len(right.records)]


def test_the_playhead_of_the_stage_that_drives_is_that_of_both():
    at = open_compare(pair="quantum")
    at.session_state["compare_right"] = {"view": {"tick": 9, "selected": "R2", "playing": False}}
    state(at).tick, state(at).selected = 9, "R2"
    at.run()
    assert (state(at).tick, state(at).selected) == (9, "R2")


def test_the_button_leads_both_stages_to_the_first_difference():
    at = open_compare(pair="quantum")
    first = first_difference(*sides_of("quantum"))
    assert first is not None
    before = stages(at)[0]["command"]["id"]
    at.button(key="go_to_difference").click().run()
    for data in stages(at):
        assert data["command"]["tick"] == first.tick
        assert data["command"]["id"] > before


def test_the_table_has_the_figures_of_both_runs():
    at = open_compare(pair="chunked")
    totals, requests = (frame.value for frame in at.dataframe[:2])
    left, right = sides_of("chunked")
    rows = request_differences(left, right)
    assert list(requests["request"]) == [row.id for row in rows]
    assert rows[3].left is not None
    assert float(requests["TTFT, left"][3]) == pytest.approx(rows[3].left.ttft_s, rel=0.01)
    gap = next(total for total in total_differences(left, right) if total.name == "worst_gap")
    row = list(totals["figure"]).index("largest gap between tokens (s)")
    assert gap.right is not None
    assert float(totals["right"][row]) == pytest.approx(gap.right, rel=0.01)
    assert totals["right less left"][row].startswith("+")


def test_the_answers_are_the_same_whatever_the_schedule():
    assert "says the same on both" in said(open_compare(pair="vllm"))


def test_an_impossible_side_is_explained_and_the_last_comparison_stays():
    at = open_compare(scenario="first_steps")
    before = ticks(at)
    opened(at, RIGHT_SETTINGS).number_input(key="set_b_max_num_batched_tokens").set_value(1).run()
    assert "settings on the right cannot run" in said(at)
    assert "must be at least" in said(at)
    assert ticks(at) == before


def test_both_sides_have_the_scenario_s_seed():
    at = open_compare(scenario="first_steps", a_seed="5", b_seed="6")
    assert "means nothing here" in said(at)
    assert "Both sides are equal" in said(at)
    opened(at, RIGHT_SETTINGS)
    assert "set_b_quantum" in at.session_state
    assert "set_b_seed" not in at.session_state


def test_a_deep_link_opens_the_instant():
    at = open_compare(scenario="time_slices", a_quantum="2", b_preset="vllm", tick="20", selected="R3", swap="on")
    assert ticks(at) == [
        len(replayed("time_slices", "vllm").records),
        len(replayed("time_slices", quantum=2).records),
    ]
    for data in stages(at):
        assert (data["command"]["tick"], data["command"]["selected"]) == (20, "R3")


def test_garbage_in_every_part_of_an_address():
    names = "scenario backend tick requests at add swap nonsense a_quantum b_quantum a_policy b_preset a_num_blocks"
    at = open_compare(**dict.fromkeys(names.split(), "<script>![](http://x)"), selected="R99", abort="R98,R97")
    assert len(stages(at)) == 2
    told = "\n".join(element.value for element in at.warning)
    assert told.count("\n\n") >= 9
    assert "<script>" not in told
    assert "![" not in told
    at.button(key="got_it").click().run()
    assert not at.warning


def test_a_pair_that_is_not_there_is_told():
    at = open_compare(pair="nonsense")
    assert "chunked, cache" in said(at)
    assert len(stages(at)) == 2


def test_a_tick_past_the_end_is_moved_to_the_end_of_the_longer_run():
    at = open_compare(pair="quantum", tick="5000")
    last = max(len(trace.records) for trace in sides_of("quantum")) - 1
    assert state(at).tick == last
    assert f"0 to {last}" in at.warning[0].value


def test_numbers_past_the_bounds_of_a_link_are_moved_to_them():
    at = open_compare(scenario="first_steps", a_max_num_seqs="9999")
    assert "must be from 1 to 64" in said(at)


@pytest.mark.parametrize(
    "query",
    [
        {},
        {"pair": "swap", "swap": "on"},
        {"scenario": "time_slices", "a_quantum": "2", "b_preset": "vllm", "b_quantum": "3"},
        {"scenario": "priorities", "at": "9", "b_policy": "fcfs", "abort": "R1,R4"},
        {"scenario": "first_steps", "backend": "synthetic", "selected": "R2"},
    ],
)
def test_an_address_is_read_as_it_was_written(query: dict[str, str]):
    found, messages = from_address(query, NAMES)
    assert messages == []
    assert to_query(found) == query


def test_added_requests_travel_in_the_address():
    mine = (OwnRequest("N1", "What is a ship?", 7, 2),)
    before = CompareState(PlayState("first_steps"), PlayState("first_steps"), what_if=WhatIf(4, mine, ("R2",)))
    after, messages = from_address(to_query(before), NAMES)
    assert messages == []
    assert after.what_if == before.what_if


def test_the_default_needs_no_address():
    assert to_query(default_state()) == {}


def test_requests_written_on_the_playground_can_be_compared():
    mine = (OwnRequest("A", "Tell me a joke.", 6), OwnRequest("B", "What is a ship?", 6))
    at = open_playground(scenario="own", requests=pack(mine))
    at.switch_page(PAGE)
    at.run()
    opened(at, "pop_compare_scenario").radio(key="set_compare_scenario").set_value("own").run()
    assert [request["id"] for request in stages(at)[1]["run"]["requests"]] == ["A", "B"]
    assert "no recorded run of these requests" in said(at)


def test_a_finished_live_run_serves_as_the_recording(monkeypatch: pytest.MonkeyPatch):
    mine = (OwnRequest("A", "Tell me a joke.", 6), OwnRequest("B", "What is a ship?", 6))
    scenario = own_scenario(mine)
    engine = create_engine(max_model_len=1024, block_size=16, num_blocks=64)
    for spec in scenario.specs(SyntheticRunner()):
        engine.add_request(spec)
    live = engine.run()
    live = dataclasses.replace(live, backend=dataclasses.replace(live.backend, kind="model", model="a model"))
    visit = SimpleNamespace(finished={Workload(scenario, None).key: live})
    monkeypatch.setattr("pages.components.compare_runs.live_visit", lambda: visit)
    at = open_compare(scenario="own", requests=pack(mine), b_max_num_seqs="1")
    assert [data["run"]["backend"]["recorded_kind"] for data in stages(at)] == ["model", "model"]
    assert [data["options"]["status"] for data in stages(at)] == ["recorded", "recorded"]
    assert "made up" not in said(at)
    assert "is the first that differs" in said(at)


def what_if(**query: str) -> AppTest:
    return open_compare(scenario="time_slices", at="12", **query)


def test_a_fork_with_other_settings_is_the_core_s():
    at = what_if(b_quantum="1")
    base = replayed("time_slices")
    forked = fork(base, 12, base.config.replace(quantum=1))
    assert ticks(at) == [len(base.records), len(forked.records)]
    first = first_difference(base, forked)
    assert first is not None
    assert first.tick >= 12
    assert f"Tick {first.tick} is the first that differs" in said(at)


def test_a_fork_without_a_change_is_equal():
    at = what_if()
    assert "are equal" in said(at)
    assert "no change yet" in said(at)


def test_a_request_is_aborted_at_the_fork():
    at = what_if(abort="R1")
    base = replayed("time_slices")
    assert ticks(at)[1] == len(fork(base, 12, base.config, abort=["R1"]).records)
    requests = at.dataframe[1].value
    assert requests["finish, right"][0] == "aborted"


def test_who_asks_the_same_again_gets_the_recorded_answer():
    draft = shipped("time_slices").requests[3]
    mine = (OwnRequest("N1", draft.prompt, 8, system=draft.system or ""),)
    at = what_if(add=pack(mine))
    assert not at.error
    assert "made up" not in said(at)
    assert list(at.dataframe[1].value["request"])[-1] == "N1"
    assert at.dataframe[1].value["TTFT, left"].iloc[-1] == "–"


def test_new_words_on_a_recorded_run_are_told_to_be_made_up():
    at = what_if(add=pack((OwnRequest("N1", "Why do ships float on the sea?", 8),)))
    assert "N1: this answer was not recorded, so its text is made up" in said(at)


def test_a_request_is_added_by_the_form():
    at = what_if()
    at.number_input(key="add_tokens").set_value(9).run()
    at.button(key="add_it").click().run()
    assert state(at).what_if is not None
    assert [(request.id, request.max_tokens) for request in state(at).what_if.add] == [("R7", 9)]
    assert "R7 added" in said(at)
    at.button(key="drop_0").click().run()
    assert state(at).what_if.add == ()


@pytest.mark.parametrize(
    ("request_", "told"),
    [
        (OwnRequest("R1", "Hello"), "a request “R1” already"),
        (OwnRequest("N1", " "), "empty prompt"),
        (OwnRequest("<b>" * 200, "Hello"), "no name for a request"),
        (OwnRequest("N1", "Hello", 10**6), "must be from 1 to"),
        (OwnRequest("N1", "word " * 3000), "Shorten it"),
    ],
)
def test_a_request_that_cannot_be_added_is_explained(request_: OwnRequest, told: str):
    at = what_if(add=pack((request_,)))
    assert told in said(at)
    assert not at.exception


def test_two_added_requests_of_one_name_are_told_and_one_can_be_taken_back():
    at = what_if(add=pack((OwnRequest("N1", "Hello", 5), OwnRequest("N1", "Hello again", 5))), abort="R99")
    assert "a request “N1” already" in said(at)
    assert not at.exception
    at.button(key="drop_1").click().run()
    assert "already" not in said(at)
    assert len(stages(at)) == 2


def test_what_cannot_run_can_be_left():
    at = what_if(b_max_num_batched_tokens="1")
    assert "settings on the right cannot run" in said(at)
    at.button(key="leave_what_if").click().run()
    assert state(at).what_if is None
    assert not at.exception


def test_a_fork_past_the_end_is_moved_to_the_end_and_told():
    at = open_compare(scenario="time_slices", at="5000")
    last = len(replayed("time_slices").records) - 1
    assert state(at).what_if == WhatIf(last)
    assert f"0 to {last}" in said(at)


def test_what_is_laid_out_in_memory_cannot_change_on_the_way():
    at = what_if(b_num_blocks="20")
    assert "num_blocks cannot change during a run" in said(at)
    opened(at, RIGHT_SETTINGS)
    assert "set_b_quantum" in at.session_state
    assert "set_b_num_blocks" not in at.session_state
    opened(at, "pop_settings_Left")
    assert "set_a_num_blocks" in at.session_state


def test_what_if_is_left_for_a_plain_comparison():
    at = what_if(b_quantum="1")
    at.button(key="leave_what_if").click().run()
    assert state(at).what_if is None
    assert ticks(at) == [len(replayed("time_slices").records), len(replayed("time_slices", quantum=1).records)]


def test_the_playground_forks_at_the_tick_it_shows():
    at = open_playground(scenario="time_slices", quantum="2", tick="14")
    at.button(key="ask_what_if").click().run()
    assert len(stages(at)) == 2
    found = state(at)
    assert found.what_if == WhatIf(14)
    assert found.tick == 14
    assert found.first.overrides == {"quantum": 2}
    assert component(at, "tickscope.stage")["command"]["tick"] == 14

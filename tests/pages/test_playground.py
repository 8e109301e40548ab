"""The playground without a browser."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pages.components.controls import FOLDED
from pages.components.own_requests import OwnRequest, pack
from pages.components.runs import recording, recording_path, scenario_names, shipped
from pages.components.settings import limits
from scheduler_core.backends.replay import ReplayRunner
from scheduler_core.engine import Engine
from tests.pages.helpers import assert_drawn, everything_said, open_playground, stage_data, state


def ticks(at) -> int:
    return stage_data(at)["run"]["ticks"]


@pytest.mark.parametrize("name", scenario_names())
def test_every_scenario_plays(name: str):
    at = open_playground(scenario=name)
    assert_drawn(at)
    assert not at.error
    recorded = recording(name)
    assert recorded is not None
    assert ticks(at) == len(recorded.records)


def test_a_setting_recomputes_the_run_on_the_recorded_tokens():
    at = open_playground(scenario="time_slices")
    at.select_slider(key="set_quantum").set_value(2).run()
    recorded = recording("time_slices")
    assert recorded is not None
    engine = Engine(shipped("time_slices").config.replace(quantum=2), ReplayRunner(recorded))
    for spec in recorded.requests:
        engine.add_request(spec)
    assert ticks(at) == len(engine.run().records)
    assert stage_data(at)["run"]["backend"]["kind"] == "replay"


def test_the_playhead_is_kept_over_a_change_of_settings():
    at = open_playground(tick="12")
    command = stage_data(at)["command"]
    assert command["tick"] == 12
    at.select_slider(key="set_quantum").set_value(2).run()
    assert state(at).tick == 12
    assert stage_data(at)["command"]["id"] == command["id"]


def test_another_scenario_starts_at_its_first_tick():
    at = open_playground(tick="12", selected="R2")
    before = stage_data(at)["command"]["id"]
    at.radio(key="set_scenario").set_value("first_steps").run()
    assert_drawn(at)
    command = stage_data(at)["command"]
    assert (command["tick"], command["selected"]) == (0, None)
    assert command["id"] > before


def test_a_step_in_the_browser_reaches_the_panels():
    at = open_playground()
    at.session_state["stage"] = {"view": {"tick": 7, "selected": "R2", "playing": False}}
    at.run()
    assert (state(at).tick, state(at).selected) == (7, "R2")
    assert at.button_group(key="pick_request R2").value == "R2"


def test_a_request_chosen_below_is_spotlit_on_the_stage():
    at = open_playground(tick="5")
    picker = next(group for group in at.button_group if (group.key or "").startswith("pick_request"))
    other = next(option for option in picker.options if option != picker.value)
    picker.set_value(other).run()
    command = stage_data(at)["command"]
    assert (command["tick"], command["selected"]) == (5, other)


def test_without_effect_the_page_says_so_and_why():
    at = open_playground(scenario="time_slices", max_num_seqs="20")
    at.number_input(key="set_max_num_seqs").set_value(30).run()
    said = everything_said(at)
    assert "max num seqs 20 to 30" in said.replace("\\", "")
    assert "ever ran at once" in said
    at.select_slider(key="set_quantum").set_value(1).run()
    at.number_input(key="set_max_num_seqs").set_value(2).run()
    assert "ever ran at once" not in everything_said(at)


def test_an_impossible_configuration_is_explained_and_nothing_is_lost():
    at = open_playground(tick="3")
    before = ticks(at)
    at.number_input(key="set_max_num_batched_tokens").set_value(2).run()
    assert not at.exception
    assert "must be at least" in at.error[0].value.replace("\\", "")
    assert ticks(at) == before
    assert at.number_input(key="set_max_num_batched_tokens").value == 2
    at.number_input(key="set_max_num_seqs").set_value(2).run()
    assert not at.error
    assert state(at).overrides == {"max_num_batched_tokens": 2, "max_num_seqs": 2}


@pytest.mark.parametrize("preset", ["tickscope", "article", "vllm", "sarathi", "static_batching", "no_cache"])
def test_every_preset_runs(preset: str):
    at = open_playground()
    at.selectbox(key="set_preset").set_value(preset).run()
    assert_drawn(at)
    assert not at.error
    assert state(at).preset == preset
    at.button(key="reset_settings").click().run()
    assert (state(at).preset, state(at).overrides) == ("", {})


def test_every_setting_of_a_run_has_a_widget():
    at = open_playground(scenario="long_prompt_meets_chat", chunk_control="pid")
    drawn = {
        widget.key
        for kind in (at.select_slider, at.selectbox, at.number_input, at.toggle)
        for widget in kind
        if widget.key and widget.key.startswith("set_")
    }
    assert {f"set_{field}" for field in FOLDED} <= drawn
    assert {"set_quantum", "set_chunk_size", "set_policy", "set_max_num_seqs", "set_enable_prefix_caching"} <= drawn


def test_off_positions_of_the_sliders():
    at = open_playground()
    at.select_slider(key="set_quantum").set_value("off").run()
    assert state(at).overrides["quantum"] is None
    at.select_slider(key="set_chunk_size").set_value("off").run()
    assert state(at).overrides["enable_chunked_prefill"] is False
    at.select_slider(key="set_chunk_size").set_value("budget").run()
    assert state(at).overrides["chunk_size"] is None
    assert_drawn(at)


def test_a_value_between_two_positions_gets_its_own():
    at = open_playground(quantum="13", chunk_size="37")
    assert at.select_slider(key="set_quantum").value == 13
    assert at.select_slider(key="set_chunk_size").value == 37


def test_made_up_tokens_need_no_recording():
    at = open_playground()
    at.radio(key="set_backend").set_value("synthetic").run()
    assert_drawn(at)
    assert stage_data(at)["run"]["backend"]["kind"] == "synthetic"


def test_garbage_in_every_part_of_an_address():
    names = "scenario backend preset tick panel requests quantum chunk_size policy num_blocks cost seed nonsense"
    at = open_playground(**dict.fromkeys(names.split(), "<script>![](http://x)"), selected="R99")
    assert_drawn(at)
    said = at.warning[0].value
    assert said.count("\n\n") >= 12
    assert "<script>" not in said
    assert "![" not in said
    at.button(key="got_it").click().run()
    assert not at.warning


def test_a_tick_past_the_end_is_moved_to_the_end():
    at = open_playground(tick="5000")
    last = ticks(at) - 1
    assert state(at).tick == last
    assert f"0 to {last}" in at.warning[0].value


@pytest.mark.parametrize("panel", ["Why?", "Tokens", "Blocks", "Charts", "Events", "Export"])
def test_every_panel_opens(panel: str):
    at = open_playground(panel=panel, tick="9")
    assert_drawn(at)
    drawn = {
        "Why?": lambda: [] if at.get("plotly_chart") else at.subheader,
        "Tokens": lambda: [c for c in at.get("bidi_component") if c.proto.component_name == "tickscope_tokens"],
        "Blocks": lambda: [field for field in at.number_input if field.label == "Block"],
        "Charts": lambda: [chart for chart in at.get("plotly_chart") if len(at.get("plotly_chart")) > 1],
        "Events": lambda: [frame for frame in at.dataframe if "event" in frame.value.columns],
        "Export": lambda: at.get("download_button"),
    }
    assert [name for name, elements in drawn.items() if elements()] == [panel]


def test_every_chart_says_what_it_shows_and_has_its_table():
    at = open_playground(panel="Charts")
    charts = at.get("plotly_chart")
    assert len(charts) == 5
    assert all(chart.proto.alt for chart in charts)
    assert len(at.dataframe) == 5


def test_own_requests_run_on_made_up_tokens():
    mine = (OwnRequest("A", "Tell me a joke."), OwnRequest("B", "<script>alert(1)</script>", 5, 1, 2))
    at = open_playground(scenario="own", requests=pack(mine))
    assert_drawn(at)
    run = stage_data(at)["run"]
    assert [request["id"] for request in run["requests"]] == ["A", "B"]
    assert "made up" in everything_said(at)


def test_the_dialog_starts_with_what_runs_and_takes_changes():
    at = open_playground(scenario="first_steps")
    at.button(key="edit_requests").click().run()
    assert at.text_area(key="prompt_1").value == shipped("first_steps").requests[0].prompt
    at.text_area(key="prompt_1").set_value("Something else").run()
    at.button(key="run_own").click().run()
    assert_drawn(at)
    assert state(at).scenario == "own"
    assert state(at).requests[0].prompt == "Something else"
    assert state(at).requests[1].system == shipped("first_steps").requests[1].system


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("prompt_1", " ", "empty prompt"),
        ("prompt_1", "a\x07", "U+0007"),
        ("prompt_1", "word " * 5000, "Shorten it"),
        ("tokens_1", 0, "from 1 to"),
        ("tokens_1", 10**9, "1,000,000,000"),
        ("class_1", -1, "class of"),
        ("name_1", "", "no name"),
    ],
)
def test_a_mistake_in_the_dialog_is_told_and_nothing_is_lost(key: str, value: object, said: str):
    at = open_playground(scenario="first_steps")
    at.button(key="edit_requests").click().run()
    kind = {"prompt": at.text_area, "name": at.text_input}.get(key.partition("_")[0], at.number_input)
    kind(key=key).set_value(value).run()
    assert said in "\n".join(error.value for error in at.error).replace("\\", "")
    assert at.button(key="run_own").disabled
    kind = {"prompt": at.text_area, "name": at.text_input}.get(key.partition("_")[0], at.number_input)
    assert kind(key=key).value == value
    assert state(at).scenario == "first_steps"


def test_requests_can_be_added_deleted_and_pasted():
    at = open_playground(scenario="first_steps")
    at.button(key="edit_requests").click().run()
    at.button(key="delete_all").click().run()
    assert "add one" in at.error[0].value
    at.text_area(key="pasted").set_value("One.\n\nTwo.").run()
    at.button(key="add_pasted").click().run()
    assert [area.value for area in at.text_area if area.key.startswith("prompt_")] == ["One.", "Two."]
    at.button(key="add_request").click().run()
    assert len([area for area in at.text_area if area.key.startswith("prompt_")]) == 3
    last = [button.key for button in at.button if button.key.startswith("delete_") and button.key != "delete_all"][-1]
    at.button(key=last).click().run()
    at.button(key="run_own").click().run()
    assert [request.prompt for request in state(at).requests] == ["One.", "Two."]


def test_what_is_sent_to_the_stage_holds_prompts_as_data_only():
    mine = (OwnRequest("A", "<img src=x onerror=alert(1)>"),)
    at = open_playground(scenario="own", requests=pack(mine))
    assert "<img" in json.dumps(stage_data(at))
    assert not any("<img" in element.value for kind in (at.markdown, at.caption) for element in kind)


def test_own_requests_are_asked_for_before_they_are_chosen():
    at = open_playground(scenario="first_steps")
    at.radio(key="set_scenario").set_value("own").run()
    assert at.text_area(key="prompt_1")
    assert state(at).scenario == "first_steps"


def test_a_damaged_recording_is_told_and_made_up_tokens_play(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    (tmp_path / "first_steps.json.gz").write_bytes(recording_path("first_steps").read_bytes()[:500])
    monkeypatch.setattr("pages.components.runs.TRACES", tmp_path)
    recording.clear()
    try:
        at = open_playground(scenario="first_steps")
    finally:
        recording.clear()
    assert_drawn(at)
    assert "truncated" in at.error[0].value
    assert stage_data(at)["run"]["backend"]["kind"] == "synthetic"


def test_a_wrong_limit_of_the_site_is_told_in_words(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TICKSCOPE_MAX_TICKS", "lots")
    limits.cache_clear()
    try:
        at = open_playground()
    finally:
        limits.cache_clear()
    assert not at.exception
    assert "TICKSCOPE" in at.error[0].value


def test_a_run_past_the_site_s_ticks_is_cut_and_told(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TICKSCOPE_MAX_TICKS", "10")
    limits.cache_clear()
    try:
        at = open_playground(backend="synthetic")
    finally:
        limits.cache_clear()
    assert ticks(at) == 10
    assert "10 ticks, the limit of this site" in everything_said(at)

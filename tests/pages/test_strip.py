"""The strips under the sliders of the playground."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import Any

import pytest

from pages.components.controls import CHUNKS, QUANTA, position_changes
from pages.components.curve import Row, amount, curve, span
from pages.components.link import from_query, to_query
from pages.components.play_state import CURVES, PlayState
from pages.components.runs import Workload, recording, shipped
from pages.components.settings import limits
from pages.components.strip import live_source, worker
from pages.components.sweep import Hole
from scheduler_core.backends.replay import ReplayRunner
from scheduler_core.engine import Engine
from scheduler_core.sensitivity import FIGURES, Reading, read
from scheduler_core.trace import Trace
from tests.pages.helpers import assert_drawn, live_runs_of_made_up_tokens, open_playground, state

NAMES = ("first_steps", "time_slices")


def strips(at: Any) -> dict[str, dict[str, Any]]:
    """What each strip was sent, by the name of its slider."""
    sent = [json.loads(e.proto.json) for e in at.get("bidi_component") if "sparkline" in e.proto.component_name]
    return {data["field"]: data for data in sent}


def computed(at: Any) -> dict[str, dict[str, Any]]:
    """The strips once all is computed."""
    assert worker().wait(30)
    at.run()
    return strips(at)


def replayed(name: str, **changes: Any) -> Trace:
    recorded = recording(name)
    assert recorded is not None
    engine = Engine(recorded.config.replace(**changes), ReplayRunner(recorded))
    for spec in recorded.requests:
        engine.add_request(spec)
    return engine.run()


def reading(value: float | None, run: str) -> Reading:
    return Reading(dict.fromkeys(FIGURES, value), run)


def drawn(results: dict[int, Reading | Hole], at: int = 0, asked: int = 4, **reasons: str) -> Any:
    told = {(int(key[1]), int(key[3])): text for key, text in reasons.items()}
    return curve("quantum", "Quantum", [1, 2, 4, "off"], at, results, "worst_wait", asked, told)


def test_the_page_does_not_wait_for_its_strips_and_shows_them_when_they_are_there(monkeypatch: pytest.MonkeyPatch):
    worker.clear()
    monkeypatch.setattr("pages.components.sweep.SweepWorker._work", lambda self: None)
    at = open_playground(scenario="first_steps")
    assert_drawn(at)
    for data in strips(at).values():
        assert data["look"] > 0
        assert data["line"] == "computing 0 of 17"
        assert data["values"] == [None] * 17
    worker.clear()
    monkeypatch.undo()
    at.run()
    for data in computed(at).values():
        assert data["look"] == 0
        assert None not in data["values"]


def test_values_are_those_of_the_core_at_every_position():
    sent = computed(open_playground(scenario="first_steps", quantum="24", curve_chunk_size="mean_ttft"))
    quanta = [read(replayed("first_steps", quantum=n)).figures for n in (*QUANTA, None)]
    assert sent["Quantum"]["values"] == [figures["worst_wait"] for figures in quanta]
    chunks = [
        read(replayed("first_steps", quantum=24, **position_changes("chunk_size", position))).figures
        for position in (*CHUNKS, "budget", "off")
    ]
    assert sent["Chunk size"]["values"] == [figures["mean_ttft"] for figures in chunks]
    assert sent["Chunk size"]["figure"] == "mean_ttft"


def test_where_the_slider_makes_no_difference_is_told_with_the_reason():
    data = computed(open_playground(scenario="first_steps", quantum="24"))["Quantum"]
    assert data["same"] == [[14, 16]]
    assert data["line"] == "24 to off: the same run"
    assert data["why"] == "No request ever ran 24 ticks in one go."
    assert [row for row in data["rows"] if row["mark"]] == [
        {"position": "24 ticks to off", "value": data["texts"][14], "mark": "here"}
    ]


def test_moving_along_a_curve_computes_nothing_anew():
    at = open_playground(scenario="first_steps")
    before = computed(at)["Quantum"]
    at.select_slider(key="set_quantum").set_value(2).run()
    after = strips(at)["Quantum"]
    assert after["look"] == 0
    assert after["values"] == before["values"]
    assert after["at"] == 1


def test_another_setting_is_another_curve():
    at = open_playground(scenario="memory_pressure")
    before = computed(at)["Quantum"]["values"]
    at.number_input(key="set_num_blocks").set_value(60).run()
    assert computed(at)["Quantum"]["values"] != before


def test_a_position_past_the_limit_of_ticks_is_a_gap_with_its_message(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TICKSCOPE_MAX_TICKS", "80")
    limits.cache_clear()
    try:
        data = computed(open_playground(scenario="time_slices"))["Chunk size"]
    finally:
        limits.cache_clear()
    assert data["holes"][0] == "cut at 80 ticks, the limit of this site"
    assert data["values"][0] is None
    assert data["values"][-1] is not None
    assert data["rows"][0]["value"] == data["holes"][0]
    assert data["rows"][0]["position"].startswith("1")


def test_a_large_run_has_a_strip_of_some_positions(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("pages.components.sweep.MAX_WORK", 1)
    at = open_playground(scenario="shared_system_prompt", quantum="5")
    data = computed(at)["Quantum"]
    tried = [i for i, value in enumerate(data["values"]) if value is not None]
    assert tried == [0, 4, 8, 12, 16]
    assert any("5 of 17 positions are tried" in note for note in data["notes"])
    at.select_slider(key="set_quantum").set_value(6).run()
    data = computed(at)["Quantum"]
    assert data["values"][5] is not None
    assert any("6 of 17" in note for note in data["notes"])


def test_nothing_is_drawn_for_settings_that_cannot_run():
    assert strips(open_playground(max_num_batched_tokens="2")) == {}


def test_percentiles_are_offered_only_where_the_sample_allows():
    at = open_playground(curve_quantum="p90_ttft")
    sent = computed(at)
    offered = {name: [option["name"] for option in data["options"]] for name, data in sent.items()}
    assert "p90_ttft" not in offered["Chunk size"]
    assert "p90_ttft" in offered["Quantum"]
    assert sent["Quantum"]["line"].endswith("needs 10 completed requests")
    assert sent["Quantum"]["texts"][0] == "–"


def test_a_figure_in_the_link_is_kept_and_a_wrong_one_is_told():
    at = open_playground(curve_quantum="preemptions", curve_chunk_size="happiness")
    assert state(at).curves == {"quantum": "preemptions"}
    assert "“happiness”" in at.warning[0].value
    assert "mean" in at.warning[0].value
    assert "preemptions" in at.warning[0].value


def test_chosen_figures_travel_in_the_address():
    chosen = PlayState("time_slices")
    for field in CURVES:
        chosen.choose_curve(field, "hit_tokens")
    assert to_query(chosen, "time_slices") == {"curve_quantum": "hit_tokens", "curve_chunk_size": "hit_tokens"}
    assert from_query(to_query(chosen, "time_slices"), NAMES, "time_slices") == (chosen, [])
    for field, usual in CURVES.items():
        chosen.choose_curve(field, usual)
    assert to_query(chosen, "time_slices") == {}


# What is said


def test_equal_runs_far_apart_are_named_together():
    results = {0: reading(1, "a"), 1: reading(2, "b"), 2: reading(1, "a"), 3: reading(1, "a")}
    told = drawn(results, _2_3="why")
    assert told.line == "1 and 4 to off: the same run"
    assert told.same == [(0, 0), (2, 3)]
    assert told.rows[2] == Row("4 ticks to off", "1 s", "same run")


def test_a_run_of_its_own_and_a_setting_without_any_effect():
    assert drawn({i: reading(1, str(i)) for i in range(4)}).line == "no other position runs the same"
    told = drawn(dict.fromkeys(range(4), reading(1, "a")), _0_3="no request ever ran")
    assert told.line == "every position: the same run"
    assert told.why == "No request ever ran."
    assert told.rows == [Row("1 tick to off", "1 s", "here")]


def test_positions_not_tried_are_claimed_by_nobody():
    results = {0: reading(1, "a"), 3: reading(1, "a")}
    told = drawn(results, asked=2, _0_3="no request ever ran")
    assert told.same == [(0, 0), (3, 3)]
    assert told.line == "1 and off: the same run"
    assert told.why == "No request ever ran."
    assert [row.position for row in told.rows] == ["1 tick", "off"]


def test_while_it_computes_it_says_so():
    assert drawn({0: reading(1, "a"), 1: reading(1, "a")}).line == "computing 2 of 4"


def test_a_hole_under_the_slider_is_told():
    told = drawn({0: Hole("too small"), **{i: reading(1, "a") for i in (1, 2, 3)}})
    assert told.line == "1: too small"
    assert told.same == []
    assert told.rows[0] == Row("1 tick", "too small", "here")


def test_neighbours_without_a_value_share_a_line_and_are_told():
    told = drawn({0: Hole("cut"), 1: Hole("cut"), 2: reading(2, "a"), 3: reading(2, "b")}, at=3)
    assert told.rows[0] == Row("1 to 2 ticks", "cut")
    assert told.holes == ["cut", "cut", "", ""]
    assert "no value at 1 to 2; here, at off, 2 s" in told.label


def test_the_words_for_a_screen_reader_tell_reach_place_and_value():
    results = {i: reading(i + 0.5, str(i)) for i in range(4)}
    assert drawn(results, at=2).label == (
        "worst wait at each position of Quantum: from 500 ms to 3.5 s; here, at 4 ticks, 2.5 s. "
        "no other position runs the same."
    )


def test_amounts_and_spans():
    assert [amount(FIGURES["worst_wait"], value) for value in (0, 0.0441, 24.0, None)] == [
        "0 s",
        "44.1 ms",
        "24 s",
        "–",
    ]
    assert amount(FIGURES["hit_tokens"], 1234) == "1,234"
    assert span([1, 2, "budget", "off"], (1, 2)) == "2 to the budget"


# Live runs


def test_a_live_run_lends_its_tokens_once_every_answer_is_complete():
    trace = recording("first_steps")
    assert trace is not None
    chosen = Workload(shipped("first_steps"), None)
    whole = live_source(chosen, trace, computing=False)
    assert whole.note == ""
    again = whole.make(trace.config.replace(quantum=2)).run()
    assert read(again) == read(replayed("first_steps", quantum=2))
    assert again.backend.kind == "replay"


@pytest.mark.parametrize(("computing", "said"), [(True, "until the live run is over"), (False, "not all answers")])
def test_a_live_run_without_all_its_tokens_gets_made_up_ones_and_says_so(computing: bool, said: str):
    trace = recording("first_steps")
    assert trace is not None
    part = replace(trace, records=trace.records[:9])
    source = live_source(Workload(shipped("first_steps"), None), part, computing)
    assert said in source.note
    assert said in source.tokens
    run = source.make(trace.config).run()
    assert run.backend.kind == "synthetic"
    assert run.requests == trace.requests
    longer = replace(trace, records=trace.records[:12])
    assert live_source(Workload(shipped("first_steps"), None), longer, computing).key == source.key


def test_a_live_run_has_its_strips_and_lends_them_its_tokens_when_it_is_over(monkeypatch: pytest.MonkeyPatch):
    runs = live_runs_of_made_up_tokens(monkeypatch)
    at = open_playground(scenario="first_steps", backend="live", quantum="24")
    at.button(key="live_start").click().run()
    for _ in range(200):
        if runs and not runs[0].has_work:
            break
        time.sleep(0.05)
    at.run()
    data = computed(at)["Quantum"]
    assert_drawn(at)
    assert data["notes"][0] == "Each run starts at tick 0 and draws the tokens of this live run."
    # Its texts end early, which those of the recording and made-up ones do not.
    assert data["values"][14] == read(runs[0].trace()).figures["worst_wait"]
    assert data["values"] != computed(open_playground(scenario="first_steps", quantum="24"))["Quantum"]["values"]

"""The charts of chunk control and of the machines say what the run and the cost model say."""

from __future__ import annotations

from typing import Any

import pytest

from pages.components.player_payload import payload
from pages.components.roofline_chart import roofline_chart
from pages.components.steering_chart import steering_chart
from scheduler_core.cost_model import MACHINES
from scheduler_core.events import ChunkSteered, SteerReason
from scheduler_core.roofline import REAL, cost, knee, prefill
from scheduler_core.trace import Trace
from tests.helpers import events
from tests.pages.helpers import assert_drawn, everything_said, open_playground, stage_data, state
from tests.test_chunk_control import burst, made, steered


def steered_run(**knobs: Any) -> Trace:
    return made(steered(**knobs), burst(0.3))


def test_the_chart_has_what_was_set_measured_and_wanted_and_the_error():
    trace = steered_run()
    told = events(trace, ChunkSteered)
    chart = steering_chart(trace)
    assert chart is not None
    assert chart.title == "Chunk size, target and time"
    lines = {line.name: line for line in chart.figure.data}
    assert list(lines["chunk size"].y) == [event.old for event in told]
    assert list(lines["tick"].y) == pytest.approx([1e3 * event.measured_s for event in told])
    assert set(lines["target"].y) == {60.0}
    errors = list(lines["error (target less time)"].y)
    assert errors == pytest.approx([1e3 * e.error_s for e in told if e.reason is not SteerReason.NOTHING_TO_CUT])
    assert min(errors) < 0
    assert list(chart.table["tokens from the next"]) == [event.new for event in told]
    assert f"between {min(e.new for e in told)} and 128 tokens" in chart.alt


def test_a_target_that_cannot_be_kept_is_in_the_words_of_the_chart():
    chart = steering_chart(steered_run(chunk_target_ms=5))
    assert chart is not None
    assert "the target cannot be kept" in chart.alt
    assert "target cannot be kept" in set(chart.table["because"])


def test_a_ramp_has_no_target_and_no_error():
    chart = steering_chart(steered_run(chunk_control="ramp"))
    assert chart is not None
    assert {line.name for line in chart.figure.data} == {"chunk size", "largest", "smallest", "tick"}


def test_a_run_with_fixed_chunks_has_no_such_chart():
    assert steering_chart(steered_run(chunk_control="fixed")) is None


def test_the_stage_is_told_the_size_of_every_tick():
    trace = steered_run()
    settings = payload(trace)["settings"]
    for record in trace.records:
        drawn = [values for tick, values in settings if tick <= record.tick][-1]
        assert drawn["chunk_size"] == trace.config_at(record.tick).chunk_size
        assert drawn["chunk_control"] == "pid"


@pytest.mark.parametrize("chosen", [*REAL, "unit"])
def test_every_machine_is_drawn_with_its_knee(chosen: str):
    chart = roofline_chart(chosen)
    curves = {line.name: line for line in chart.figure.data if line.mode == "lines"}
    knees = [line for line in chart.figure.data if line.mode == "markers+text"]
    for name, mark in zip(REAL, knees, strict=True):
        machine = MACHINES[name]
        assert list(mark.text) == [f"knee: {knee(machine)}"]
        assert list(mark.x) == [knee(machine)]
        line = curves[machine.title]
        assert list(line.y) == [1e3 * cost(prefill(size), machine).seconds for size in line.x]
        assert set(chart.table[chart.table["machine"] == machine.title]["knee at"]) == {knee(machine)}
    assert ("decodes only" in curves) == (chosen != "unit")


# On the page


def test_chunk_control_is_chosen_in_the_settings_and_shown_on_the_stage():
    at = open_playground(scenario="long_prompt_meets_chat", panel="Charts")
    keys = {box.key for box in (*at.selectbox, *at.number_input)}
    assert "set_chunk_control" in keys
    assert not {"set_chunk_target_ms", "set_chunk_signal"} & keys
    at.selectbox(key="set_chunk_control").set_value("pid").run()
    at.number_input(key="set_chunk_target_ms").set_value(40).run()
    assert_drawn(at)
    assert not at.error
    assert state(at).overrides == {"chunk_control": "pid", "chunk_target_ms": 40}
    sizes = {values["chunk_size"] for _, values in stage_data(at)["run"]["settings"]}
    assert len(sizes) > 2
    assert "Chunk size, target and time" in {head.value for head in at.subheader}
    assert "Where the knee is" in {head.value for head in at.subheader}
    assert "`≤ 32 tokens`" in {text.value for text in at.markdown}


def test_a_target_on_a_clock_without_lengths_is_refused_with_a_remedy():
    at = open_playground(scenario="first_steps", chunk_control="pid")
    assert_drawn(at)
    assert "every tick lasts one second" in everything_said(at)

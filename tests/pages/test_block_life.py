"""The life of a block as the panel draws it."""

from __future__ import annotations

import pytest

from pages.components.block_life import MARKS, WORDS, life_chart, summary
from pages.components.runs import recording
from scheduler_core.biography import FactKind, biography
from tests.helpers import create_engine, create_request, run
from tests.pages.helpers import assert_drawn, everything_said, open_playground, state


def test_the_bars_cover_the_ticks_in_which_a_snapshot_names_the_holder():
    trace = recording("memory_pressure")
    for block_id in range(trace.config.num_blocks):
        bars = life_chart(trace, block_id, biography(trace, block_id)).figure.data[0]
        drawn = {
            (who, tick)
            for who, first, width in zip(bars.y, bars.base, bars.x, strict=True)
            for tick in range(first, first + width)
        }
        held = {
            (r.id, record.tick) for record in trace.records for r in record.snapshot.requests if block_id in r.block_ids
        }
        assert held <= drawn
        # More only in the ticks in which it was let go.
        freed = {(f.request_id, f.tick) for f in biography(trace, block_id) if f.kind is FactKind.FREED}
        assert drawn - held <= freed


def test_every_mark_stands_for_a_fact_and_every_fact_is_in_the_table():
    trace = recording("memory_pressure")
    for block_id in range(trace.config.num_blocks):
        facts = biography(trace, block_id)
        chart = life_chart(trace, block_id, facts)
        marks = [(WORDS[f.kind], f.request_id, f.tick) for f in facts if f.kind in MARKS]
        shown = [(s.name, who, t) for s in chart.figure.data[1:] for who, t in zip(s.y, s.customdata, strict=True)]
        assert sorted(shown) == sorted(marks)
        assert list(chart.table["what happened"]) == [fact.text for fact in facts]


def test_the_summary_counts_and_a_block_never_taken_says_so():
    made = run(create_engine(), create_request("A", [1, 2, 3, 4, 5], 2), create_request("B", [1, 2, 3, 4, 6], 2, 1))
    assert summary(0, biography(made, 0)) == (
        "Block 0 was taken 1 time, found in the cache 1 time and emptied for somebody else 0 times."
    )
    assert summary(30, biography(made, 30)) == "Block 30 was never taken in this run."


def test_a_link_opens_the_life_of_its_block():
    at = open_playground(scenario="memory_pressure", panel="Blocks", block="6")
    assert_drawn(at)
    assert [field.value for field in at.number_input if field.label == "Block"] == [6]
    assert list(at.dataframe[-1].value["tick"]) == [fact.tick for fact in biography(recording("memory_pressure"), 6)]


def test_another_block_can_be_picked():
    at = open_playground(scenario="memory_pressure", panel="Blocks")
    next(field for field in at.number_input if field.label == "Block").set_value(3).run()
    assert_drawn(at)
    assert state(at).block == 3
    assert "Block 3 was taken" in "".join(text.value for text in at.markdown)


@pytest.mark.parametrize(("asked", "shown"), [("999", 11), ("-1", 0), ("x", 0), ("9" * 200, 0)])
def test_a_block_that_is_not_there_does_no_harm(asked: str, shown: int):
    at = open_playground(scenario="memory_pressure", panel="Blocks", block=asked)
    assert_drawn(at)
    assert [field.value for field in at.number_input if field.label == "Block"] == [shown]
    if not asked.isdigit() or len(asked) > 100:
        assert "which is no block; shown is block 0" in everything_said(at)

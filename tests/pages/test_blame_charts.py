"""The blame ledger as it is drawn: the figure, its table and its words tell the same."""

from __future__ import annotations

import pytest

from pages.components.blame_charts import CAUSES, MAX_NUMBERED, where_time_went, who_cost_whom
from pages.components.runs import recording
from scheduler_core.blame import Cause, blame, cost_matrix
from tests.helpers import create_engine, create_request, random_workload, run


@pytest.mark.parametrize("name", ["time_slices", "memory_pressure", "long_prompt_meets_chat"])
def test_the_bars_of_a_request_and_its_row_add_up_to_its_latency(name: str):
    trace = recording(name)
    ledger = blame(trace)
    chart = where_time_went(trace, ledger)
    for place, entry in enumerate(ledger):
        assert sum(bar.x[place] for bar in chart.figure.data) == pytest.approx(float(entry.latency))
        row = chart.table.iloc[place]
        assert row["request"] == entry.request_id
        assert sum(row[f"{words} (s)"] for words, _, _ in CAUSES.values()) == pytest.approx(row["all (s)"])
    longest = max(ledger, key=lambda entry: entry.latency)
    assert chart.alt.startswith(f"{longest.request_id} takes longest: {float(longest.latency):.3g} seconds")


def test_every_cause_has_words_and_looks_of_its_own():
    assert set(CAUSES) == set(Cause)
    assert len({words for words, _, _ in CAUSES.values()}) == len(CAUSES)
    assert len({(color, pattern) for _, color, pattern in CAUSES.values()}) == len(CAUSES)


def test_a_cause_that_did_not_occur_is_not_in_the_legend():
    made = run(create_engine(max_num_seqs=1), create_request("A", 4, 3), create_request("B", 4, 3))
    names = [bar.name for bar in where_time_went(made, blame(made)).figure.data]
    assert names == ["waits for its first lane", "reads its prompt", "writes its answer"]


def test_the_squares_and_the_table_hold_what_each_pair_cost():
    trace = random_workload(7).run()
    ledger = blame(trace)
    chart = who_cost_whom(trace, ledger)
    ids = [entry.request_id for entry in ledger]
    matrix = cost_matrix(ledger)
    assert matrix
    for row, whom in enumerate(ids):
        for column, who in enumerate(ids):
            expected = matrix.get((who, whom))
            assert chart.figure.data[0].z[row][column] == (None if expected is None else float(expected))
            assert chart.table.iloc[row][f"for {who} (s)"] == float(expected or 0)
        assert chart.table.iloc[row]["for all others (s)"] == pytest.approx(
            float(sum(ledger[row].by_request().values()))
        )
    total = chart.table.iloc[-1]
    assert total["waited"] == "all together"
    assert total["for all others (s)"] == pytest.approx(float(sum(matrix.values())))


def test_who_cost_whom_most_is_said_in_words():
    made = run(create_engine(max_num_seqs=1), create_request("A", 4, 3), create_request("B", 4, 3))
    assert who_cost_whom(made, blame(made)).alt == "A cost B most: 3 seconds."
    alone = run(create_engine(), create_request("A", 4, 3))
    assert who_cost_whom(alone, blame(alone)).alt == "Nobody waited for anybody."


def test_many_requests_have_squares_without_numbers():
    many = run(create_engine(), *(create_request(f"R{n}", 4, 2) for n in range(MAX_NUMBERED + 1)))
    assert who_cost_whom(many, blame(many)).figure.data[0].texttemplate is None

"""The figures of a run over a setting, and where the setting makes no difference."""

from __future__ import annotations

import dataclasses
from itertools import pairwise

import pytest

from scheduler_core.comparison import total_differences
from scheduler_core.config import EngineConfig
from scheduler_core.difference import makes_a_difference, reasons
from scheduler_core.events import SliceExpired, TokenSampled
from scheduler_core.sensitivity import FIGURES, decisions, read, same_as, stretches
from scheduler_core.trace import Trace
from tests.helpers import Workload, create_engine, create_request, random_workload, run

QUANTA = (1, 2, 3, 4, 6, 8, 12, 40, None)
CHUNKS = (1, 2, 3, 5, 8, 13, 24, 25, 40, None)


def crowd(**knobs: object) -> Trace:
    """Three requests and one lane."""
    engine = create_engine(**({"max_num_seqs": 1} | knobs))
    return run(engine, *(create_request(name, 8, max_tokens=6) for name in "ABC"))


def under(workload: Workload, config: EngineConfig) -> Trace:
    return dataclasses.replace(workload, config=config).run()


def all_that_happened(trace: Trace) -> list[object]:
    """Every tick in full but for what the real time and the ends of slices are; the slow and plain way."""
    told: list[object] = []
    for record in trace.records:
        told.append((record.start, record.end))
        told += [(item.request_id, item.start, item.end) for item in record.output.scheduled]
        for event in record.events:
            if isinstance(event, TokenSampled):
                told.append(("token", event.request_id, event.index, event.token_id))
            elif not isinstance(event, SliceExpired):
                told.append((type(event).__name__, dataclasses.asdict(event)))
    return told


def by_hand(histories: list[list[object]]) -> list[tuple[int, int]]:
    """The stretches of equal neighbours, each pair compared in full."""
    found: list[list[int]] = []
    for position, history in enumerate(histories):
        if found and histories[found[-1][-1]] == history:
            found[-1].append(position)
        else:
            found.append([position])
    return [(group[0], group[-1]) for group in found]


@pytest.mark.parametrize("field", ["quantum", "chunk_size"])
def test_stretches_are_those_of_a_full_comparison_of_the_runs(field: str):
    wide = 0
    for seed in range(14):
        workload = random_workload(seed)
        values = QUANTA if field == "quantum" else CHUNKS
        traces = [under(workload, workload.config.replace(**{field: value})) for value in values]
        histories = [all_that_happened(trace) for trace in traces]
        readings = [read(trace) for trace in traces]
        runs = [reading.decisions for reading in readings]
        assert stretches(runs) == by_hand(histories)
        for at in range(len(values)):
            covered = [i for first, last in same_as(runs, at) for i in range(first, last + 1)]
            assert covered == [i for i, history in enumerate(histories) if history == histories[at]]
        for first, last in stretches(runs):
            wide += last > first
            for i, j in pairwise(range(first, last + 1)):
                assert readings[i].figures == readings[j].figures
                assert not makes_a_difference(traces[i], traces[j])
    assert wide > 10


def test_an_equal_figure_is_no_equal_run():
    one, two = crowd(quantum=2), crowd(quantum=3)
    assert read(one).figures["hit_tokens"] == read(two).figures["hit_tokens"]
    assert decisions(one) != decisions(two)


def test_the_end_of_a_slice_that_nobody_waits_for_is_no_difference():
    one, two = (run(create_engine(quantum=n), create_request("A", 8, max_tokens=9)) for n in (2, 5))
    assert any(isinstance(event, SliceExpired) for record in one.records for event in record.events)
    assert decisions(one) == decisions(two)
    assert reasons(one, two) == ["no request ever ran 2 ticks while another waited that could take its place"]


def test_the_same_decisions_on_another_clock_are_another_run():
    assert decisions(crowd(cost="unit")) != decisions(crowd(cost="smollm2-cpu"))


def test_figures_equal_those_of_a_comparison():
    trace = crowd(quantum=2, preemption_mode="recompute", enable_prefix_caching=False)
    totals = {total.name: total.left for total in total_differences(trace, trace)}
    figures = read(trace).figures
    assert figures["preemptions"] == totals["preemptions"] > 0
    assert figures["recomputed_tokens"] == totals["recomputed_tokens"] > 0
    assert figures["hit_tokens"] == totals["hit_tokens"]
    assert figures["mean_ttft"] == totals["mean_ttft"]
    assert figures["worst_ttft"] == totals["worst_ttft"]
    assert figures["largest_gap"] == totals["worst_gap"]
    assert figures["run_time"] == totals["duration"]


def test_the_worst_wait_counts_the_time_out_of_a_lane():
    trace = run(create_engine(max_num_seqs=1), create_request("A", 8, max_tokens=6), create_request("B", 8))
    first_of_b = next(r.start for r in trace.records if any(i.request_id == "B" for i in r.output.scheduled))
    assert read(trace).figures["worst_wait"] == first_of_b


def test_a_percentile_needs_ten_requests():
    few, enough = (
        run(create_engine(), *(create_request(f"R{i}", 4, max_tokens=2) for i in range(count))) for count in (9, 10)
    )
    assert read(few).figures["p90_ttft"] is None
    assert read(enough).figures["p90_ttft"] is not None


def test_a_run_without_answers_has_no_gap():
    trace = run(create_engine(), create_request("A", 8, max_tokens=1))
    assert read(trace).figures["largest_gap"] is None
    assert set(read(trace).figures) == set(FIGURES)


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        ([], []),
        (["a"], [(0, 0)]),
        (["a", "a", "b", "a"], [(0, 1), (2, 2), (3, 3)]),
        (["a", None, "a"], [(0, 0), (1, 1), (2, 2)]),
        ([None, None], [(0, 0), (1, 1)]),
    ],
)
def test_unknown_runs_are_like_no_other(runs: list[str | None], expected: list[tuple[int, int]]):
    assert stretches(runs) == expected


def test_equal_runs_further_off_are_found_too():
    assert same_as(["a", "b", "a", "a", None], 0) == [(0, 0), (2, 3)]
    assert same_as(["a", None, "b"], 1) == [(1, 1)]

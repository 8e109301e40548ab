"""The Perfetto file: its documented fields, and that its slices add up to what the run says."""

from __future__ import annotations

import dataclasses
import json
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from scheduler_core.config import PREEMPTION_MODES
from scheduler_core.errors import TraceError
from scheduler_core.events import PreemptReason, RequestAdmitted, RequestFinished, RequestPreempted
from scheduler_core.perfetto import to_perfetto
from scheduler_core.request import FinishReason
from scheduler_core.trace import Trace
from scheduler_core.workload import list_scenarios
from tests.helpers import create_engine, create_request, events, random_workload, run
from tests.trace_builders import item, spec, tick
from tests.trace_builders import trace as by_hand

TRACES = Path(__file__).resolve().parents[1] / "assets" / "traces"

#: The fields that the Trace Event Format asks for, by phase, and their types.
FIELDS: dict[str, dict[str, Any]] = {
    "X": {"pid": int, "tid": int, "ts": float, "dur": float, "name": str, "cat": str, "args": dict},
    "i": {"pid": int, "tid": int, "ts": float, "s": str, "name": str, "cat": str, "args": dict},
    "C": {"pid": int, "ts": float, "name": str, "args": dict},
    "M": {"pid": int, "name": str, "args": dict},
}
METADATA = {
    "process_name": "name",
    "thread_name": "name",
    "process_sort_index": "sort_index",
    "thread_sort_index": "sort_index",
}


def written(trace: Trace) -> list[dict[str, Any]]:
    document = json.loads(to_perfetto(trace))
    assert document["displayTimeUnit"] == "ms"
    return document["traceEvents"]


def nanos(seconds: float) -> int:
    return round(seconds * 1e9)


def tracks(trace: Trace) -> dict[str, tuple[int, int]]:
    """Name -> (process, thread)."""
    named = [e for e in written(trace) if e["name"] == "thread_name"]
    return {e["args"]["name"]: (e["pid"], e["tid"]) for e in named}


def slices(trace: Trace) -> dict[tuple[int, int], list[dict[str, Any]]]:
    found = defaultdict(list)
    for event in written(trace):
        if event["ph"] == "X":
            found[event["pid"], event["tid"]].append(event)
    return found


def latencies(trace: Trace) -> dict[str, int]:
    """Request -> nanoseconds from its arrival to its end, recounted from batches and events."""
    ends = {}
    for record in trace.records:
        batch = {item.request_id for item in record.output.scheduled}
        for event in record.events:
            if isinstance(event, RequestFinished):
                ends[event.request_id] = record.end if event.request_id in batch else record.start
    return {s.id: max(0, nanos(ends[s.id]) - nanos(s.arrival_time)) for s in trace.requests}


def all_traces() -> list[Trace]:
    return [random_workload(seed).run() for seed in range(40)]


def test_every_event_has_the_documented_fields_and_no_others():
    seen = set()
    for trace in all_traces():
        for event in written(trace):
            fields = FIELDS[event["ph"]]
            seen.add(event["ph"])
            assert {"ph", *fields} - {"tid"} <= event.keys() <= {"ph", "tid", *fields}
            assert all(isinstance(event[name], kind) for name, kind in fields.items() if name in event)
            assert event.get("ts", 0) >= 0
            assert event.get("dur", 1) >= 0
            if event["ph"] == "M":
                assert list(event["args"]) == [METADATA[event["name"]]]
            if event["ph"] == "i":
                assert event["s"] in "gpt"
            if event["ph"] == "C":
                assert all(isinstance(value, int) for value in event["args"].values())
    assert seen == set(FIELDS)


def test_the_slices_of_a_request_add_up_to_its_latency_without_overlap():
    for trace in all_traces():
        where, found = tracks(trace), slices(trace)
        for request_id, latency in latencies(trace).items():
            mine = found[where[request_id]]
            assert sum(nanos(e["dur"] / 1e6) for e in mine) == latency
            for before, after in pairwise(mine):
                assert nanos(before["ts"] / 1e6) + nanos(before["dur"] / 1e6) == nanos(after["ts"] / 1e6)


def test_the_ticks_add_up_to_the_run():
    for trace in all_traces():
        ticks = slices(trace)[tracks(trace)["Ticks"]]
        assert len(ticks) == len(trace.records)
        whole = nanos(trace.records[-1].end) - nanos(trace.records[0].start)
        assert sum(nanos(e["dur"] / 1e6) for e in ticks) == whole


def test_a_request_has_a_slice_of_its_own_name_for_each_thing_it_does():
    def knobs(mode: str) -> dict[str, Any]:
        return {"max_num_seqs": 1, "quantum": 2, "preemption_mode": mode, "enable_prefix_caching": False}

    names = {}
    for mode in PREEMPTION_MODES:
        made = run(create_engine(**knobs(mode)), create_request("A", 8, 6), create_request("B", 8, 6))
        where = tracks(made)
        names[mode] = {e["name"] for who in "AB" for e in slices(made)[where[who]]}
    assert names["swap"] == {"waiting", "reading", "generating", "preempted", "restoring"}
    assert names["recompute"] == {"waiting", "reading", "generating", "preempted", "recomputing"}


def test_decisions_are_marked_with_their_reason_on_the_track_of_the_request():
    made = run(create_engine(max_num_seqs=1, quantum=2), create_request("A", 8, 6), create_request("B", 8, 6))
    marks = [e for e in written(made) if e["ph"] == "i" and e["args"]["event"] == "RequestPreempted"]
    first = marks[0]
    assert first["name"] == "A was preempted."
    assert "Its slice of 2 ticks ended while B was waiting." in first["args"]["why"]
    assert (first["pid"], first["tid"]) == tracks(made)["A"]
    assert first["ts"] == made.records[first["args"]["tick"]].start * 1e6


def test_counters_follow_the_queue_and_the_blocks_in_use():
    made = run(create_engine(max_num_seqs=1), create_request("A", 8, 4), create_request("B", 8, 4))
    counters = [e for e in written(made) if e["ph"] == "C"]
    queue = [e["args"]["requests"] for e in counters if e["name"] == "Waiting"]
    used = [e["args"]["blocks"] for e in counters if e["name"] == "KV in use"]
    assert queue == [0, *(r.counts.waiting for r in made.records)]
    assert used == [0, *(r.counts.used_blocks for r in made.records)]


def test_no_track_has_the_number_of_a_process_which_the_viewer_would_take_for_its_main_thread():
    numbers = [(e["pid"], e["tid"]) for e in written(random_workload(0).run()) if "tid" in e]
    assert not {pid for pid, _ in numbers} & {tid for _, tid in numbers}


def test_the_file_is_the_same_for_the_same_run_and_takes_any_name():
    odd = '</script>"\n\U0001f600'
    made = [run(create_engine(), create_request(odd, 8, 4)) for _ in range(2)]
    assert to_perfetto(made[0]) == to_perfetto(made[1])
    assert to_perfetto(made[0]).isascii()
    assert odd in tracks(made[0])


@pytest.mark.parametrize("name", list_scenarios())
def test_a_recorded_run_adds_up_as_well(name: str):
    trace = Trace.load(TRACES / f"{name}.json.gz")
    where, found = tracks(trace), slices(trace)
    for request_id, latency in latencies(trace).items():
        assert sum(nanos(e["dur"] / 1e6) for e in found[where[request_id]]) == latency


def test_the_random_runs_hold_aborts_and_failures():
    reasons = {e.reason for trace in all_traces() for e in events(trace, RequestFinished)}
    assert {FinishReason.ABORT, FinishReason.LENGTH} <= reasons


def test_a_run_of_aggregates_is_refused():
    made = create_engine()
    made.add_request(create_request("A"))
    whole = made.run()
    bare = dataclasses.replace(whole, records=tuple(dataclasses.replace(r, snapshot=None) for r in whole.records))
    with pytest.raises(TraceError, match="aggregates"):
        to_perfetto(bare)


def test_a_request_left_out_and_then_preempted_has_a_slice_for_each():
    left = RequestPreempted("A", PreemptReason.SLICE, "recompute", "B", 0, 8, 0, 0, 2)
    made = by_hand(
        [spec("A"), spec("B")],
        tick(0, item("B", 0, 4), events=[RequestAdmitted("A", 0, 1, 9, 0, False)]),
        tick(1, item("B", 4, 4), events=[left]),
        tick(2, item("B", 8, 1)),
    )
    mine = slices(made)[tracks(made)["A"]]
    assert [(e["name"], e["dur"] / 1e6) for e in mine] == [("left out", 1), ("preempted", 2)]

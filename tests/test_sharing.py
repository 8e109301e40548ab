"""Consecutive snapshots share their parts: the same objects where nothing changed, the same content everywhere."""

from __future__ import annotations

from itertools import pairwise

import pytest

from scheduler_core.events import RequestSkipped
from scheduler_core.trace import Snapshot, Trace
from tests.helpers import create_engine, create_request, random_workload, run, state


def snapshots(trace: Trace) -> list[Snapshot]:
    return [record.snapshot for record in trace.records if record.snapshot is not None]


def test_a_running_request_that_computes_nothing_is_the_same_object_again() -> None:
    engine = create_engine(max_num_batched_tokens=4, max_num_seqs=2, batch_order="prefill_first")
    trace = run(engine, create_request("stalled", 3, 2), create_request("long", 24, 2))
    skipped = [r.tick for r in trace.records if any(isinstance(e, RequestSkipped) for e in r.events)]
    assert len(skipped) > 3
    assert all(state(trace, tick, "stalled") is state(trace, tick - 1, "stalled") for tick in skipped)


def test_blocks_and_names_are_the_same_objects_while_a_request_decodes_within_its_block() -> None:
    trace = run(create_engine(block_size=16), create_request("a", 4, 10))
    first, *others = snapshots(trace)[:9]
    for name in ("running", "waiting", "free_blocks", "published_blocks"):
        assert all(getattr(other, name) is getattr(first, name) for other in others), name
    assert all(other.requests[0].block_ids is first.requests[0].block_ids for other in others)


def test_a_block_table_is_the_same_object_in_the_batch_and_in_the_snapshot() -> None:
    trace = run(create_engine(block_size=16), create_request("a", 4, 10))
    assert trace.records[3].output.scheduled[0].block_ids is state(trace, 3, "a").block_ids


def test_whatever_is_equal_in_two_ticks_is_shared() -> None:
    for seed in range(60):
        for before, now in pairwise(snapshots(random_workload(seed).run())):
            rows = {row.id: row for row in before.requests}
            assert all((rows.get(row.id) is row) == (rows.get(row.id) == row) for row in now.requests)
            for name in ("requests", "waiting", "running", "free_blocks", "published_blocks"):
                one, other = getattr(before, name), getattr(now, name)
                assert (one is other) == (one == other), name


def test_sharing_changes_no_content(monkeypatch: pytest.MonkeyPatch) -> None:
    shared = [random_workload(seed).run() for seed in range(60)]
    monkeypatch.setattr("scheduler_core.recorder.share", lambda before, now: now)
    assert shared == [random_workload(seed).run() for seed in range(60)]

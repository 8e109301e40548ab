"""Known faults of other servers, kept out: a request that is cancelled, wherever it is."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler_core.engine import Engine
from scheduler_core.events import RequestFinished, TokenSampled
from scheduler_core.request import FinishReason, RequestStatus
from tests.helpers import create_engine, create_request, events, is_idle_and_sound, outputs, run, state

X = create_request("x", 14, max_tokens=6, priority=5)
URGENT = create_request("u", 3, max_tokens=3, arrival=4, priority=1)
HOLDER = create_request("h", 3, max_tokens=4, priority=1)

#: Where x is when it is aborted: (settings, the others, tick).
PLACES: dict[str, tuple[dict[str, Any], list[Any], int]] = {
    "waiting": ({"max_num_seqs": 1}, [HOLDER], 2),
    "part of its prompt read": ({}, [], 2),
    "decoding": ({}, [], 6),
    "preempted, to be computed again": ({"max_num_seqs": 1, "preemption_mode": "recompute"}, [URGENT], 6),
    "saved on the host": ({"max_num_seqs": 1, "preemption_mode": "swap"}, [URGENT], 6),
}


def engine_with(others: list[Any], **knobs: Any) -> Engine:
    engine = create_engine(policy="priority", chunk_size=4, **knobs)
    for spec in (*others, X):
        engine.add_request(spec)
    return engine


@pytest.mark.parametrize("place", PLACES)
def test_an_abort_frees_everything_at_once_and_lets_no_token_out(place: str) -> None:
    """Case 66."""
    knobs, others, at = PLACES[place]
    engine = engine_with(others, **knobs)
    for _ in range(at):
        engine.step()
    before = state(engine.trace(), at - 1, "x")
    assert {
        "waiting": before.status is RequestStatus.WAITING,
        "part of its prompt read": 0 < before.num_computed_tokens < 14,
        "decoding": before.status is RequestStatus.RUNNING and before.num_output_tokens > 0,
        "preempted, to be computed again": before.status is RequestStatus.PREEMPTED and before.saved_tokens == 0,
        "saved on the host": before.status is RequestStatus.PREEMPTED and before.saved_tokens > 0,
    }[place]
    engine.abort("x")
    record = engine.step()
    assert all(item.request_id != "x" for item in record.output.scheduled)
    assert "x" not in engine._kv.tables
    assert record.snapshot.host_blocks_used == 0
    assert engine.copies.saved == {}
    assert "x" not in (*record.snapshot.waiting, *record.snapshot.running)
    trace = engine.run()
    assert [e.reason for e in events(trace, RequestFinished, "x")] == [FinishReason.ABORT]
    assert all(event not in r.events for r in trace.records[at:] for event in events(trace, TokenSampled, "x"))
    assert is_idle_and_sound(engine)
    assert {s.id: outputs(trace)[s.id] for s in others} == {
        s.id: outputs(run(create_engine(), s))[s.id] for s in others
    }


@pytest.mark.parametrize("mode", ["swap", "recompute"])
@pytest.mark.parametrize("tick", range(14))
def test_an_abort_in_any_tick_leaves_nothing_behind(mode: str, tick: int) -> None:
    """Case 66, and 68: x is in one place in every tick, and in none after it."""
    engine = engine_with([URGENT], max_num_seqs=1, preemption_mode=mode)
    while engine.has_work:
        if engine.tick == tick:
            engine.abort("x")
        engine.step()
    assert is_idle_and_sound(engine)
    for record in engine.trace().records:
        alive = [r.id for r in record.snapshot.requests if r.status is not RequestStatus.FINISHED]
        assert sorted(alive) == sorted([*record.snapshot.waiting, *record.snapshot.running])


def test_an_abort_takes_one_reference_from_shared_blocks_and_disturbs_nobody_on_them() -> None:
    """Case 66: x and y stand on the same two blocks."""
    prefix = [*range(50, 58)]
    engine = create_engine()
    run(engine, create_request("warm", [*prefix, 1], 1))
    y = create_request("y", [*prefix, 3], 9)
    for spec in (create_request("x", [*prefix, 2], 9), y):
        engine.add_request(spec)
    engine.step()
    shared = engine._kv.tables["y"][:2]
    assert engine._kv.tables["x"][:2] == shared
    assert [engine._kv.pool.refs(block) for block in shared] == [2, 2]
    [private] = set(engine._kv.tables["x"]) - set(shared)
    engine.abort("x")
    engine.step()
    assert [engine._kv.pool.refs(block) for block in (*shared, private)] == [1, 1, 0]
    trace = engine.run()
    assert outputs(trace)["y"] == outputs(run(create_engine(), y))["y"]
    assert is_idle_and_sound(engine)


@pytest.mark.parametrize("lanes", [1, 2])
def test_an_abort_right_after_lanes_were_taken_away_leaves_no_copy(lanes: int) -> None:
    """Case 68: saved by the change of settings, and cancelled before the next tick."""
    engine = create_engine(max_num_seqs=3, quantum=None)
    for name in "abc":
        engine.add_request(create_request(name, 6, max_tokens=8))
    engine.step()
    engine.reconfigure(engine.config.replace(max_num_seqs=lanes))
    saved = set(engine.copies.saved)
    assert saved == set("bc"[lanes - 1 :])
    for name in saved:
        engine.abort(name)
    engine.step()
    assert engine.copies.saved == {}
    engine.run()
    assert is_idle_and_sound(engine)


def test_a_restore_that_comes_too_late_is_not_made() -> None:
    """Case 68: x is aborted in the tick in which it would have come back."""
    engine = engine_with([URGENT], max_num_seqs=1)
    trace = engine_with([URGENT], max_num_seqs=1).run()
    back = next(r.tick for r in trace.records if r.output.copies_in)
    while engine.tick < back:
        engine.step()
    engine.abort("x")
    record = engine.step()
    assert record.output.copies_in == ()
    assert is_idle_and_sound(engine)

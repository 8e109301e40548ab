"""Traces of replicas on one grid: the same happens in the same second, and one playhead serves all."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduler_core.errors import ConfigError
from scheduler_core.events import Event, FaultInjected, RequestArrived, RequestFinished
from scheduler_core.replicas.config import ROUTERS, Kill
from scheduler_core.replicas.events import RequestRouted, RouteReason
from scheduler_core.replicas.grid import on_grid, whole_seconds
from scheduler_core.replicas.words import REASON_NAMES, ROUTER_NAMES, ROUTER_TEXTS, why
from scheduler_core.trace_check import check_consistent
from tests.helpers import create_request
from tests.replicas.helpers import SMALL, run_fleet, shared_prefix_load

LOAD = whole_seconds(shared_prefix_load(7, gap=2.0))


def test_every_replica_has_a_record_for_every_second() -> None:
    fleet = run_fleet(LOAD, num_replicas=3, kills=(Kill(9.0, 1),))
    traces = on_grid(fleet)
    assert len({len(trace.records) for trace in traces}) == 1
    for trace in traces:
        assert [(r.tick, r.output.tick, r.start, r.end) for r in trace.records] == [
            (k, k, float(k), float(k + 1)) for k in range(len(trace.records))
        ]
        check_consistent(trace)


def test_nothing_that_happened_is_left_out_or_moved() -> None:
    fleet = run_fleet(LOAD, num_replicas=3, router="round_robin", kills=(Kill(9.0, 1),))
    for before, after in zip(fleet.traces, on_grid(fleet), strict=True):
        told = [(r.start, e) for r in before.records for e in r.events if not isinstance(e, FaultInjected)]
        assert [(r.start, e) for r in after.records for e in r.events if not is_of_a_kill(e)] == told
        assert [r.output.scheduled for r in after.records if r.output.scheduled] == [
            r.output.scheduled for r in before.records if r.output.scheduled
        ]


def is_of_a_kill(event: Event) -> bool:
    return isinstance(event, FaultInjected) or (isinstance(event, RequestFinished) and "killed" in event.message)


def test_a_request_arrives_in_the_second_in_which_it_is_routed() -> None:
    fleet = run_fleet(LOAD, num_replicas=3)
    traces = on_grid(fleet)
    for event in fleet.routed:
        arrived = [e.request_id for e in traces[event.replica].records[int(event.time)].events]
        assert event.request_id in arrived


@pytest.mark.parametrize(("kill", "busy"), [(3.0, True), (12.0, False)])
def test_a_kill_is_told_in_its_second_and_after_it_the_memory_is_empty(kill: float, busy: bool) -> None:
    specs = [create_request("a", 8, 20), create_request("b", 8, 6), create_request("c", 8, 2, arrival=14.0)]
    fleet = run_fleet(specs, num_replicas=2, router="round_robin", kills=(Kill(kill, 1),))
    assert fleet.kills[0].num_requests == int(busy)
    records = on_grid(fleet)[1].records
    assert [r.tick for r in records if any(isinstance(e, FaultInjected) for e in r.events)] == [int(kill)]
    ended = [e.request_id for e in records[int(kill)].events if isinstance(e, RequestFinished)]
    assert ended == ["b"] * busy
    for record in records[int(kill) :]:
        assert record.snapshot is not None
        assert record.snapshot.published_blocks == record.snapshot.running == record.snapshot.waiting == ()
        assert len(record.snapshot.free_blocks) == SMALL["num_blocks"]
    before = records[int(kill) - 1].snapshot
    assert before is not None
    assert before.published_blocks


def test_who_has_finished_is_not_drawn_out() -> None:
    specs = [create_request("a", 8, 2), create_request("b", 8, 12)]
    records = on_grid(run_fleet(specs, num_replicas=2, router="round_robin"))[0].records
    assert [len(r.snapshot.requests) for r in records if r.snapshot] == [1, 1, *[0] * (len(records) - 2)]
    assert sum(isinstance(e, RequestArrived) for r in records for e in r.events) == 1


def test_times_between_two_ticks_are_refused() -> None:
    with pytest.raises(ConfigError, match="between two ticks"):
        on_grid(run_fleet([create_request("a", arrival=0.5)], num_replicas=1))


def test_arrivals_move_to_the_next_whole_second() -> None:
    specs = [create_request(name, arrival=time) for name, time in (("a", 0.2), ("b", 1.0), ("c", 0.0))]
    assert [(s.id, s.arrival_time) for s in whole_seconds(specs)] == [("c", 0.0), ("a", 1.0), ("b", 1.0)]


def test_every_router_and_reason_has_words() -> None:
    assert ROUTER_NAMES.keys() == ROUTER_TEXTS.keys() == {*ROUTERS}
    assert REASON_NAMES.keys() == {*RouteReason}
    kills = tuple(Kill(2.0 + 8 * number, number, 1.0) for number in range(3))
    told = {
        event.reason: why(event)
        for router in ROUTERS
        for event in run_fleet(LOAD, num_replicas=3, router=router, kills=kills, start_seconds=2).routed
    }
    assert told.keys() == {*RouteReason}
    over = RequestRouted(
        3.0,
        "R",
        2,
        1,
        RouteReason.OVER_BOUND,
        (("load", 10), ("size", 5), ("home", 0), ("home_load", 90), ("bound", 60)),
    )
    assert why(over) == (
        "replica 1, its home, has 90 outstanding tokens, over the bound of 60; the least loaded has 10"
    )
    assert why(replace(over, reason=RouteReason.NEXT_ON_RING)).endswith("the next on the ring has 10")

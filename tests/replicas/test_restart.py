"""A killed replica that is restarted: gone, starting, back with an empty pool; and nobody is lost or served twice."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler_core.errors import ConfigError
from scheduler_core.narration import narrate_tick
from scheduler_core.replicas.config import ROUTERS, FleetConfig, Kill
from scheduler_core.replicas.events import ReplicaKilled, ReplicaReady, ReplicaStarting, RequestRouted, RouteReason
from scheduler_core.replicas.fleet_laws import broken
from scheduler_core.replicas.fleet_trace import FleetTrace
from scheduler_core.replicas.grid import on_grid, whole_seconds
from scheduler_core.replicas.words import why
from scheduler_core.request import RequestSpec
from scheduler_core.trace_check import check_consistent
from tests.helpers import create_request
from tests.replicas.helpers import fleet_texts, run_fleet, shared_prefix_load, solo_texts

PREFIX = list(range(500, 516))
#: Gone at 4, a new process at 7, back at 15.
RESTART = {
    "num_replicas": 2,
    "router": "round_robin",
    "kills": (Kill(4.0, 1, restart_after=3.0),),
    "start_seconds": 8.0,
}


def same_prefix(count: int, gap: float = 3.0) -> list[RequestSpec]:
    """Short requests that share a prefix, each alone on its way."""
    return [create_request(f"r{n}", [*PREFIX, 9_000 + n], 2, arrival=gap * n) for n in range(count)]


def homes(trace: FleetTrace) -> list[tuple[float, int, str]]:
    return [(event.time, event.replica, event.reason.value) for event in trace.routed]


# What happens when


def test_a_killed_replica_starts_after_its_time_and_is_back_once_the_weights_are_loaded() -> None:
    trace = run_fleet([create_request("a", 8, 30), create_request("b", 8, 30)], **RESTART)
    changes = [e for e in trace.events if isinstance(e, ReplicaKilled | ReplicaStarting | ReplicaReady)]
    assert changes == [
        ReplicaKilled(4.0, 1, 1, lost_tick=False),
        ReplicaStarting(7.0, 1, 15.0),
        ReplicaReady(15.0, 1, 11.0),
    ]
    assert [(life.replica, life.start) for life in trace.lives] == [(0, 0.0), (1, 0.0), (1, 15.0)]


def test_requests_go_elsewhere_until_it_is_back() -> None:
    specs = [create_request(f"r{n}", 8, 2, arrival=2.0 * n) for n in range(12)]
    trace = run_fleet(specs, **RESTART)
    assert {e.replica for e in trace.routed if 4.0 <= e.time < 15.0} == {0}
    assert {e.replica for e in trace.routed if e.time >= 15.0} == {0, 1}


def test_without_a_restart_it_stays_away() -> None:
    specs = [create_request(f"r{n}", 8, 2, arrival=2.0 * n) for n in range(12)]
    trace = run_fleet(specs, num_replicas=2, router="round_robin", kills=(Kill(4.0, 1),))
    assert trace.starts == trace.comebacks == ()
    assert {e.replica for e in trace.routed if e.time >= 4.0} == {0}
    assert trace.replicas[1].comeback is None


@pytest.mark.parametrize("router", ["bounded_hash", "prefix_affinity"])
def test_a_prefix_comes_home_and_the_reason_tells_how_many_went_elsewhere(router: str) -> None:
    home = run_fleet(same_prefix(1), num_replicas=3, router=router).routed[0].replica
    trace = run_fleet(
        same_prefix(8), num_replicas=3, router=router, load_floor=1_000, kills=(Kill(5.0, home, 1.0),), start_seconds=8
    )
    told = homes(trace)
    stand_in = told[2][1]
    assert stand_in != home
    assert told == [
        (0.0, home, "home"),
        (3.0, home, "home"),
        (6.0, stand_in, "stand_in"),
        (9.0, stand_in, "stand_in"),
        (12.0, stand_in, "stand_in"),
        (15.0, home, "home_again"),
        (18.0, home, "home"),
        (21.0, home, "home"),
    ]
    words = why(next(e for e in trace.routed if e.reason is RouteReason.HOME_AGAIN))
    assert "is back, 3 requests with it went elsewhere meanwhile" in words
    gone = why(next(e for e in trace.routed if e.reason is RouteReason.STAND_IN))
    assert gone.startswith(
        f"replica {home + 1}, the home of this prefix, is gone; the next on the ring has 0 outstanding"
    )


def test_a_stand_in_over_the_bound_is_told_as_one() -> None:
    numbers = (("load", 10), ("size", 5), ("home", 2), ("home_load", 90), ("bound", 60), ("owner", 0))
    told = why(RequestRouted(3.0, "R", 1, 1, RouteReason.OVER_BOUND, numbers))
    assert told.startswith("replica 3, standing in for replica 1, its home, has 90 outstanding tokens, over the bound")


def test_its_pool_is_empty_after_the_restart_and_a_shared_tier_warms_it() -> None:
    home = run_fleet(same_prefix(1), num_replicas=2).routed[0].replica
    knobs = {"num_replicas": 2, "load_floor": 1_000, "kills": (Kill(8.0, home, 0.0),), "start_seconds": 3}
    apart, shared = (run_fleet(same_prefix(7), **knobs, shared_tier=shared) for shared in (False, True))
    cold, warm = apart.replicas[home].comeback, shared.replicas[home].comeback
    assert cold is not None
    assert warm is not None
    assert (cold.ready_at, cold.requests, cold.shared_hit_tokens) == (11.0, 3, 0)
    assert cold.hit_tokens == 2 * 16, "the first of the three finds nothing"
    assert (warm.requests, warm.hit_tokens, warm.shared_hit_tokens) == (3, 3 * 16, 16)


def test_a_tick_of_the_life_before_is_never_delivered_after_a_quick_restart() -> None:
    """The tick that the kill cut off would have ended after the new process was there."""
    specs = [create_request("a", 8, 12), create_request("b", 8, 12), create_request("c", 8, 12, arrival=4.7)]
    trace = run_fleet(
        specs, num_replicas=2, router="round_robin", kills=(Kill(4.5, 1, restart_after=0.05),), start_seconds=0.05
    )
    assert trace.comebacks[0].time == pytest.approx(4.6)
    assert fleet_texts(trace) == solo_texts(specs)


def test_who_is_killed_again_after_its_restart_starts_again() -> None:
    kills = (Kill(4.0, 1, restart_after=0.0), Kill(12.0, 1, restart_after=2.0))
    specs = [create_request("a", 8, 40), create_request("b", 8, 40)]
    trace = run_fleet(specs, num_replicas=2, router="round_robin", kills=kills, start_seconds=8)
    assert [e.time for e in trace.kills] == [4.0, 12.0]
    assert [e.time for e in trace.comebacks] == [12.0, 22.0]
    assert [life.start for life in trace.lives if life.replica == 1] == [0.0, 12.0, 22.0]


# What the configuration refuses


@pytest.mark.parametrize(
    ("kills", "named"),
    [
        ((Kill(1, 0), Kill(20, 0)), "killed twice: at 20 s it is gone already, and it is not restarted"),
        ((Kill(1, 0, 2.0), Kill(5, 0)), "killed twice: at 5 s it is gone already, and it is back at 11 s only"),
        ((Kill(1, 0, 2.0), Kill(10.5, 1)), "at 10.5 s all 2 replicas are gone; leave at least one"),
        ((Kill(1, 0, -1.0),), "the time from a kill to the restart is -1"),
        ((Kill(1, 0, float("inf")),), "the time from a kill to the restart is inf"),
    ],
)
def test_impossible_restarts_are_refused_with_the_value_and_the_remedy(kills: tuple[Kill, ...], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        FleetConfig(2, kills=kills)


def test_a_start_takes_some_time() -> None:
    with pytest.raises(ConfigError, match="start_seconds is 0"):
        FleetConfig(2, start_seconds=0)


def test_the_last_one_may_be_killed_once_another_is_back() -> None:
    FleetConfig(2, kills=(Kill(1, 0, 2.0), Kill(11, 1)))


# Laws


@st.composite
def fleets(draw: st.DrawFn) -> dict[str, object]:
    """A fleet with kills and restarts, at whole or odd times, that its configuration takes."""
    count = draw(st.integers(2, 4))
    times = st.integers(0, 24).map(lambda half: half / 2) | st.floats(0, 15, allow_subnormal=False)
    start = draw(st.sampled_from([0.25, 1.0, 3.0]))
    kills: list[Kill] = []
    for _ in range(draw(st.integers(1, 5))):
        after = draw(st.none() | st.sampled_from([0.0, 0.5, 2.0]))
        more = [*kills, Kill(draw(times), draw(st.integers(0, count - 1)), after)]
        try:
            FleetConfig(count, kills=tuple(more), start_seconds=start)
        except ConfigError:
            continue
        kills = more
    return {
        "num_replicas": count,
        "router": draw(st.sampled_from(ROUTERS)),
        "kills": tuple(kills),
        "start_seconds": start,
        "shared_tier": draw(st.booleans()),
        "prefix_blocks": 2,
        "load_floor": draw(st.sampled_from([0, 60])),
    }


@settings(max_examples=40, deadline=None)
@given(fleet=fleets(), seed=st.integers(0, 5))
def test_nothing_is_lost_and_nothing_doubled_whatever_is_killed_and_restarted(
    fleet: dict[str, object], seed: int
) -> None:
    specs = shared_prefix_load(seed, count=16, gap=1.5)
    trace = run_fleet(specs, **fleet)
    assert [*broken(trace)] == []
    assert fleet_texts(trace) == solo_texts(specs)
    ended = [each.id for each in trace.facts if each.is_completed]
    assert sorted(ended) == sorted(spec.id for spec in specs)
    assert trace.to_json() == run_fleet(specs, **fleet).to_json()
    for life in trace.lives:
        check_consistent(life.trace)
        assert all(life.start <= record.start for record in life.trace.records)


def test_the_laws_notice_what_is_lost_doubled_or_sent_to_the_dead() -> None:
    trace = run_fleet(same_prefix(6), num_replicas=2, kills=(Kill(7.0, 0, 1.0),), start_seconds=2)
    gone = {"events": tuple(e for e in trace.events if not (isinstance(e, RequestRouted) and e.request_id == "r5"))}
    doubled = {"events": (*trace.events, trace.routed[-1])}
    unfinished = {"facts": (replace(trace.facts[0], reason=None), *trace.facts[1:])}
    dead = {"events": (ReplicaKilled(0.0, 0, 0, False), ReplicaKilled(0.0, 1, 0, False), *trace.events)}
    assert [*broken(trace)] == []
    for change, words in [
        (gone, "were submitted"),
        (doubled, "while it was at replica"),
        (unfinished, "r0 never ended"),
        (dead, "which was gone"),
    ]:
        assert any(words in problem for problem in broken(replace(trace, **change))), words


# On one grid


def test_the_lives_of_a_replica_stand_on_one_grid_with_words_for_each_change() -> None:
    fleet = run_fleet(whole_seconds(shared_prefix_load(3, gap=2.0)), **RESTART)
    traces = on_grid(fleet)
    assert len(traces) == 2
    told = {tick: [line.whole for line in narrate_tick(traces[1], tick)] for tick in (4, 7, 15)}
    assert any(line.startswith("The replica was killed. Requests that go on elsewhere: ") for line in told[4])
    assert "A new process starts in its place. It loads the weights until second 15." in told[7]
    assert "The replica is back. It was gone for 11 seconds, and its memory is empty." in told[15]
    for trace in traces:
        check_consistent(trace)
    late = [e.request_id for e in fleet.routed if e.replica == 1 and e.time >= 15]
    assert late
    assert all(name in {spec.id for spec in traces[1].requests} for name in late)
    records = traces[1].records
    assert all(record.counts.used_blocks == 0 for record in records[4:15])
    assert any(record.counts.used_blocks for record in records[15:])


def test_a_request_that_comes_back_to_a_replica_keeps_its_text_and_is_not_drawn() -> None:
    specs = [create_request("b", 8, 40, temperature=1.0), create_request("a", 8, 40)]
    kills = (Kill(4.0, 0, restart_after=0.0), Kill(15.0, 1))
    trace = run_fleet(specs, num_replicas=2, router="round_robin", kills=kills)
    assert [e.replica for e in trace.routed if e.request_id == "b"] == [0, 1, 0]
    assert fleet_texts(trace) == solo_texts(specs)
    with pytest.raises(ConfigError, match="'b' came back to replica 1 after its restart"):
        on_grid(trace)

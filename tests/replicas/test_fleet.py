"""A fleet serves every request exactly once with the same text, whatever is killed on the way."""

from __future__ import annotations

import random

import pytest

from scheduler_core.backends.synthetic import SyntheticRunner
from scheduler_core.config import EngineConfig
from scheduler_core.engine import Engine
from scheduler_core.errors import RequestError, WorkloadError
from scheduler_core.events import RequestFinished
from scheduler_core.replicas.config import ROUTERS, FleetConfig, Kill
from scheduler_core.replicas.events import ReplicaKilled, RequestMoved, RequestRouted
from scheduler_core.replicas.fleet import Fleet, in_order
from scheduler_core.replicas.fleet_trace import FleetTrace
from scheduler_core.request import RequestSpec
from scheduler_core.request_facts import facts_of
from scheduler_core.trace import Trace
from scheduler_core.trace_check import check_consistent
from tests.helpers import create_request, outputs, random_workload
from tests.replicas.helpers import SMALL, fleet_texts, run_fleet, shared_prefix_load, solo_texts


def assert_everybody_once(trace: FleetTrace, specs: list[RequestSpec]) -> None:
    ends = [e.request_id for t in trace.traces for r in t.records for e in r.events if isinstance(e, RequestFinished)]
    assert sorted(ends) == sorted(spec.id for spec in specs)
    assert sorted(each.id for each in trace.facts) == sorted(spec.id for spec in specs)
    assert all(each.reason is not None for each in trace.facts)


# One replica


def test_a_fleet_of_one_does_what_its_engine_does() -> None:
    specs = in_order(shared_prefix_load(1))
    engine = Engine(EngineConfig(**SMALL), SyntheticRunner(eos_every=0))
    for spec in specs:
        engine.add_request(spec)
    alone, fleet = engine.run(), run_fleet(specs, num_replicas=1)
    assert fleet.traces[0].records == alone.records
    assert list(fleet.facts) == facts_of(alone)


# Texts and determinism


@pytest.mark.parametrize("router", ROUTERS)
def test_the_text_does_not_depend_on_the_replica(router: str) -> None:
    specs = shared_prefix_load(2)
    assert fleet_texts(run_fleet(specs, num_replicas=3, router=router)) == solo_texts(specs)


@pytest.mark.parametrize("router", ROUTERS)
def test_the_same_fleet_gives_the_same_bytes(router: str) -> None:
    runs = [
        run_fleet(shared_prefix_load(4), num_replicas=3, router=router, kills=(Kill(5.5, 1),)).to_json()
        for _ in range(2)
    ]
    assert runs[0] == runs[1]


def test_figures_without_traces_are_those_with_them() -> None:
    specs, config = in_order(shared_prefix_load(5)), FleetConfig(3, kills=(Kill(4.0, 0),))
    full, brief = (
        Fleet(config, EngineConfig(**SMALL), SyntheticRunner, record=record).run(specs) for record in ("full", "none")
    )
    assert len(full.traces) == 3
    assert brief.traces == ()
    assert full.figures() == brief.figures()
    assert full.replicas == brief.replicas


# Kills


def kill_run(time: float) -> tuple[FleetTrace, list[RequestSpec]]:
    """Two requests on two replicas, of which the second is killed while its request has got some tokens."""
    specs = [create_request("a", 8, 12), create_request("b", 8, 12, temperature=1.0)]
    return run_fleet(specs, num_replicas=2, router="round_robin", kills=(Kill(time, 1),)), specs


def test_a_request_of_a_killed_replica_goes_on_elsewhere_from_the_tokens_it_has() -> None:
    trace, specs = kill_run(4.0)
    assert fleet_texts(trace) == solo_texts(specs)
    assert trace.moved == (RequestMoved(4.0, "b", 1, 8, 4),)
    routed = [(e.request_id, e.replica, e.attempt) for e in trace.routed]
    assert routed == [("a", 0, 1), ("b", 1, 1), ("b", 0, 2)]
    resumed = trace.traces[0].request("b")
    assert len(resumed.prompt_token_ids) == 8 + 4
    assert resumed.sampling.max_tokens == 12 - 4


def test_a_tick_that_is_cut_off_delivers_nothing() -> None:
    trace, specs = kill_run(4.5)
    assert trace.kills == (ReplicaKilled(4.5, 1, 1, lost_tick=True),)
    assert trace.moved[0].tokens_so_far == 4
    assert [record.end for record in trace.traces[1].records] == [1.0, 2.0, 3.0, 4.0, 4.5]
    assert fleet_texts(trace) == solo_texts(specs)


def test_a_killed_replica_ends_with_an_empty_memory() -> None:
    trace, _ = kill_run(4.0)
    last = trace.traces[1].records[-1]
    assert last.snapshot is not None
    assert last.snapshot.requests == ()
    assert len(last.snapshot.free_blocks) == SMALL["num_blocks"]
    assert [type(event).__name__ for event in last.events] == ["FaultInjected"]


def test_the_dead_get_no_more_requests() -> None:
    specs = [create_request(f"r{n}", 8, 3, arrival=float(n)) for n in range(12)]
    for router in ROUTERS:
        trace = run_fleet(specs, num_replicas=3, router=router, kills=(Kill(3.0, 0), Kill(6.0, 2)))
        late = {e.replica for e in trace.routed if e.time >= 6.0}
        assert late == {1}, router
        assert_everybody_once(trace, specs)


def test_a_request_may_lose_two_replicas() -> None:
    specs = [create_request("a", 8, 20, temperature=1.0)]
    trace = run_fleet(specs, num_replicas=3, router="round_robin", kills=(Kill(3.0, 0), Kill(9.0, 1)))
    assert [e.replica for e in trace.routed] == [0, 1, 2]
    assert [e.tokens_so_far for e in trace.moved] == [3, 9]
    assert fleet_texts(trace) == solo_texts(specs)


def test_a_kill_costs_the_tokens_that_are_computed_again() -> None:
    with_kill, without = kill_run(4.0)[0], kill_run(1e6)[0]
    assert without.kills == ()
    gain = sum(e.computed_tokens for e in with_kill.replicas) - sum(e.computed_tokens for e in without.replicas)
    # The last of the four tokens that b had was not computed yet.
    assert gain == 8 + 4 - 1


def test_only_the_first_admission_counts_for_the_hit_rate() -> None:
    prompt = list(range(500, 516))
    specs = [create_request("a", prompt, 10), create_request("b", prompt, 10)]
    trace = run_fleet(specs, num_replicas=2, router="round_robin", kills=(Kill(4.0, 1),))
    facts = {each.id: each for each in trace.facts}
    assert facts["b"].num_cached_tokens == 0
    assert trace.replicas[0].resumed_hit_tokens == 16
    assert trace.figures()["prefix_hit_rate"] == 0.0


def test_what_a_kill_takes_counts_once_in_times_and_tokens() -> None:
    trace, _ = kill_run(4.0)
    b = next(each for each in trace.facts if each.id == "b")
    assert b.num_output_tokens == 12
    assert b.num_prompt_tokens == 8
    assert list(b.token_times) == sorted(b.token_times)
    assert b.ttft_s == 1.0


@pytest.mark.parametrize("seed", range(40))
def test_nothing_is_lost_and_nothing_doubled_in_any_run(seed: int) -> None:
    rng = random.Random(seed)
    workload = random_workload(seed)
    count = rng.randint(2, 4)
    kills = tuple(Kill(rng.choice([rng.random() * 20, float(rng.randint(0, 12))]), r) for r in range(count - 1))
    fleet = FleetConfig(count, rng.choice(ROUTERS), kills=kills[: rng.randint(0, 3)], prefix_blocks=1, seed=seed)
    specs = in_order(workload.specs)
    trace = Fleet(fleet, workload.config, workload.runner).run(specs)
    assert_everybody_once(trace, specs)
    one = Engine(workload.config, workload.runner())
    for spec in specs:
        one.add_request(spec)
    alone = one.run()
    texts = {name: tokens for name, tokens in outputs(alone).items() if tokens}
    assert fleet_texts(trace) == texts
    for each in trace.traces:
        check_consistent(each)
        assert Trace.from_json(each.to_json()) == each


@pytest.mark.parametrize("seed", range(20))
def test_every_decision_keeps_the_law_of_its_router(seed: int) -> None:
    """The numbers of each decision say that it was right."""
    specs = shared_prefix_load(seed, count=40, gap=0.7)
    for router in ("least_loaded", "bounded_hash", "prefix_affinity"):
        trace = run_fleet(specs, num_replicas=4, router=router, kills=(Kill(7.0, seed % 4),))
        for event in trace.routed:
            assert holds(event), event


def holds(event: RequestRouted) -> bool:
    numbers = dict(event.numbers)
    if "mean" in numbers:
        return numbers["load"] <= numbers["mean"]
    if "home" in numbers:
        return numbers["home_load"] > numbers["bound"] >= numbers["load"] and event.replica != numbers["home"]
    return numbers["load"] <= numbers["bound"]


# Mistakes of the sender


def test_requests_out_of_order_are_refused() -> None:
    fleet = Fleet(FleetConfig(2), EngineConfig(**SMALL), SyntheticRunner)
    with pytest.raises(WorkloadError, match="'b' arrives at"):
        fleet.run([create_request("a", arrival=2.0), create_request("b", arrival=1.0)])


def test_an_id_stands_for_one_request_in_the_whole_fleet() -> None:
    fleet = Fleet(FleetConfig(2, "round_robin"), EngineConfig(**SMALL), SyntheticRunner)
    with pytest.raises(RequestError, match="'a' already"):
        fleet.run([create_request("a"), create_request("a", arrival=1.0)])


def test_an_empty_load_is_an_empty_run() -> None:
    trace = run_fleet([], num_replicas=2)
    assert trace.facts == ()
    assert trace.figures()["max_over_mean_load"] is None

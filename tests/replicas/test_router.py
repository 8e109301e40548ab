"""Which replica a router chooses, and the reason that it gives."""

from __future__ import annotations

import pytest

from scheduler_core.errors import ConfigError
from scheduler_core.replicas.config import ROUTERS, FleetConfig, Kill
from scheduler_core.replicas.events import RouteReason
from scheduler_core.replicas.hash_ring import HashRing
from scheduler_core.replicas.loads import Loads
from scheduler_core.replicas.router import ByPrefix, Choice, make_router
from tests.helpers import create_request
from tests.replicas.helpers import run_fleet, shared_prefix_load

PREFIX = list(range(16))


def loads_of(*tokens: int) -> Loads:
    loads = Loads(len(tokens))
    for replica, count in enumerate(tokens):
        loads.add(f"there{replica}", replica, count, 0)
    return loads


def choose(router: str, loads: Loads, tail: int = 900, **knobs: object) -> Choice:
    config = FleetConfig(len(loads.tokens), router, **knobs)  # type: ignore[arg-type]
    return make_router(config, 4).choose(create_request("R", [*PREFIX, tail], 3), 20, loads)


def test_round_robin_takes_one_after_the_other_and_passes_over_the_dead() -> None:
    router, loads, spec = make_router(FleetConfig(4, "round_robin"), 4), Loads(4), create_request("R")
    first = [router.choose(spec, 1, loads).replica for _ in range(5)]
    loads.bury(2)
    assert first == [0, 1, 2, 3, 0]
    assert [router.choose(spec, 1, loads).replica for _ in range(4)] == [1, 3, 0, 1]


def test_least_loaded_counts_tokens_and_takes_the_first_of_equals() -> None:
    assert choose("least_loaded", loads_of(50, 20, 20)) == (
        1,
        RouteReason.LEAST_LOADED,
        (("load", 20), ("size", 20), ("mean", 30)),
    )


def test_power_of_two_never_takes_the_most_loaded() -> None:
    for seed in range(30):
        choice = choose("power_of_two", loads_of(50, 10, 90, 30), seed=seed)
        numbers = dict(choice.numbers)
        assert choice.replica != 2
        assert numbers["load"] <= numbers["other_load"]


@pytest.mark.parametrize("router", ["bounded_hash", "prefix_affinity"])
def test_a_prefix_has_one_home_whatever_follows_it(router: str) -> None:
    homes = {choose(router, Loads(8), tail).replica for tail in range(900, 920)}
    assert len(homes) == 1


def test_different_prefixes_and_salts_have_homes_of_their_own() -> None:
    router = ByPrefix(FleetConfig(3), 4, along_the_ring=False)
    one = router.key(create_request("A", [1, 2, 3, 4, 5]))
    assert one == router.key(create_request("B", [1, 2, 3, 4, 9]))
    assert one != router.key(create_request("C", [1, 2, 3, 9, 5]))
    assert one != router.key(create_request("D", [1, 2, 3, 4, 5], salt="tenant"))
    assert router.key(create_request("E", [1, 2])) != router.key(create_request("F", [1, 3]))


def test_a_home_over_the_bound_gives_way_to_the_least_loaded_and_says_so_in_numbers() -> None:
    home = choose("prefix_affinity", Loads(3)).replica
    tokens = [30, 10, 20]
    tokens[home] = 400
    least = min(range(3), key=tokens.__getitem__)
    choice = choose("prefix_affinity", loads_of(*tokens), load_bound=1.25)
    bound = int(1.25 * (sum(tokens) + 20) / 3)
    assert choice.replica == least
    assert choice.reason is RouteReason.OVER_BOUND
    assert dict(choice.numbers) == {
        "load": tokens[least],
        "size": 20,
        "home": home,
        "home_load": 400,
        "bound": bound,
    }


def test_bounded_hash_goes_on_to_the_next_on_the_ring_that_is_within_the_bound() -> None:
    config = FleetConfig(5, "bounded_hash")
    key = ByPrefix(config, 4, along_the_ring=True).key(create_request("R", [*PREFIX, 900]))
    order = [*HashRing(5).walk(key)]
    tokens = [0] * 5
    tokens[order[0]] = tokens[order[1]] = 500
    choice = choose("bounded_hash", loads_of(*tokens))
    assert (choice.replica, choice.reason) == (order[2], RouteReason.NEXT_ON_RING)


def test_the_load_floor_lets_a_home_keep_its_own_while_little_is_going_on() -> None:
    home = choose("prefix_affinity", Loads(3)).replica
    tokens = [0, 0, 0]
    tokens[home] = 60
    assert choose("prefix_affinity", loads_of(*tokens)).reason is RouteReason.OVER_BOUND
    assert choose("prefix_affinity", loads_of(*tokens), load_floor=60).reason is RouteReason.HOME


def test_a_replica_that_goes_moves_only_its_own_keys() -> None:
    ring = HashRing(5)
    keys = [f"key {number}".encode() for number in range(300)]
    walks = {key: [*ring.walk(key)] for key in keys}
    assert all(sorted(walk) == [0, 1, 2, 3, 4] for walk in walks.values())
    shares = [sum(walk[0] == replica for walk in walks.values()) for replica in range(5)]
    assert min(shares) > 20
    for walk in walks.values():
        home = next(replica for replica in walk if replica != 3)
        assert home == walk[0] or walk[0] == 3


@pytest.mark.parametrize("router", ROUTERS)
def test_every_router_serves_a_load_to_its_end(router: str) -> None:
    trace = run_fleet(shared_prefix_load(3), num_replicas=3, router=router)
    assert trace.figures()["completed"] == 24
    assert sum(each.requests for each in trace.replicas) == 24


@pytest.mark.parametrize(
    ("knobs", "named"),
    [
        ({"num_replicas": 0}, "num_replicas is 0"),
        ({"num_replicas": 1_001}, "num_replicas is 1001"),
        ({"router": "random"}, "router is 'random'"),
        ({"load_bound": 0.9}, "load_bound is 0.9"),
        ({"load_bound": float("nan")}, "load_bound is nan"),
        ({"kills": (Kill(1, 3),)}, "the replica that is killed is 3"),
        ({"kills": (Kill(-1, 0),)}, "the time of a kill is -1"),
        ({"kills": (Kill(1, 0), Kill(2, 0))}, "killed twice"),
        ({"kills": (Kill(1, 0), Kill(2, 1), Kill(2, 2))}, "leave at least one"),
    ],
)
def test_impossible_fleets_are_refused_with_the_value_and_the_bound(knobs: dict[str, object], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        FleetConfig(**knobs)  # type: ignore[arg-type]

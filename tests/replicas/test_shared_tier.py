"""A tier below all pools: what one replica has computed the others load, and what a killed one had stays."""

from __future__ import annotations

import random

import pytest

from scheduler_core.backends.kv_bytes import KVBytes
from scheduler_core.replicas.config import ROUTERS, Kill
from scheduler_core.replicas.shared_store import OneReplicasView, shared_tier
from scheduler_core.storage.block import BlockAddress
from tests.helpers import create_request
from tests.replicas.helpers import fleet_texts, run_fleet, shared_prefix_load, solo_texts

PREFIX = list(range(500, 516))


def test_a_prefix_that_one_replica_has_computed_is_loaded_by_the_others() -> None:
    specs = [create_request(f"r{n}", [*PREFIX, 9_000 + n], 3, arrival=12.0 * n) for n in range(3)]
    apart, shared = (
        run_fleet(specs, num_replicas=3, router="round_robin", shared_tier=shared) for shared in (False, True)
    )
    assert [each.hit_tokens for each in apart.replicas] == [0, 0, 0]
    assert [each.shared_hit_tokens for each in shared.replicas] == [0, 16, 16]
    assert shared.figures()["prefix_hit_rate"] > apart.figures()["prefix_hit_rate"] == 0.0
    assert fleet_texts(shared) == fleet_texts(apart)


def test_what_a_killed_replica_had_written_is_still_there() -> None:
    specs = [
        create_request("a", [*PREFIX, 9_000], 3),
        create_request("b", 8, 30),
        create_request("c", [*PREFIX, 9_001], 3, arrival=20.0),
    ]
    trace = run_fleet(specs, num_replicas=2, router="round_robin", shared_tier=True, kills=(Kill(15.0, 0),))
    assert trace.replicas[1].shared_hit_tokens == 16


def test_a_block_is_found_by_others_once_its_tick_is_over() -> None:
    store = shared_tier()
    one, other = OneReplicasView(store), OneReplicasView(store)
    address = BlockAddress("kv1:test", b"k" * 32, b"", (1, 2))
    one.put([(address, KVBytes("uint64", (2,), bytes(16)))])
    assert one.missing([address]) == []
    assert other.get([address]) == []
    one.deliver()
    assert [found.tier for found in other.get([address])] == ["shared"]
    store.close()


@pytest.mark.parametrize("seed", range(8))
def test_texts_and_figures_do_not_depend_on_the_tier_or_the_day(seed: int) -> None:
    rng = random.Random(seed)
    specs = shared_prefix_load(seed, count=30)
    knobs = {
        "num_replicas": 3,
        "router": rng.choice(ROUTERS),
        "shared_tier": True,
        "kills": (Kill(float(rng.randint(3, 12)), 1),),
    }
    one, again = run_fleet(specs, **knobs), run_fleet(specs, **knobs)
    assert fleet_texts(one) == solo_texts(specs)
    assert one.to_json() == again.to_json()


def test_tenants_do_not_meet_in_the_shared_tier() -> None:
    specs = [
        create_request(f"r{n}", [*PREFIX, 9_000 + n], 3, arrival=12.0 * n, salt=salt) for n, salt in enumerate("abb")
    ]
    trace = run_fleet(specs, num_replicas=3, router="round_robin", shared_tier=True)
    assert [each.shared_hit_tokens for each in trace.replicas] == [0, 0, 16]

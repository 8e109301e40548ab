"""Known faults of other servers, kept out: what goes wrong where there is more than one replica."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from scheduler_core.replicas.config import FleetConfig
from scheduler_core.replicas.events import RouteReason
from scheduler_core.replicas.fleet_trace import FleetTrace
from scheduler_core.replicas.router import ByPrefix
from tests.helpers import create_request
from tests.replicas.helpers import run_fleet


def one_hot_prefix(router: str, bound: float = 1.25) -> FleetTrace:
    """Case 88: 3 replicas, and 9 of 10 requests share one prefix."""
    hot = list(range(100, 116))
    specs = [
        create_request(f"r{n}", [*(hot if n % 10 else [9_000 + n] * 16), 50_000 + n], 8, arrival=float(n // 3))
        for n in range(90)
    ]
    return run_fleet(specs, num_replicas=3, router=router, load_bound=bound)


@pytest.mark.parametrize("router", ["bounded_hash", "prefix_affinity"])
def test_a_prefix_that_nearly_all_share_does_not_send_all_to_one_replica(router: str) -> None:
    """Case 88. A replica takes no request while it owes more than 1.25 times the mean."""
    trace = one_hot_prefix(router)
    overflows = [e for e in trace.routed if e.reason in (RouteReason.NEXT_ON_RING, RouteReason.OVER_BOUND)]
    assert overflows, "else this test says nothing"
    assert all(dict(e.numbers)["load"] <= dict(e.numbers)["bound"] for e in trace.routed)
    assert all(dict(e.numbers)["home_load"] > dict(e.numbers)["bound"] for e in overflows)
    assert trace.max_over_mean is not None
    assert trace.max_over_mean < 1.3


def test_without_a_bound_it_would() -> None:
    """Case 88, the fault itself: what the bound is for."""
    trace = one_hot_prefix("prefix_affinity", bound=1e6)
    assert trace.max_over_mean is not None
    assert trace.max_over_mean > 2


def test_beyond_the_bound_the_least_loaded_is_chosen_and_the_reason_is_shown() -> None:
    """Case 88."""
    trace = one_hot_prefix("prefix_affinity")
    over = next(e for e in trace.routed if e.reason is RouteReason.OVER_BOUND)
    assert dict(over.numbers).keys() == {"load", "size", "home", "home_load", "bound"}


def test_the_home_of_a_prefix_is_the_same_in_another_process() -> None:
    """Case 3: no root value that is random per process."""
    code = (
        "from scheduler_core.replicas.config import FleetConfig\n"
        "from scheduler_core.replicas.router import ByPrefix\n"
        "from scheduler_core.request import RequestSpec\n"
        "print(ByPrefix(FleetConfig(3), 4, along_the_ring=False).key(RequestSpec('R', (1, 2, 3, 4, 5))).hex())"
    )
    root = Path(__file__).resolve().parent.parent
    there = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=root)
    here = ByPrefix(FleetConfig(3), 4, along_the_ring=False).key(create_request("R", [1, 2, 3, 4, 5]))
    assert there.stdout.strip() == here.hex()

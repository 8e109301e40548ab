"""`FleetConfig`: one frozen value that determines how requests are spread over replicas."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite

from scheduler_core.errors import ConfigError
from scheduler_core.replicas.kills import Kill as Kill
from scheduler_core.replicas.kills import check_kills

ROUTERS = ("round_robin", "least_loaded", "power_of_two", "bounded_hash", "prefix_affinity")
MAX_REPLICAS = 1_000


@dataclass(frozen=True, slots=True)
class FleetConfig:
    """How many replicas, who chooses one for a request, and which are killed on the way.

    Routers by prefix take the first `prefix_blocks` full blocks of a prompt as its key. They keep a key at its home
    while the home's outstanding tokens are at most `load_bound` times the mean, or at most `load_floor`. With
    `shared_tier` what one replica has computed can be loaded by all, also after its end. A killed replica that is
    restarted loads the weights for `start_seconds` before it takes requests.
    """

    num_replicas: int = 3
    router: str = "prefix_affinity"
    load_bound: float = 1.25
    load_floor: int = 0
    prefix_blocks: int = 4
    seed: int = 0
    shared_tier: bool = False
    kills: tuple[Kill, ...] = ()
    start_seconds: float = 8.0

    def __post_init__(self) -> None:
        _check("num_replicas", self.num_replicas, 1, MAX_REPLICAS)
        if self.router not in ROUTERS:
            raise ConfigError(f"router is {self.router!r}; it must be one of {', '.join(ROUTERS)}")
        _check("load_bound", self.load_bound, 1.0, 1e6)
        _check("load_floor", self.load_floor, 0, 10**9)
        _check("prefix_blocks", self.prefix_blocks, 1, 1_000)
        _check("seed", self.seed, 0, 2**63 - 1)
        _check("start_seconds", self.start_seconds, 1e-6, 1e6)
        for kill in self.kills:
            _check("the replica that is killed", kill.replica, 0, self.num_replicas - 1)
            _check("the time of a kill", kill.time, 0, 1e12)
            _check("the time from a kill to the restart", kill.restart_after or 0, 0, 1e12)
        check_kills(self.kills, self.num_replicas, self.start_seconds)


def _check(name: str, value: float, low: float, high: float) -> None:
    if not isfinite(value) or not low <= value <= high:
        raise ConfigError(f"{name} is {value}; it must be from {low:g} to {high:g}")

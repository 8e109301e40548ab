"""`FleetConfig`: one frozen value that determines how requests are spread over replicas."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite

from scheduler_core.errors import ConfigError

ROUTERS = ("round_robin", "least_loaded", "power_of_two", "bounded_hash", "prefix_affinity")
MAX_REPLICAS = 1_000


@dataclass(frozen=True, slots=True)
class Kill:
    """Replica `replica` (from 0) is gone from `time` on, in seconds of virtual time; its KV is lost."""

    time: float
    replica: int


@dataclass(frozen=True, slots=True)
class FleetConfig:
    """How many replicas, who chooses one for a request, and which are killed on the way.

    Routers by prefix take the first `prefix_blocks` full blocks of a prompt as its key. They keep a key at its home
    while the home's outstanding tokens are at most `load_bound` times the mean, or at most `load_floor`. With
    `shared_tier` what one replica has computed can be loaded by all, also after its end.
    """

    num_replicas: int = 3
    router: str = "prefix_affinity"
    load_bound: float = 1.25
    load_floor: int = 0
    prefix_blocks: int = 4
    seed: int = 0
    shared_tier: bool = False
    kills: tuple[Kill, ...] = ()

    def __post_init__(self) -> None:
        _check("num_replicas", self.num_replicas, 1, MAX_REPLICAS)
        if self.router not in ROUTERS:
            raise ConfigError(f"router is {self.router!r}; it must be one of {', '.join(ROUTERS)}")
        _check("load_bound", self.load_bound, 1.0, 1e6)
        _check("load_floor", self.load_floor, 0, 10**9)
        _check("prefix_blocks", self.prefix_blocks, 1, 1_000)
        _check("seed", self.seed, 0, 2**63 - 1)
        self._check_kills()

    def _check_kills(self) -> None:
        for kill in self.kills:
            _check("the replica that is killed", kill.replica, 0, self.num_replicas - 1)
            _check("the time of a kill", kill.time, 0, 1e12)
        killed = [kill.replica for kill in self.kills]
        if len(set(killed)) < len(killed):
            raise ConfigError("a replica is killed twice; name each at most once")
        if len(killed) >= self.num_replicas:
            raise ConfigError(
                f"{len(killed)} of {self.num_replicas} replicas are killed; leave at least one to serve the requests"
            )


def _check(name: str, value: float, low: float, high: float) -> None:
    if not isfinite(value) or not low <= value <= high:
        raise ConfigError(f"{name} is {value}; it must be from {low:g} to {high:g}")

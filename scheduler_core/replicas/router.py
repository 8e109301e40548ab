"""Who chooses the replica of a request, each with its reason in numbers.

`least_loaded` counts outstanding tokens. `power_of_two` looks at two replicas drawn at random and takes the less loaded
(Mitzenmacher, "The Power of Two Choices in Randomized Load Balancing", 2001). `bounded_hash` is consistent hashing with
bounded loads (Mirrokni, Thorup and Zadimoghaddam, arXiv 1608.01350, SODA'18): a key that finds its home over the bound
goes on to the next replica on the ring. `prefix_affinity` goes to the least loaded one instead. While a home is gone,
the next on the ring stands in for it; once it is restarted, its keys come home.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import NamedTuple, Protocol

from scheduler_core.events import Numbers
from scheduler_core.replicas.config import FleetConfig
from scheduler_core.replicas.events import RouteReason
from scheduler_core.replicas.hash_ring import HashRing
from scheduler_core.replicas.loads import Loads
from scheduler_core.replicas.prefix_key import PrefixKey
from scheduler_core.request import RequestSpec


class Choice(NamedTuple):
    """A living replica, why it, and the numbers that say so."""

    replica: int
    reason: RouteReason
    numbers: Numbers


class Router(Protocol):
    """Chooses a living replica; `size` is what the request adds to its outstanding tokens."""

    def choose(self, spec: RequestSpec, size: int, loads: Loads) -> Choice: ...


class RoundRobin:
    """One after the other; knows no loads."""

    def __init__(self) -> None:
        self._last = -1

    def choose(self, spec: RequestSpec, size: int, loads: Loads) -> Choice:
        self._last = next((r for r in loads.alive if r > self._last), loads.alive[0])
        return _choice(self._last, RouteReason.IN_TURN, size, loads)


class LeastLoaded:
    """The one with the fewest outstanding tokens; of equal ones the first."""

    def choose(self, spec: RequestSpec, size: int, loads: Loads) -> Choice:
        return _choice(loads.least, RouteReason.LEAST_LOADED, size, loads, ("mean", int(loads.mean)))


class PowerOfTwo:
    """The less loaded of two that are drawn at random, of equal ones the first drawn."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def choose(self, spec: RequestSpec, size: int, loads: Loads) -> Choice:
        if len(loads.alive) == 1:
            return _choice(loads.alive[0], RouteReason.LEAST_LOADED, size, loads, ("mean", int(loads.mean)))
        one, other = self._random.sample(loads.alive, 2)
        if loads.tokens[other] < loads.tokens[one]:
            one, other = other, one
        numbers = ("other", other), ("other_load", loads.tokens[other])
        return _choice(one, RouteReason.LESS_OF_TWO, size, loads, *numbers)


class ByPrefix:
    """The home of the prompt's prefix while that is within the bound; `overflow` says where to otherwise."""

    def __init__(self, config: FleetConfig, block_size: int, *, along_the_ring: bool) -> None:
        self._config = config
        self._along_the_ring = along_the_ring
        self._ring = HashRing(config.num_replicas)
        self.key = PrefixKey(block_size, config.prefix_blocks).of
        #: Requests by key that went elsewhere since its home was killed.
        self._away: dict[bytes, int] = {}

    def choose(self, spec: RequestSpec, size: int, loads: Loads) -> Choice:
        bound = self.bound(size, loads)
        alive = set(loads.alive)
        key = self.key(spec)
        order = self._ring.walk(key)
        owner = next(order)
        order = (replica for replica in order if replica in alive)
        home = owner if owner in alive else next(order)
        if home != owner:
            self._away[key] = self._away.get(key, 0) + 1
        if loads.tokens[home] <= bound:
            return self._at_home(key, owner, home, bound, size, loads)
        numbers = [("home", home), ("home_load", loads.tokens[home]), ("bound", bound)]
        if home != owner:
            numbers.append(("owner", owner))
        if self._along_the_ring:
            # The least loaded one is never over the bound, so there is a next.
            following = next(replica for replica in order if loads.tokens[replica] <= bound)
            return _choice(following, RouteReason.NEXT_ON_RING, size, loads, *numbers)
        return _choice(loads.least, RouteReason.OVER_BOUND, size, loads, *numbers)

    def _at_home(self, key: bytes, owner: int, home: int, bound: int, size: int, loads: Loads) -> Choice:
        """The home has room; the reason says whether it is the true one, and whether it was away."""
        if home != owner:
            return _choice(home, RouteReason.STAND_IN, size, loads, ("owner", owner), ("bound", bound))
        if away := self._away.pop(key, 0):
            return _choice(home, RouteReason.HOME_AGAIN, size, loads, ("away", away), ("bound", bound))
        return _choice(home, RouteReason.HOME, size, loads, ("bound", bound))

    def bound(self, size: int, loads: Loads) -> int:
        """The most outstanding tokens with which a replica may still take a request of `size`."""
        mean = (loads.total + size) / len(loads.alive)
        return max(self._config.load_floor, int(self._config.load_bound * mean))


_ROUTERS: dict[str, Callable[[FleetConfig, int], Router]] = {
    "round_robin": lambda config, block_size: RoundRobin(),
    "least_loaded": lambda config, block_size: LeastLoaded(),
    "power_of_two": lambda config, block_size: PowerOfTwo(config.seed),
    "bounded_hash": lambda config, block_size: ByPrefix(config, block_size, along_the_ring=True),
    "prefix_affinity": lambda config, block_size: ByPrefix(config, block_size, along_the_ring=False),
}


def make_router(config: FleetConfig, block_size: int) -> Router:
    """The router that the configuration names."""
    return _ROUTERS[config.router](config, block_size)


def _choice(replica: int, reason: RouteReason, size: int, loads: Loads, *numbers: tuple[str, int]) -> Choice:
    return Choice(replica, reason, (("load", loads.tokens[replica]), ("size", size), *numbers))

"""What happens between replicas, each a fact with its reason and numbers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from scheduler_core.events import Numbers


class RouteReason(Enum):
    """Why this replica was chosen.

    All numbers have `load`, its outstanding tokens before, and `size`, the tokens of the request. Besides, by reason:
    IN_TURN: none. LEAST_LOADED: mean. LESS_OF_TWO: other, other_load. HOME: bound. STAND_IN, while the home of the
    prefix is gone: owner, bound. HOME_AGAIN, the first after that: away (how many went elsewhere), bound. NEXT_ON_RING
    and OVER_BOUND: home, home_load, bound, and owner if `home` only stands in for it.
    """

    IN_TURN = "in_turn"
    LEAST_LOADED = "least_loaded"
    LESS_OF_TWO = "less_of_two"
    HOME = "home"
    STAND_IN = "stand_in"
    HOME_AGAIN = "home_again"
    NEXT_ON_RING = "next_on_ring"
    OVER_BOUND = "over_bound"


@dataclass(frozen=True, slots=True)
class RequestRouted:
    """Sent to `replica`; attempt 1 is the first, later ones follow a kill."""

    time: float
    request_id: str
    replica: int
    attempt: int
    reason: RouteReason
    numbers: Numbers


@dataclass(frozen=True, slots=True)
class ReplicaKilled:
    """Gone with its KV. `lost_tick` tells that a tick was going on, of which nothing was delivered."""

    time: float
    replica: int
    num_requests: int
    lost_tick: bool


@dataclass(frozen=True, slots=True)
class RequestMoved:
    """Had got `tokens_so_far` of its output from the killed replica; they and the prompt are computed again."""

    time: float
    request_id: str
    from_replica: int
    num_prompt_tokens: int
    tokens_so_far: int


@dataclass(frozen=True, slots=True)
class ReplicaStarting:
    """A new process begins to load the weights; until `ready_at` it takes no request."""

    time: float
    replica: int
    ready_at: float


@dataclass(frozen=True, slots=True)
class ReplicaReady:
    """Takes requests again, with an empty pool, `down_seconds` after it was killed."""

    time: float
    replica: int
    down_seconds: float


FleetEvent = RequestRouted | ReplicaKilled | RequestMoved | ReplicaStarting | ReplicaReady

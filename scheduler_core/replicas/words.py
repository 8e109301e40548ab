"""What routers decided, in plain English: names of routers, and one sentence for each decision."""

from __future__ import annotations

from collections.abc import Mapping

from scheduler_core.replicas.events import RequestRouted, RouteReason
from scheduler_core.words import count

ROUTER_NAMES = {
    "round_robin": "Round robin",
    "least_loaded": "Least loaded",
    "power_of_two": "Power of two choices",
    "bounded_hash": "Consistent hash",
    "prefix_affinity": "Prefix affinity",
}

ROUTER_TEXTS = {
    "round_robin": "One replica after the other. It knows neither loads nor prompts.",
    "least_loaded": "The replica with the fewest outstanding tokens.",
    "power_of_two": "The less loaded of two replicas drawn at random: nearly as even, and it need not ask all.",
    "bounded_hash": (
        "Prompts that begin alike have one home on a ring of replicas. If the home is over the load bound, the next "
        "replica on the ring takes the request."
    ),
    "prefix_affinity": (
        "Prompts that begin alike have one home. If the home is over the load bound, the least loaded replica takes "
        "the request."
    ),
}

REASON_NAMES = {
    RouteReason.IN_TURN: "in turn",
    RouteReason.LEAST_LOADED: "least loaded",
    RouteReason.LESS_OF_TWO: "less loaded of two",
    RouteReason.HOME: "home of its prefix",
    RouteReason.STAND_IN: "home is gone: next on the ring",
    RouteReason.HOME_AGAIN: "home of its prefix is back",
    RouteReason.NEXT_ON_RING: "home over the bound: next on the ring",
    RouteReason.OVER_BOUND: "home over the bound: least loaded",
}


def replica_name(replica: int) -> str:
    """As people count: replica 0 is the first."""
    return f"replica {replica + 1}"


def why(event: RequestRouted) -> str:
    """The reason of a decision in numbers, without a full stop."""
    numbers = dict(event.numbers)
    load = count(numbers["load"], "outstanding token")
    match event.reason:
        case RouteReason.IN_TURN:
            return f"it was its turn; it has {load}"
        case RouteReason.LEAST_LOADED:
            return f"it has the fewest outstanding tokens, {numbers['load']:,} (mean {numbers['mean']:,})"
        case RouteReason.LESS_OF_TWO:
            other = f"{replica_name(numbers['other'])} has {numbers['other_load']:,}"
            return f"of two drawn at random it has the fewer outstanding tokens, {numbers['load']:,}; {other}"
        case RouteReason.HOME:
            return f"it is the home of this prefix, and with {load} it is within {_bound(numbers)}"
        case RouteReason.STAND_IN:
            owner = replica_name(numbers["owner"])
            return (
                f"{owner}, the home of this prefix, is gone; the next on the ring has {load}, within {_bound(numbers)}"
            )
        case RouteReason.HOME_AGAIN:
            away = f"{count(numbers['away'], 'request')} with it went elsewhere meanwhile"
            return f"it is the home of this prefix and is back, {away}; with {load} it is within {_bound(numbers)}"
        case RouteReason.NEXT_ON_RING | RouteReason.OVER_BOUND:
            home = f"{replica_name(numbers['home'])}, {_role(numbers)}, has {numbers['home_load']:,} outstanding tokens"
            how = "next on the ring" if event.reason is RouteReason.NEXT_ON_RING else "least loaded"
            return f"{home}, over {_bound(numbers)}; the {how} has {numbers['load']:,}"


def _bound(numbers: Mapping[str, int]) -> str:
    return f"the bound of {numbers['bound']:,}"


def _role(numbers: Mapping[str, int]) -> str:
    """What the replica is to the prefix that was over the bound."""
    return f"standing in for {replica_name(numbers['owner'])}, its home" if "owner" in numbers else "its home"

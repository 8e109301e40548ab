"""Whether two views of the same requests agree: the means of TTFT and of ITL, and the counts behind them.

A client and the gateway see the very same requests at the same time. A client's TTFT also holds what the gateway
cannot see: a new connection, the way of the request until its head is read, and that of the first token from the
gateway's loop to the client's. That is a few milliseconds, and more where processes wait for a processor.

The two clients send the same prompts at the same times one after the other: their difference also holds what changed
on the machine from one run to the next, so it is told, not judged.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scheduler_core.bench.client.race import Raced, Seen

#: The most that two means may differ, as a share of the gateway's.
LIMIT = 0.05
OUTSIDE, OURS, GATEWAY = "vLLM's client", "our client", "/metrics"


@dataclass(frozen=True, slots=True)
class Agreement:
    """Two means in seconds; `difference` is that of the first, as a share of the second."""

    metric: str
    one: str
    other: str
    one_s: float
    other_s: float

    @property
    def difference(self) -> float:
        return self.one_s / self.other_s - 1

    @property
    def holds(self) -> bool:
        return abs(self.difference) <= LIMIT


@dataclass(frozen=True, slots=True)
class Counts:
    """Requests and gaps between tokens that a client and the gateway count in the same time."""

    who: str
    requests: tuple[int, int]
    gaps: tuple[int, int]

    @property
    def are_equal(self) -> bool:
        return self.requests[0] == self.requests[1] and self.gaps[0] == self.gaps[1]


def agreements(raced: Raced) -> list[Agreement]:
    """Each client with the gateway on its own requests."""
    found = []
    for who, seen in ((OUTSIDE, raced.outside), (OURS, raced.ours)):
        for metric, values, told in (
            ("TTFT", seen.client.ttfts, seen.gateway.ttft.mean_s),
            ("ITL", seen.client.itls, seen.gateway.itl.mean_s),
        ):
            found.append(Agreement(metric, who, GATEWAY, float(np.mean(values)), told or float("nan")))
    return found


def between_clients(raced: Raced) -> list[Agreement]:
    """The one client's requests with the other's."""
    theirs, ours = raced.outside.client, raced.ours.client
    return [
        Agreement("TTFT", OUTSIDE, OURS, float(np.mean(theirs.ttfts)), float(np.mean(ours.ttfts))),
        Agreement("ITL", OUTSIDE, OURS, float(np.mean(theirs.itls)), float(np.mean(ours.itls))),
    ]


def counts(raced: Raced) -> list[Counts]:
    return [_counts(OUTSIDE, raced.outside), _counts(OURS, raced.ours)]


def _counts(who: str, seen: Seen) -> Counts:
    client, gateway = seen.client, seen.gateway
    return Counts(who, (len(client.ttfts), gateway.ttft.count), (len(client.itls), gateway.itl.count))

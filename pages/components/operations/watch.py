"""What was read of a gateway in the last minutes, for all visitors together: it is asked at most once a second."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import streamlit as st

from pages.components.operations.client import KEY, Gateway, GatewayError, KeyRefused, NotOffered, may_operate
from pages.components.operations.reading import Buckets, Reading, difference, read

#: Seconds that are remembered, and over which latencies are estimated.
WINDOW_S = 180.0
#: With fewer seconds of readings latencies are told since the gateway began.
LEAST_WINDOW_S = 20.0
#: Over so many seconds a rate is taken.
RATE_S = 10.0
_FRESH_S = 1.0
#: How much longer than an answer took the next one is not asked for.
_PATIENCE = 4.0
#: Dead letters that are shown at once.
PAGE = 10


class Closed(Enum):
    """Why there are figures only, and what to do about it."""

    NOT_OFFERED = "This gateway shows its figures only. Start it with `serve --operations` to see this and to act."
    NEEDS_KEY = f"The gateway takes no key of this app: set `{KEY}` to one of the gateway's and start the app again."
    SHARED = (
        "Others than this machine's users reach this app, so it shows figures only. To let all of them act, give the "
        f"gateway keys and the app one of them in `{KEY}`."
    )


@dataclass(frozen=True, slots=True)
class Seen:
    """What is known now: `readings` the oldest first; `status` and `letters` where the operations are open to us.

    `problem` says why the last try failed.
    """

    readings: tuple[Reading, ...] = ()
    status: dict[str, Any] | None = None
    letters: dict[str, Any] | None = None
    problem: str = ""
    closed: Closed | None = None

    @property
    def last(self) -> Reading | None:
        return self.readings[-1] if self.readings else None

    @property
    def span(self) -> float:
        """Seconds between the first reading and the last."""
        return self.readings[-1].at - self.readings[0].at if self.readings else 0.0

    def rate(self, name: str, *, replica: str | None = None, at: int = -1) -> float | None:
        """Events of a counter a second before reading `at`; None while there is only one reading."""
        new = self.readings[at]
        old = next((each for each in self.readings if new.at - RATE_S <= each.at < new.at), None)
        if old is None:
            return None
        return max(0.0, new.total(name, replica=replica) - old.total(name, replica=replica)) / (new.at - old.at)

    @property
    def has_window(self) -> bool:
        """Whether there are readings enough to tell the last minutes from what was before."""
        return self.span >= LEAST_WINDOW_S

    def latencies(self, name: str, replica: str | None = None) -> Buckets:
        """What came within the readings, or since the gateway began."""
        new = self.readings[-1].histogram(name, replica)
        return difference(new, self.readings[0].histogram(name, replica)) if self.has_window else new


@dataclass(slots=True)
class Watch:
    """Of one gateway; unless it `may_operate` only figures are asked for."""

    gateway: Gateway
    may_operate: bool = True
    clock: Callable[[], float] = time.monotonic
    seen: Seen = field(default_factory=Seen)
    _readings: deque[Reading] = field(default_factory=deque)
    _asking: threading.Lock = field(default_factory=threading.Lock)
    _next: float = float("-inf")

    def look(self, *, now: bool = False) -> Seen:
        """What is known, asked for anew if it is older than a second, or if it must be `now`.

        While another visitor asks, this one takes what was known before.
        """
        if not self._asking.acquire(blocking=now):
            return self.seen
        try:
            if now or self.clock() >= self._next:
                began = self.clock()
                self.seen = self._ask()
                # A gateway that is slow to answer is asked less often, so that the page has time for its visitor.
                self._next = began + max(_FRESH_S, _PATIENCE * (self.clock() - began))
        finally:
            self._asking.release()
        return self.seen

    def _ask(self) -> Seen:
        try:
            self._keep(read(self.gateway.metrics(), self.clock()))
        except GatewayError as problem:
            before = self.seen
            return Seen(tuple(self._readings), before.status, before.letters, str(problem), before.closed)
        if not self.may_operate:
            return Seen(tuple(self._readings), closed=Closed.SHARED)
        try:
            status = self.gateway.read("status")
            letters = self.gateway.read(f"dead-letters?limit={PAGE}")
        except NotOffered:
            return Seen(tuple(self._readings), closed=Closed.NOT_OFFERED)
        except KeyRefused:
            return Seen(tuple(self._readings), closed=Closed.NEEDS_KEY)
        except GatewayError as problem:
            return Seen(tuple(self._readings), self.seen.status, self.seen.letters, str(problem), self.seen.closed)
        return Seen(tuple(self._readings), status, letters)

    def _keep(self, reading: Reading) -> None:
        """A gateway that began anew counts from nothing: what was read before cannot be compared."""
        kept = self._readings
        if kept and reading.total("requests_submitted_total") < kept[-1].total("requests_submitted_total"):
            kept.clear()
        kept.append(reading)
        while reading.at - kept[0].at > WINDOW_S:
            kept.popleft()


@st.cache_resource(show_spinner=False, max_entries=32)
def watch(gateway: Gateway) -> Watch:
    """The one of the process."""
    return Watch(gateway, may_operate(gateway, st.get_option("server.address")))

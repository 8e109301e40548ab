"""`SoakPlan`: how a gateway is soaked: its settings, its faults, the load and what its clients do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from scheduler_core.bench.soak.memory import ENVIRONMENT as GIVES_BACK
from scheduler_core.load.checks import check_choice, check_number, check_whole
from scheduler_core.load.config import LoadConfig, Tenant
from scheduler_core.load.generator import GeneratedLoad
from scheduler_core.load.lengths import Lengths
from scheduler_core.load.request import LoadRequest
from scheduler_core.request import RequestSpec
from scheduler_core.serving.fault_plan import PlannedFault

BACKENDS = ("model", "synthetic")
MAX_MINUTES = 24 * 60

#: Few blocks and lanes, so that memory is short and requests are swapped, and time slices, so that they take turns.
_BLOCKS, _LANES, _WAITING = 160, 16, 32
_SETTINGS = (
    f"num_blocks={_BLOCKS}",
    f"num_swap_blocks={_BLOCKS}",
    f"max_num_seqs={_LANES}",
    "quantum=16",
    "preemption_mode=swap",
)
#: Two attempts, so that some requests fail for good.
_ENVIRONMENT = {"TICKSCOPE_SERVE_ATTEMPTS": "2", "TICKSCOPE_SERVE_BACKOFF_S": "0.05"}
_STORE_MIB = 128

#: Those who leave ask for so many tokens that the answer cannot be complete when they have read the last they want.
_LEAVERS_ASK_FOR = 300
_LEAVE_AFTER = (0, 1, 2, 5, 20)
_BEHAVIOUR = 20


@dataclass(frozen=True, slots=True)
class SoakRequest:
    """A request and what its client does: leaves after so many tokens, or waits for the whole answer at once."""

    sent: LoadRequest
    leave_after: int | None = None
    is_whole: bool = False

    @property
    def id(self) -> str:
        return self.sent.id

    @property
    def arrival_time(self) -> float:
        return self.sent.arrival_time

    @property
    def tenant(self) -> str:
        return self.sent.tenant

    def spec(self) -> RequestSpec:
        return self.sent.spec()


@dataclass(frozen=True, slots=True)
class SoakPlan:
    """`load` is the share of the measured capacity that is sent; `sampled` answers are compared with those alone.

    Of the requests a share of `leavers` is left by its clients, `whole` do not stream, and `too_large` fit into no
    memory.
    """

    minutes: float = 10.0
    load: float = 0.8
    backend: str = "model"
    seed: int = 0
    leavers: float = 0.1
    whole: float = 0.15
    too_large: float = 0.01
    sampled: int = 24

    def __post_init__(self) -> None:
        check_number("minutes", self.minutes, 0.05, MAX_MINUTES)
        check_number("load", self.load, 0.05, 2)
        check_choice("backend", self.backend, BACKENDS)
        check_whole("seed", self.seed, 0, 2**31)
        check_whole("sampled", self.sampled, 1, 1_000)
        for name in ("leavers", "whole", "too_large"):
            check_number(name, getattr(self, name), 0, 0.3)

    # The gateway

    @property
    def settings(self) -> tuple[str, ...]:
        """Of the engine, as FIELD=VALUE."""
        return _SETTINGS

    @property
    def options(self) -> tuple[str, ...]:
        """Of `serve`, but for the places of its files."""
        settings = [word for setting in _SETTINGS for word in ("--set", setting)]
        sizes = ("--max-waiting", str(_WAITING), "--store-mib", str(_STORE_MIB))
        return ("--backend", self.backend, "--check", "--operations", *sizes, *settings)

    @property
    def environment(self) -> dict[str, str]:
        """Of `serve`, as its settings are named there."""
        return {**_ENVIRONMENT, **GIVES_BACK, "TICKSCOPE_SERVE_STALL_S": f"{self.stall_s:g}"}

    @property
    def stall_s(self) -> float:
        """How long a call of the model may take."""
        return 5.0 if self.minutes >= 1 else 0.5

    @property
    def faults(self) -> tuple[PlannedFault, ...]:
        """Of every kind that there is: some in bursts, stalls also of a length at which attempts are given up."""
        return (
            self._about_every(75, PlannedFault("raise", count=10)),
            self._about_every(13, PlannedFault("nan")),
            self._about_every(17, PlannedFault("slow", seconds=0.1)),
            self._about_every(190, PlannedFault("slow", seconds=1.25 * self.stall_s)),
            self._about_every(150, PlannedFault("worker_killed")),
            PlannedFault("copy_out", first=3, every=7),
            PlannedFault("copy_in", first=5, every=9),
            PlannedFault("store_full", first=2, every=40, count=2),
            PlannedFault("store_gone", first=100, every=1_000, count=4),
        )

    def _about_every(self, seconds: float, fault: PlannedFault) -> PlannedFault:
        """A fault of the model with about so much time from one to the next, less in a short soak."""
        scale = min(1.0, self.minutes * 60 / _ALL_HAPPEN_S)
        every = max(1, round(_CALLS_PER_S[self.backend] * seconds * scale))
        return replace(fault, first=max(1, every // 2), every=every)

    # The load

    @property
    def closed_loop_clients(self) -> int:
        """Enough to keep all lanes busy, few enough to be refused nothing."""
        return _LANES + _LANES // 2

    @property
    def measuring_s(self) -> float:
        """How long the capacity is measured."""
        return min(60.0, max(_LEAST_S[self.backend], self.minutes * 6))

    def warm_up(self) -> Iterator[SoakRequest]:
        """Requests of the same kind without end, to measure the capacity with; their ids are `c0`, `c1`..."""
        number = 0
        while True:
            for each in self._requests(1.0, 1_000, self.seed + 1 + number):
                yield replace(each, sent=replace(each.sent, id=f"c{number}"))
                number += 1

    def requests(self, rate: float) -> list[SoakRequest]:
        """A Poisson process of so many a second for the minutes of the plan."""
        count = max(1, round(rate * self.minutes * 60))
        return [*self._requests(rate, count, self.seed)]

    def _requests(self, rate: float, count: int, seed: int) -> Iterator[SoakRequest]:
        config = LoadConfig(
            seed=seed,
            num_requests=count,
            arrivals="poisson",
            rate=rate,
            prompt=Lengths("uniform", low=16, high=128),
            output=Lengths("uniform", low=16, high=64),
            prefix_groups=8,
            prefix_tokens=64,
            prefix_share=0.5,
            tenants=(Tenant("open", 3), Tenant("own", 1, isolated=True)),
        )
        random = np.random.Generator(np.random.PCG64([seed, _BEHAVIOUR]))
        for request, draw, leave in zip(
            GeneratedLoad(config), random.random(count), random.choice(_LEAVE_AFTER, count), strict=True
        ):
            yield self._behaving(request, float(draw), int(leave))

    def _behaving(self, request: LoadRequest, draw: float, leave_after: int) -> SoakRequest:
        if draw < self.leavers:
            return SoakRequest(replace(request, max_tokens=_LEAVERS_ASK_FOR), leave_after)
        if draw < self.leavers + self.whole:
            return SoakRequest(request, is_whole=True)
        if draw < self.leavers + self.whole + self.too_large:
            return SoakRequest(replace(request, max_tokens=_BLOCKS * 16 + 1))
        return SoakRequest(request)


#: The shortest time in which enough requests end to tell a capacity.
_LEAST_S = {"model": 20.0, "synthetic": 2.5}
#: Calls of the model in a second under this load, about, by who computes.
_CALLS_PER_S = {"model": 20, "synthetic": 120}
#: The rarest fault of the model has happened after this time.
_ALL_HAPPEN_S = 300.0

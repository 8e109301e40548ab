"""Makes a load from its configuration: the same one each time, on every platform.

All numbers come from PCG64 streams of the seed, one for each thing that is drawn, so that a change of one (say, the
rate) leaves the others (the lengths) as they were.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from scheduler_core.load import arrival_times
from scheduler_core.load.config import LoadConfig, Tenant
from scheduler_core.load.lengths import Ints, weighted, zipf_ranks
from scheduler_core.load.request import LoadRequest

_TIMES, _LENGTHS, _PREFIXES, _TENANTS = range(10, 14)
_NOBODY = (Tenant("all"),)


class GeneratedLoad:
    """The requests of a `LoadConfig`, in order of arrival."""

    def __init__(self, config: LoadConfig) -> None:
        self.config = config
        self._times = _times(config)
        self._prompts, self._outputs = _lengths(config)
        self._groups = _groups(config)
        self._tenants = config.tenants or _NOBODY
        self._senders = _senders(config, self._tenants)

    def __len__(self) -> int:
        return self.config.num_requests

    def __iter__(self) -> Iterator[LoadRequest]:
        return map(self.request, range(len(self)))

    def request(self, number: int) -> LoadRequest:
        """Request `number`, from 0."""
        config, group = self.config, int(self._groups[number])
        tenant = self._tenants[self._senders[number]]
        return LoadRequest(
            f"r{number}",
            self._times[number],
            int(self._prompts[number]),
            int(self._outputs[number]),
            config.seed,
            number,
            group,
            config.prefix_tokens if group >= 0 else 0,
            tenant.name,
            tenant.priority,
            tenant.name if tenant.isolated else "",
            config.vocab_size,
        )


def _random(config: LoadConfig, what: int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64([config.seed, what]))


def _times(config: LoadConfig) -> list[float]:
    burstiness = {"constant": None, "poisson": 1.0}.get(config.arrivals, config.burstiness)
    if config.arrivals == "at_once":
        return [0.0] * config.num_requests
    expected = arrival_times.expected_arrivals(_random(config, _TIMES), burstiness, config.num_requests)
    if config.arrivals == "ramp":
        seconds = arrival_times.ramp(expected, config.rate, config.rate_end, config.ramp_s)
    elif config.arrivals == "onoff":
        seconds = arrival_times.on_off(expected, config.rate, config.off_rate, config.on_s, config.off_s)
    else:
        seconds = arrival_times.at_rate(expected, config.rate)
    return arrival_times.rounded(seconds)


def _lengths(config: LoadConfig) -> tuple[Ints, Ints]:
    random = _random(config, _LENGTHS)
    if config.pairs:
        rows = np.array(config.pairs, dtype=np.int64)[random.integers(0, len(config.pairs), config.num_requests)]
        return rows[:, 0], rows[:, 1]
    return config.prompt.draw(random, config.num_requests), config.output.draw(random, config.num_requests)


def _groups(config: LoadConfig) -> Ints:
    """The prefix group of each request, -1 for none."""
    if not config.prefix_groups:
        return np.full(config.num_requests, -1, dtype=np.int64)
    random = _random(config, _PREFIXES)
    groups = zipf_ranks(random, config.prefix_groups, config.prefix_skew, config.num_requests)
    return np.where(random.random(config.num_requests) < config.prefix_share, groups, -1)


def _senders(config: LoadConfig, tenants: tuple[Tenant, ...]) -> Ints:
    shares = np.array([tenant.share for tenant in tenants], dtype=np.float64)
    return weighted(_random(config, _TENANTS), shares, config.num_requests)

"""`LoadConfig`: one frozen value that determines a generated load."""

from __future__ import annotations

import json
from dataclasses import dataclass
from math import isinf
from typing import Any, Self

from scheduler_core import codec
from scheduler_core.errors import ConfigError
from scheduler_core.load.checks import check_choice, check_number, check_whole
from scheduler_core.load.lengths import MAX_TOKENS, Lengths

ARRIVALS = ("poisson", "constant", "gamma", "ramp", "onoff", "at_once")
MAX_REQUESTS = 1_000_000
MAX_TENANTS = 100

_PROMPT, _OUTPUT = Lengths.fixed(512), Lengths.fixed(128)


@dataclass(frozen=True, slots=True)
class Tenant:
    """Who sends: `share` is its weight among the requests, `priority` their class (lower is better).

    With `isolated` its prompts never share KV with those of others.
    """

    name: str
    share: float = 1.0
    priority: int = 0
    isolated: bool = False

    def __post_init__(self) -> None:
        if not self.name or not self.name.isprintable() or len(self.name) > 100:
            raise ConfigError(f"a tenant is called {self.name!r}; its name must have 1 to 100 printable characters")
        check_number(f"the share of tenant {self.name!r}", self.share, 1e-6, 1e6)
        check_whole(f"the priority of tenant {self.name!r}", self.priority, 0, 1_000)


@dataclass(frozen=True, slots=True)
class LoadConfig:
    """Requests that come whatever is still outstanding (open loop); `rate` is per second.

    `arrivals`: "poisson"; "constant"; "gamma" gaps of shape `burstiness`; "ramp" from `rate` to `rate_end` in `ramp_s`;
    "onoff", `on_s` seconds of `rate` and `off_s` of `off_rate` in turn; "at_once", all at the start. `burstiness`
    holds for "gamma", "ramp" and "onoff"; 1 is Poisson, less is burstier.

    A prompt is a prefix of `prefix_tokens`, if it belongs to one of `prefix_groups`, and then its own `prompt` tokens.
    A `prefix_share` of the requests belong to a group; group k is as frequent as k^-`prefix_skew`. `pairs` (prompt,
    output), if given, replace both lengths and keep them together. Token ids are below `vocab_size`.
    """

    seed: int = 0
    num_requests: int = 100
    arrivals: str = "poisson"
    rate: float = 1.0
    burstiness: float = 1.0
    rate_end: float = 1.0
    ramp_s: float = 60.0
    on_s: float = 10.0
    off_s: float = 10.0
    off_rate: float = 0.0
    prompt: Lengths = _PROMPT
    output: Lengths = _OUTPUT
    pairs: tuple[tuple[int, int], ...] = ()
    prefix_groups: int = 0
    prefix_tokens: int = 256
    prefix_share: float = 1.0
    prefix_skew: float = 0.0
    tenants: tuple[Tenant, ...] = ()
    vocab_size: int = 32_000

    def __post_init__(self) -> None:
        check_choice("arrivals", self.arrivals, ARRIVALS)
        check_whole("seed", self.seed, 0, 2**63 - 1)
        check_whole("num_requests", self.num_requests, 1, MAX_REQUESTS)
        for name in ("rate", "rate_end"):
            check_number(name, getattr(self, name), 1e-6, 1e6)
        check_number("off_rate", self.off_rate, 0, 1e6)
        check_number("burstiness", self.burstiness, 1e-3, 1e6)
        for name in ("ramp_s", "on_s", "off_s"):
            check_number(name, getattr(self, name), 1e-3, 1e7)
        check_whole("prefix_groups", self.prefix_groups, 0, 100_000)
        check_whole("prefix_tokens", self.prefix_tokens, 1, MAX_TOKENS)
        check_number("prefix_share", self.prefix_share, 0, 1)
        check_number("prefix_skew", self.prefix_skew, 0, 10)
        check_whole("vocab_size", self.vocab_size, 1_000, 2**31)
        self._check_tenants()
        for pair in self.pairs:
            for value in pair:
                check_whole("a length of a pair", value, 1, MAX_TOKENS)

    def _check_tenants(self) -> None:
        names = [tenant.name for tenant in self.tenants]
        if len(names) > MAX_TENANTS:
            raise ConfigError(f"there are {len(names)} tenants; at most {MAX_TENANTS} are taken")
        if repeated := next((name for name in names if names.count(name) > 1), None):
            raise ConfigError(f"two tenants are called {repeated!r}; give each a name of its own")

    def to_plain(self) -> dict[str, Any]:
        """JSON values."""
        plain: dict[str, Any] = codec.to_plain(self)
        return plain

    def to_json(self) -> str:
        return json.dumps(self.to_plain(), separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Raises `ConfigError` for what is no load."""
        try:
            loaded: Self = codec.from_plain(cls, json.loads(text))
        except (ValueError, RecursionError) as problem:
            raise ConfigError(f"this is not a load: {problem}") from None
        return loaded


def parse_tenants(text: str) -> tuple[Tenant, ...]:
    """As on a command line: a number of equal ones, or NAME=SHARE[:PRIORITY] with commas between."""
    if text.strip().isdecimal():
        count = int(text)
        check_whole("the number of tenants", count, 1, MAX_TENANTS)
        return tuple(Tenant(f"tenant-{number}") for number in range(1, count + 1))
    return tuple(_parse_tenant(part) for part in text.split(","))


def _parse_tenant(text: str) -> Tenant:
    name, _, numbers = text.strip().partition("=")
    share, _, priority = numbers.partition(":")
    try:
        weight = float(share or 1)
        if isinf(weight):
            raise ValueError
        return Tenant(name, weight, int(priority or 0))
    except ValueError:
        raise ConfigError(f"{text!r} is not a tenant; write NAME=SHARE or NAME=SHARE:PRIORITY, or a number") from None

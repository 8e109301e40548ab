"""What a public demo allows a visitor: limits that the operator sets in the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache

from scheduler_core.errors import TickscopeError


class SettingsError(TickscopeError):
    """A limit in the environment that is not a number in its bounds."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Upper limits of one visitor's run; `max_live_runs` counts the live runs of all visitors at once.

    The limits of loads are those of the workloads page: `max_load_seconds` is how long one may compute.

    Each is read from the variable of its name, as in TICKSCOPE_MAX_REQUESTS=8.
    """

    max_requests: int = 32
    max_prompt_tokens: int = 1024
    max_output_tokens: int = 256
    max_ticks: int = 2000
    max_live_runs: int = 2
    max_load_requests: int = 20_000
    max_load_ticks: int = 500_000
    max_load_seconds: int = 600


_LARGEST = 1_000_000


def read_limits(environment: Mapping[str, str]) -> Limits:
    """The limits that the environment sets, the defaults elsewhere; raises `SettingsError`."""
    values = {field.name: _read(environment, field.name) for field in fields(Limits)}
    return Limits(**{name: value for name, value in values.items() if value is not None})


def _read(environment: Mapping[str, str], name: str) -> int | None:
    variable = f"TICKSCOPE_{name.upper()}"
    text = environment.get(variable, "").strip()
    if not text:
        return None
    try:
        value = int(text)
    except ValueError:
        value = 0
    if not 1 <= value <= _LARGEST:
        raise SettingsError(f"{variable} is {text!r}; it must be a whole number from 1 to {_LARGEST}")
    return value


@cache
def limits() -> Limits:
    """This process's limits."""
    return read_limits(os.environ)

"""Refuses values outside their bounds, naming field, value and bound."""

from __future__ import annotations

from collections.abc import Sequence

from scheduler_core.errors import ConfigError


def check_whole(name: str, value: object, low: int, high: int) -> None:
    """Raises `ConfigError` unless `value` is a whole number from `low` to `high`."""
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise ConfigError(f"{name} is {value!r}; it must be a whole number from {low} to {high}")


def check_number(name: str, value: object, low: float, high: float) -> None:
    """Raises `ConfigError` unless `value` is a number from `low` to `high`; NaN is none."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not low <= value <= high:
        raise ConfigError(f"{name} is {value!r}; it must be a number from {low:g} to {high:g}")


def check_choice(name: str, value: object, choices: Sequence[str]) -> None:
    """Raises `ConfigError` unless `value` is one of `choices`."""
    if value not in choices:
        raise ConfigError(f"{name} is {value!r}; it must be one of {', '.join(choices)}")

"""Values of a row, checked: each complaint names the column, the value and the bounds."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from scheduler_core.errors import RequestError
from scheduler_core.workload import check_text

Values = Mapping[str, object]
NANOSECONDS = 1_000_000_000
MAX_WORD = 200

_NUMBER = re.compile(r"[+-]?[0-9]{1,30}(\.[0-9]{0,30})?([eE][+-]?[0-9]{1,3})?", re.ASCII)
_TIME = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[ T]([0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.([0-9]{1,30}))?(Z|[+-][0-9]{2}:?[0-9]{2})?",
    re.ASCII,
)


class RowError(ValueError):
    """Why a row is left out; its message goes after the line number."""


def whole(values: Values, name: str, low: int, high: int, default: int | None = None) -> int:
    """A whole number; `default` stands for an empty or missing one."""
    value = values.get(name.lower())
    if _is_empty(value) and default is not None:
        return default
    number = _number(value)
    if number is None or number != int(number) or not low <= number <= high:
        raise RowError(_wrong(values, name, f"a whole number from {low:,} to {high:,}"))
    return int(number)


def nanoseconds(values: Values, name: str, unit: int, most_seconds: float) -> int:
    """A time written as a number of units of `unit` nanoseconds."""
    number = _number(values.get(name.lower()))
    most = most_seconds * NANOSECONDS / unit
    if number is None or not 0 <= number <= most:
        raise RowError(_wrong(values, name, f"a number from 0 to {most:.0e}"))
    return round(number * unit)


def clock_nanoseconds(values: Values, name: str) -> int:
    """A time of day with its date, to the nanosecond; further digits are cut. Without a zone it is taken as UTC."""
    value = values.get(name.lower())
    wrong = RowError(_wrong(values, name, "a time such as 2023-11-16 18:17:03.9799600"))
    match = _TIME.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        raise wrong
    date, time, fraction, zone = match.groups()
    try:
        moment = datetime.fromisoformat(f"{date}T{time}+00:00") - _offset(zone)
    except (ValueError, OverflowError):
        raise wrong from None
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * NANOSECONDS + int((fraction or "0")[:9].ljust(9, "0"))


def prose(values: Values, name: str) -> str:
    """Text for a model."""
    return checked_prose(values.get(name.lower()), name)


def checked_prose(value: object, name: str) -> str:
    """`value` as text for a model."""
    if not isinstance(value, str) or not value.strip():
        raise RowError(f"{name} is {shown(value)}; it must be a text of at least one word")
    try:
        check_text(value.replace("\r\n", "\n"), name)
    except RequestError as problem:
        raise RowError(str(problem)) from None
    return value.replace("\r\n", "\n")


def word(values: Values, name: str) -> str:
    """A short name, "" if missing."""
    value = values.get(name.lower())
    if _is_empty(value):
        return ""
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    if not isinstance(text, str) or len(text) > MAX_WORD or not text.isprintable():
        raise RowError(_wrong(values, name, f"a name of at most {MAX_WORD} printable characters"))
    return text.strip()


def shown(value: object) -> str:
    """A value as it may be shown: on one line, and short."""
    if value is None:
        return "missing"
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "an object"
    text = ascii(value[:60] if isinstance(value, str) else value)
    return text if len(text) <= 50 else f"{text[:47]}..."


def _wrong(values: Values, name: str, wanted: str) -> str:
    return f"{name} is {shown(values.get(name.lower()))}; it must be {wanted}"


def _is_empty(value: object) -> bool:
    return value is None or (isinstance(value, str) and not value.strip())


def _number(value: object) -> int | float | None:
    if isinstance(value, str):
        text = value.strip()
        if not _NUMBER.fullmatch(text):
            return None
        value = int(text) if text.lstrip("+-").isdigit() else float(text)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _offset(zone: str | None) -> timedelta:
    if zone in (None, "Z"):
        return timedelta(0)
    digits = zone.replace(":", "") if zone else ""
    distance = timedelta(hours=int(digits[1:3]), minutes=int(digits[3:5]))
    return -distance if digits[0] == "-" else distance

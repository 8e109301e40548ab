"""Numbers, names and lists in plain English, for every sentence that people read."""

from __future__ import annotations

from collections.abc import Sequence

MAX_NAMES = 4
#: Where a tier below the block pool keeps its blocks.
TIERS = {"disk": "on disk", "shared": "shared by all replicas", "memory": "kept below memory"}
_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")


def count(amount: int, noun: str) -> str:
    """An amount with its noun: "1 block", "6 blocks"."""
    return f"{amount:,} {noun if amount == 1 else plural(noun)}"


def every(amount: int, noun: str) -> str:
    """All of two or more: "both lanes", "all 4 lanes"."""
    return f"both {plural(noun)}" if amount == 2 else f"all {count(amount, noun)}"


def plural(noun: str) -> str:
    return noun[:-1] + "ies" if noun.endswith("ry") else noun + "s"


def are(amount: int) -> str:
    return "is" if amount == 1 else "are"


def was(amount: int) -> str:
    return "was" if amount == 1 else "were"


def names(ids: Sequence[str]) -> str:
    """Names as one subject: "R1", "R1 and R2", "R1, R2, R3, R4 and 2 others"."""
    shown = list(ids[: MAX_NAMES + 1])
    if len(ids) > len(shown):
        shown = shown[:MAX_NAMES]
        return f"{', '.join(shown)} and {count(len(ids) - MAX_NAMES, 'other')}"
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}" if shown else "nobody"


def size(num_bytes: int) -> str:
    """Bytes in the largest binary unit that keeps the number at 1 or more: "4.2 MiB"."""
    value, unit = float(num_bytes), 0
    while value >= 1024 and unit < len(_UNITS) - 1:
        value, unit = value / 1024, unit + 1
    if unit == 0:
        return count(num_bytes, "byte")
    return f"{value:.0f} {_UNITS[unit]}" if value >= 99.95 else f"{value:.1f} {_UNITS[unit]}"


def bracketed_size(num_bytes: int) -> str:
    """The size as a further item in brackets, nothing where it is unknown."""
    return f", {size(num_bytes)}" if num_bytes else ""


def number(value: float) -> str:
    """A number without needless digits: "12", "0.35", "1.84"."""
    if value == int(value):
        return f"{int(value):,}"
    return f"{value:.3g}" if abs(value) < 1 else f"{value:,.2f}".rstrip("0").rstrip(".")


def duration(seconds: float) -> str:
    """A span of time: "1 second", "3.5 seconds", "44 ms"."""
    if 0 < seconds < 1:
        return f"{number(float(f'{seconds * 1e3:.3g}'))} ms"
    return "1 second" if seconds == 1 else f"{number(seconds)} seconds"


def moment(seconds: float) -> str:
    """A point of virtual time: "second 12", "second 1.84"."""
    return f"second {number(seconds)}"


def quoted(text: str, limit: int = 24) -> str:
    """A piece of a text in quotation marks, line breaks made visible, cut at `limit` characters."""
    shown = text.strip(" ").replace("\n", "⏎").replace("\t", "⇥") or text
    return f"“{shown if len(shown) <= limit else shown[: limit - 1] + '…'}”"


def ordinal(place: int) -> str:
    """A place in a line: "1st", "2nd", "3rd", "11th"."""
    endings = {1: "st", 2: "nd", 3: "rd"}
    return f"{place}th" if place % 100 in (11, 12, 13) else f"{place}{endings.get(place % 10, 'th')}"

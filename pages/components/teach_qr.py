"""The link to an instant as a QR code, and what stands in the way of scanning it."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from urllib.parse import urlsplit

import segno

#: From the last row a phone tells apart so many modules on a side, on a code two thirds as high as the screen.
MAX_READABLE = 57

HOW_TO_BIND = "make run HOST=0.0.0.0"


@dataclass(frozen=True, slots=True)
class Code:
    """A QR code of `side` modules, its dark ones as the path of an SVG with a unit a module."""

    side: int
    path: str

    @property
    def is_readable(self) -> bool:
        """Whether it can be scanned from the back of a class room."""
        return self.side <= MAX_READABLE


def code_of(address: str) -> Code | None:
    """The code of an address, with the most error correction at its size; None if it is too long for any."""
    try:
        made = segno.make(address, error="l", boost_error=True, micro=False)
    except segno.DataOverflowError:
        return None
    rows = [list(row) for row in made.matrix_iter(border=0)]
    path = "".join(f"M{start} {y}h{length}v1h-{length}z" for y, row in enumerate(rows) for start, length in _runs(row))
    return Code(len(rows), path)


def _runs(row: list[int]) -> list[tuple[int, int]]:
    """Start and length of each run of dark modules."""
    runs: list[tuple[int, int]] = []
    for x, dark in enumerate(row):
        if not dark:
            continue
        if runs and sum(runs[-1]) == x:
            runs[-1] = (runs[-1][0], runs[-1][1] + 1)
        else:
            runs.append((x, 1))
    return runs


def is_loopback(address: str) -> bool:
    """Whether only the computer itself can reach that address."""
    try:
        host = urlsplit(address).hostname or ""
    except ValueError:
        return False
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        found = ipaddress.ip_address(host)
    except ValueError:
        return False
    return found.is_loopback or found.is_unspecified


def obstacles(address: str, code: Code | None) -> list[str]:
    """What would keep a class from scanning the code, with the remedy."""
    told = []
    if is_loopback(address):
        told.append(
            f"This page is open at {urlsplit(address).hostname}, which only this computer can reach; phones cannot. "
            f"Start the app with `{HOW_TO_BIND}` and open it at this computer's own address in the network. "
            "Everybody in that network can then open it."
        )
    remedy = "Own requests make a link long: shorten them, or send the link in another way."
    if code is None:
        told.append(f"This address has {len(address):,} characters, more than a QR code can hold. {remedy}")
    elif not code.is_readable:
        told.append(
            f"This address has {len(address):,} characters, so the code has {code.side} modules on a side; "
            f"more than {MAX_READABLE} are hard to scan from the last row. {remedy}"
        )
    return told

"""Consecutive snapshots share what did not change, so that a long run is kept in little memory."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from scheduler_core.trace import RequestSnapshot, Snapshot

T = TypeVar("T")


def share(before: Snapshot | None, now: Snapshot) -> Snapshot:
    """A snapshot equal to `now`, made of the very objects of `before` wherever they are equal."""
    if before is None:
        return now
    rows = {row.id: row for row in before.requests}
    return replace(
        now,
        requests=_same(before.requests, tuple(_same_row(rows.get(row.id), row) for row in now.requests)),
        waiting=_same(before.waiting, now.waiting),
        running=_same(before.running, now.running),
        free_blocks=_same(before.free_blocks, now.free_blocks),
        published_blocks=_same(before.published_blocks, now.published_blocks),
    )


def _same(before: T, now: T) -> T:
    return before if before == now else now


def _same_row(before: RequestSnapshot | None, now: RequestSnapshot) -> RequestSnapshot:
    # Most rows are those of waiting requests, which differ in this one number.
    if before is None or before.waited_ticks != now.waited_ticks:
        return now
    return _same(before, now)

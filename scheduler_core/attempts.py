"""Ids of attempts in a served run: the second try at R3 runs as R3#2."""

from __future__ import annotations

from scheduler_core.trace import Trace

_MARK = "#"
#: The scenario of a run that a gateway has recorded.
SERVED = "served"


def attempt_id(request_id: str, number: int) -> str:
    """The id under which attempt `number` (from 1) runs, so that no two share one."""
    return request_id if number == 1 else f"{request_id}{_MARK}{number}"


def split_attempt(request_id: str) -> tuple[str, int]:
    """The request and the number of the attempt that an id names."""
    base, mark, number = request_id.rpartition(_MARK)
    if mark and base and number.isascii() and number.isdigit() and len(number) < 7 and int(number) > 1:
        return base, int(number)
    return request_id, 1


def next_attempt(trace: Trace, request_id: str) -> str | None:
    """The id under which a request of a served run was tried again; None if it was not, as far as is recorded."""
    if trace.scenario != SERVED:
        return None
    base, number = split_attempt(request_id)
    following = attempt_id(base, number + 1)
    return following if any(spec.id == following for spec in trace.requests) else None

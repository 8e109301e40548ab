"""Requests on their way: by time, then in the order in which they were sent."""

from __future__ import annotations

from scheduler_core.arrivals import Arrivals
from tests.helpers import create_request


def sent(**times: float) -> Arrivals:
    arrivals = Arrivals()
    for name, time in times.items():
        arrivals.send(create_request(name, 3, arrival=time))
    return arrivals


def due(arrivals: Arrivals, now: float) -> list[str]:
    return [spec.id for spec in arrivals.due(now)]


def test_requests_arrive_by_time_and_at_the_same_time_as_they_were_sent() -> None:
    arrivals = sent(late=2.0, first=1.0, second=1.0)
    assert due(arrivals, 0.5) == []
    assert due(arrivals, 1.0) == ["first", "second"]
    assert arrivals.next_time == 2.0
    assert due(arrivals, 5.0) == ["late"]
    assert not arrivals
    assert arrivals.next_time is None


def test_only_what_has_not_arrived_can_be_withdrawn() -> None:
    arrivals = sent(a=0.0, b=1.0, c=2.0, d=3.0)
    assert due(arrivals, 0.0) == ["a"]
    assert not arrivals.withdraw("a")
    assert arrivals.withdraw("b")
    assert due(arrivals, 3.0) == ["c", "d"]

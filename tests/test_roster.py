"""Places and the one order: who waits, who runs, whose slice has ended, who has finished."""

from __future__ import annotations

from scheduler_core.config import EngineConfig
from scheduler_core.request import FinishReason, Request, RequestStatus
from scheduler_core.roster import Roster
from tests.helpers import create_request


def create_roster(**knobs: object) -> Roster:
    return Roster(EngineConfig(**{"aging": 0, **knobs}))  # type: ignore[arg-type]


def join(roster: Roster, name: str, priority: int = 0) -> Request:
    request = Request(create_request(name, 4, priority=priority), roster.next_number(), max_total_tokens=20)
    roster.add(request, 0)
    return request


def test_a_request_is_in_one_place_after_every_move() -> None:
    roster = create_roster()
    request = join(roster, "a")
    assert request in roster.waiting
    roster.start(request, 1)
    assert (request in roster.waiting, "a" in roster.running, request.waited_ticks) == (False, True, 1)
    roster.stop(request)
    assert (roster.running, request.status, request.num_preemptions) == ({}, RequestStatus.PREEMPTED, 1)
    roster.close(request, FinishReason.ABORT)
    assert (roster.requests, roster.finished, request.finish_reason) == ({}, [request], FinishReason.ABORT)


def test_the_same_order_holds_for_those_who_wait_and_those_who_run() -> None:
    roster = create_roster(policy="priority")
    requests = [join(roster, name, priority) for name, priority in (("a", 2), ("b", 0), ("c", 1), ("d", 2))]
    before = [r.id for r in sorted(requests, key=roster.key)]
    for request in requests[::2]:
        roster.start(request, 0)
    assert before == [r.id for r in sorted(requests, key=roster.key)] == ["b", "c", "a", "d"]


def test_the_end_of_a_slice_is_told_once_and_forgotten_on_leaving_the_lane() -> None:
    roster = create_roster(quantum=2)
    request = join(roster, "a")
    roster.start(request, 0)
    request.slice_used = 1
    assert roster.expire(request) is None
    request.slice_used = 2
    assert [roster.expire(request), roster.expire(request)] == [2, None]
    assert roster.expired == {"a": request}
    roster.stop(request)
    assert roster.expired == {}


def test_a_slice_never_ends_without_a_quantum() -> None:
    roster = create_roster(quantum=None)
    request = join(roster, "a")
    roster.start(request, 0)
    request.slice_used = 1000
    assert roster.expire(request) is None


def test_a_shorter_quantum_ends_slices_at_once() -> None:
    roster = create_roster(quantum=8)
    long, short = join(roster, "long"), join(roster, "short")
    for request, used in ((long, 5), (short, 2)):
        roster.start(request, 0)
        request.slice_used = used
    roster.reconfigure(EngineConfig(quantum=3), 0)
    assert list(roster.expired) == ["long"]


def test_after_its_slice_a_request_stands_behind_all_others() -> None:
    roster = create_roster(policy="mlfq", mlfq_levels=4)
    first, second = join(roster, "first"), join(roster, "second")
    assert roster.key(first) < roster.key(second)
    roster.start(first, 3)
    roster.stop(first)
    roster.step_down(first)
    assert roster.key(first) > roster.key(second)
    assert (first.level, first.waited_ticks) == (1, 0)

"""Ranking: who has to leave first, in the course of one pass."""

from __future__ import annotations

from scheduler_core.ranking import Ranking
from scheduler_core.request import Request
from scheduler_core.waiting_queue import Key
from tests.helpers import create_request


def request(name: str, number: int) -> Request:
    return Request(create_request(name), number, 20)


def key(request: Request) -> Key:
    return 0, request.queue_number


def names(ranking: Ranking) -> list[str]:
    return [request.id for _, request in ranking]


def test_the_worst_comes_first_and_who_has_left_is_passed_over() -> None:
    members = {r.id: r for r in (request("a", 2), request("b", 3), request("c", 1))}
    ranking = Ranking(key, members)
    before = names(ranking)
    del members["b"]
    assert (before, names(ranking), ranking.worst().id) == (["b", "a", "c"], ["a", "c"], "a")


def test_who_enters_in_the_course_of_the_pass_takes_its_place() -> None:
    members = {"a": request("a", 2)}
    ranking, late = Ranking(key, members), request("late", 1)
    before = names(ranking)
    members["late"] = late
    ranking.enter(late)
    assert (before, names(ranking)) == (["a"], ["a", "late"])


def test_keys_are_asked_for_once_and_only_if_somebody_wants_to_know() -> None:
    asked = []

    def counted(request: Request) -> Key:
        asked.append(request.id)
        return key(request)

    ranking = Ranking(counted, {"a": request("a", 1)})
    ranking.enter(request("early", 2))
    unasked = list(asked)
    assert (ranking.worst().id, ranking.worst().id, unasked, asked) == ("a", "a", [], ["a"])

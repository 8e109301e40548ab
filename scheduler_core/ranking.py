"""Who has to leave first: requests by key, the worst in front."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterator, Mapping

from scheduler_core.request import Request
from scheduler_core.waiting_queue import Key


class Ranking:
    """Requests of one place with their keys, for one pass: in its course no key changes. Sorted once, when first asked.

    `members` are those in the place now, by id; whoever has left it since is passed over.
    """

    def __init__(self, key: Callable[[Request], Key], members: Mapping[str, Request]) -> None:
        self._key = key
        self._members = members
        self._best_first: list[tuple[Key, Request]] | None = None

    def __iter__(self) -> Iterator[tuple[Key, Request]]:
        """The worst first."""
        if self._best_first is None:
            self._best_first = sorted((self._key(request), request) for request in self._members.values())
        members = self._members
        return ((key, request) for key, request in reversed(self._best_first) if request.id in members)

    def worst(self) -> Request:
        _, request = next(iter(self))
        return request

    def enter(self, request: Request) -> None:
        """Take in a new member."""
        if self._best_first is not None:
            insort(self._best_first, (self._key(request), request))

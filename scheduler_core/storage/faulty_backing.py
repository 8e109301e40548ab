"""A place for bytes that fails when it is told so, as a lost Redis or a full disk does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from scheduler_core.storage.backing import Backing, Contents, StoreFault
from scheduler_core.storage.circuit_breaker import CircuitBreaker

T = TypeVar("T")

#: Asked before every operation, with whether it writes; why it fails, None if it does not.
Fails = Callable[[bool], str | None]


class FaultyBacking:
    """Passes on to `backing` what does not fail.

    Failures of our own making open a circuit breaker of our own: while it is open nothing is asked at all.
    """

    def __init__(self, backing: Backing, fails: Fails, breaker: CircuitBreaker | None = None) -> None:
        self._backing = backing
        self._fails = fails
        self._breaker = breaker or CircuitBreaker()

    @property
    def tier(self) -> str:
        return self._backing.tier

    @property
    def is_paused(self) -> bool:
        return self._breaker.is_open or self._backing.is_paused

    def read(self, names: Sequence[str]) -> list[bytes]:
        return self._ask(lambda: self._backing.read(names))

    def touch(self, names: Sequence[str]) -> None:
        self._ask(lambda: self._backing.touch(names))

    def missing(self, names: Sequence[str]) -> set[str]:
        return self._ask(lambda: self._backing.missing(names))

    def write(self, items: Sequence[tuple[str, bytes]]) -> None:
        self._ask(lambda: self._backing.write(items), is_write=True)

    def discard(self, name: str) -> None:
        self._ask(lambda: self._backing.discard(name))

    def contents(self) -> Contents:
        return self._ask(self._backing.contents)

    def clear(self) -> None:
        self._ask(self._backing.clear)

    def close(self) -> None:
        self._backing.close()

    def _ask(self, ask: Callable[[], T], *, is_write: bool = False) -> T:
        # Only what is planned goes by the breaker here: what fails by itself is the business of `backing`.
        self._breaker.call(lambda: self._fail_if_told(is_write))
        return ask()

    def _fail_if_told(self, is_write: bool) -> None:
        if (why := self._fails(is_write)) is not None:
            raise StoreFault(why)

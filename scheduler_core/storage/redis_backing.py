"""Bytes in a Redis that replicas share: one SET a block, with a time to live, and one MGET for a part of a chain."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from scheduler_core.storage.backing import Contents, StoreError, StoreFault
from scheduler_core.storage.circuit_breaker import CircuitBreaker

T = TypeVar("T")

DEFAULT_TTL_SECONDS = 3600
#: How long one answer may take before it counts as a failure.
TIMEOUT_SECONDS = 1.0
#: Our keys, whatever model they are of.
_OURS = "kv[0-9]*:*"


class RedisBacking:
    """Nobody has to be there when it is made: a Redis that does not answer is a miss, and is tried again later."""

    tier = "shared"

    def __init__(
        self,
        url: str,
        ttl_seconds: int = DEFAULT_TTL_SECONDS,
        timeout_seconds: float = TIMEOUT_SECONDS,
        breaker: CircuitBreaker | None = None,
        client: Any = None,
    ) -> None:
        self._ttl = ttl_seconds
        self._breaker = breaker or CircuitBreaker()
        self._client = _client(url, timeout_seconds) if client is None else client

    @property
    def is_paused(self) -> bool:
        return self._breaker.is_open

    def read(self, names: Sequence[str]) -> list[bytes]:
        values = self._ask(lambda: self._client.mget(list(names)))
        found = []
        for value in values:
            if value is None:
                break
            found.append(bytes(value))
        return found

    def touch(self, names: Sequence[str]) -> None:
        """Nothing: a block lives as long as its SET said, and is then computed and set again."""

    def missing(self, names: Sequence[str]) -> set[str]:
        def ask() -> list[int]:
            with self._client.pipeline(transaction=False) as pipeline:
                for name in names:
                    pipeline.exists(name)
                answers: list[int] = pipeline.execute()
                return answers

        return {name for name, there in zip(names, self._ask(ask), strict=True) if not there}

    def write(self, items: Sequence[tuple[str, bytes]]) -> None:
        def tell() -> None:
            with self._client.pipeline(transaction=False) as pipeline:
                for name, value in items:
                    pipeline.set(name, value, ex=self._ttl)
                pipeline.execute()

        self._ask(tell)

    def discard(self, name: str) -> None:
        self._ask(lambda: self._client.delete(name))

    def contents(self) -> Contents:
        """All keys of the database, and the memory and limit of the whole server if it tells them."""
        entries, memory = self._ask(lambda: (int(self._client.dbsize()), _memory(self._client)))
        return Contents(entries, int(memory.get("used_memory", 0)), int(memory.get("maxmemory", 0)))

    def clear(self) -> None:
        """Delete our keys, and leave those of others."""

        def delete() -> None:
            for name in self._client.scan_iter(match=_OURS, count=1_000):
                self._client.delete(name)

        self._ask(delete)

    def close(self) -> None:
        self._client.close()

    def _ask(self, ask: Callable[[], T]) -> T:
        return self._breaker.call(lambda: _guarded(ask))


def _guarded(ask: Callable[[], T]) -> T:
    import redis

    try:
        return ask()
    except (redis.RedisError, OSError) as problem:
        raise StoreFault(f"{type(problem).__name__}: {problem}") from None


def _memory(client: Any) -> dict[str, Any]:
    import redis

    try:
        told: dict[str, Any] = client.info("memory")
        return told
    except redis.ResponseError:  # a server that keeps its state to itself
        return {}


def _client(url: str, timeout_seconds: float) -> Any:
    import redis
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    try:
        return redis.Redis.from_url(
            url,
            socket_timeout=timeout_seconds,
            socket_connect_timeout=timeout_seconds,
            retry=Retry(NoBackoff(), 0),
            decode_responses=False,
        )
    except ValueError:
        # The address may hold a password, so it is not repeated.
        raise StoreError("the address of the shared cache cannot be read; write redis://HOST:PORT/DATABASE") from None

"""One request's answer, token by token, as the client sees it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Self

from scheduler_core.request import FinishReason
from scheduler_core.serving.ask import Ask
from scheduler_core.serving.errors import ServingError


class Stream:
    """An async iterator of token ids; leaving it early aborts the request.

    After the last token `reason` says why it ended. A `ServingError` is raised if it was not answered.
    """

    def __init__(
        self, request_id: str, ask: Ask, arrived: float, leave: Callable[[Stream, FinishReason], None]
    ) -> None:
        self.id = request_id
        self.ask = ask
        self.arrived = arrived
        self.reason: FinishReason | None = None
        self.num_cached_tokens = 0
        self.first_token: float | None = None
        self.last_token: float | None = None
        self.admitted: float | None = None
        self.token_ids: list[int] = []
        self.is_closed = False
        self._leave = leave
        self.num_read = 0
        self._problem: ServingError | None = None
        self._changed = asyncio.Event()

    # The client's side

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> int:
        while self.num_read >= len(self.token_ids):
            if self._problem is not None:
                raise self._problem
            if self.is_closed:
                raise StopAsyncIteration
            self._changed.clear()
            await self._changed.wait()
        self.num_read += 1
        return self.token_ids[self.num_read - 1]

    def take_ready(self) -> list[int]:
        """The tokens that are there and not read yet, without waiting for any."""
        ready = self.token_ids[self.num_read :]
        self.num_read += len(ready)
        return ready

    @property
    def is_at_end(self) -> bool:
        """Whether the token read last was the last one."""
        return self.is_closed and self._problem is None and self.num_read >= len(self.token_ids)

    @property
    def is_completed(self) -> bool:
        return self.reason in (FinishReason.STOP, FinishReason.LENGTH)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.abort()

    def stop(self) -> None:
        """The text is complete, whatever the model would go on to say."""
        if not self.is_closed:
            self._leave(self, FinishReason.STOP)

    def abort(self) -> None:
        """Nobody wants the answer any more; nothing happens if it is complete."""
        if not self.is_closed:
            self._leave(self, FinishReason.ABORT)

    # The engine's side

    def put(self, token_id: int) -> None:
        self.token_ids.append(token_id)
        self._changed.set()

    def close(self, reason: FinishReason, problem: ServingError | None = None) -> None:
        self.reason = reason
        self._problem = problem
        self.is_closed = True
        self._changed.set()

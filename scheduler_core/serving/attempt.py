"""One try at a request: a number, a place in the engine, and what became of it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from scheduler_core.attempts import attempt_id, split_attempt
from scheduler_core.serving.errors import AttemptFailed, ServingError
from scheduler_core.serving.stream import Stream


def is_retry(request_id: str) -> bool:
    """Whether an id in the engine is that of a second or later attempt."""
    return split_attempt(request_id)[1] > 1


@dataclass(eq=False, slots=True)
class Attempt:
    """Try `number` (from 1) at a stream's request, which has drawn `num_tokens` so far; `done` tells how it failed."""

    stream: Stream
    number: int
    began: float
    done: asyncio.Future[None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    num_tokens: int = 0

    @property
    def id(self) -> str:
        """The request's id in the engine, where no two attempts share one."""
        return attempt_id(self.stream.id, self.number)

    def take(self, token_id: int, now: float) -> bool:
        """Deliver a token unless an earlier attempt has; False, and failed, if it said another thing there."""
        stream, index = self.stream, self.num_tokens
        self.num_tokens += 1
        if index >= len(stream.token_ids):
            stream.put(token_id)
            return True
        if stream.token_ids[index] != token_id:
            self.fail(f"attempt {self.number} drew another token than the one already sent, at place {index}")
        return False

    def fail(self, problem: ServingError | str) -> None:
        """End it; only the first reason counts."""
        if not self.done.done():
            self.done.set_exception(AttemptFailed(problem) if isinstance(problem, str) else problem)


@dataclass(frozen=True, slots=True)
class FailedAttempt:
    """For the dead letters; times in seconds since 1970."""

    number: int
    began: float
    ended: float
    reason: str

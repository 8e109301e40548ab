"""Dead letters sent again by the gateway that keeps them, a few at a time, while it serves others."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from scheduler_core.serving.dead_letters import DeadLetters
from scheduler_core.serving.errors import GaveUp
from scheduler_core.serving.replay_letters import Replayed

#: So that they do not take all places from those who wait for an answer.
AT_ONCE = 4
_REMEMBERED = 20

Answer = Callable[[str, Mapping[str, Any]], Awaitable[str]]


class LetterReplays:
    """`answer` takes where a request was sent and its body. What is answered, or kept anew, leaves the box."""

    def __init__(self, letters: DeadLetters, answer: Answer) -> None:
        self.answered = 0
        self.failed = 0
        self.last: deque[Replayed] = deque(maxlen=_REMEMBERED)
        self._letters = letters
        self._answer = answer
        self._ids: deque[str] = deque()
        self._known: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def num_left(self) -> int:
        """Those that wait or are being answered."""
        return len(self._known)

    def begin(self, ids: Iterable[str]) -> int:
        """Send these again, but for those under way already; how many. Call it on the event loop."""
        new = [each for each in dict.fromkeys(ids) if each not in self._known]
        self._ids += new
        self._known |= set(new)
        while len(self._tasks) < min(AT_ONCE, self.num_left):
            self._tasks.add(asyncio.create_task(self._work(), name="replay"))
        return len(new)

    async def _work(self) -> None:
        try:
            await self._replay_all()
        finally:
            # Before anything else runs: who begins more then must not count on a worker that looks no more.
            task = asyncio.current_task()
            assert task is not None
            self._tasks.discard(task)

    async def _replay_all(self) -> None:
        while self._ids:
            letter_id = self._ids.popleft()
            try:
                done = await self._replay(letter_id)
            except Exception as problem:
                done = Replayed(letter_id, None, f"{problem}")
            finally:
                self._known.discard(letter_id)
            self.last.append(done)
            self.answered += done.problem is None
            self.failed += done.problem is not None

    async def _replay(self, letter_id: str) -> Replayed:
        letter = await asyncio.to_thread(self._letters.letter, letter_id)
        try:
            text = await self._answer(letter.endpoint, letter.body)
        except GaveUp as problem:
            if problem.letter_id is not None:
                await asyncio.to_thread(self._letters.remove, letter_id)
            raise
        await asyncio.to_thread(self._letters.remove, letter_id)
        return Replayed(letter_id, text, None)

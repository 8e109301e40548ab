"""A first attempt at a scheduler, kept as a bad example: `experiments.py` runs it and shows what goes wrong."""

from __future__ import annotations

import asyncio
import heapq
from dataclasses import dataclass, field, replace

State = tuple[str, ...]


@dataclass(frozen=True, order=True)
class Job:
    urgency: int  # lower goes first
    name: str
    words: State = field(compare=False)
    max_tokens: int = field(default=16, compare=False)


class Device:
    """One model: it reads one piece of a prompt in a second, and its callers take turns."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, State, float]] = []  # who, which piece, finished when
        self._turn = asyncio.Lock()

    async def read(self, job: Job, piece: State, state: State) -> State:
        async with self._turn:
            await asyncio.sleep(1)
            self.calls.append((job.name, piece, _now()))
            return state + piece


class NaiveScheduler:
    def __init__(self, device: Device, piece_size: int, slice_seconds: float) -> None:
        self.device, self.piece_size, self.slice_seconds = device, piece_size, slice_seconds
        self.saved: dict[str, State] = {}
        self.working: set[asyncio.Task[None]] = set()
        self.hits: list[str] = []
        self.put_off: list[tuple[str, float]] = []
        self.finished: dict[str, float] = {}
        self.line: list[Job] = []  # a heap

    def send(self, job: Job) -> None:
        heapq.heappush(self.line, job)

    async def serve(self) -> None:
        while True:
            while self.line:
                self.working.add(asyncio.create_task(self._work(heapq.heappop(self.line))))
            await asyncio.sleep(0.25)

    async def _work(self, job: Job) -> None:
        begin = _now()
        for start in range(0, len(job.words), self.piece_size):
            front, piece = job.words[:start], job.words[start : start + self.piece_size]
            state: State = ()
            if found := self.saved.get(" ".join(front)):
                state = found
                self.hits.append(job.name)
            if _now() - begin >= self.slice_seconds:
                self.saved[" ".join(front)] = state
                self.put_off.append((job.name, _now()))
                return self.send(replace(job, urgency=job.urgency + 1))
            state = await self.device.read(job, piece, state)
            self.saved[" ".join(front + piece)] = state
        self.finished[job.name] = _now()
        return None


def _now() -> float:
    return asyncio.get_running_loop().time()

"""Work that takes minutes, done in a thread in small steps, so that all visitors take turns and anyone can cancel.

Knows no Streamlit: its thread has no visitor.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any

from scheduler_core.errors import TickscopeError

#: Seconds of work before the next job has its turn.
TURN_S = 0.05
_OVER = object()
_log = logging.getLogger(__name__)


class JobState(Enum):
    """How far a job is; one that was cancelled keeps what it had."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    CANCELLED = "cancelled"
    FAILED = "failed"


class Job:
    """Steps of work, what they have found so far, and how far they are.

    `share` is the part that is done (0 to 1), `told` says so in words; `results` fills up; `problem` is why it failed.
    """

    def __init__(self, kind: str, steps: Callable[[Job], Iterator[None]]) -> None:
        self.kind = kind
        self.state = JobState.WAITING
        self.share = 0.0
        self.told = ""
        self.results: list[Any] = []
        self.notes: list[str] = []
        self.problem = ""
        self.begun = time.monotonic()
        self.ended = threading.Event()
        self._steps: Iterator[None] | None = steps(self)
        self._cancelled = False

    @property
    def is_going(self) -> bool:
        return self.state in (JobState.WAITING, JobState.RUNNING)

    def cancel(self) -> None:
        """Ask it to end at its next step; it keeps what it has."""
        self._cancelled = True

    def should_stop(self) -> bool:
        """Whether it was asked to end."""
        return self._cancelled

    def work(self) -> None:
        """The next step, in the worker's thread."""
        if self._cancelled and self.state is JobState.WAITING:
            self._end(JobState.CANCELLED)
            return
        self.state = JobState.RUNNING
        try:
            over = self._steps is None or next(self._steps, _OVER) is _OVER
        except TickscopeError as problem:
            self._end(JobState.FAILED, str(problem))
        except Exception as problem:
            _log.error("a job of the workloads page failed", exc_info=problem)
            self._end(JobState.FAILED, f"{type(problem).__name__}: {problem}")
        else:
            if over:
                self._end(JobState.CANCELLED if self._cancelled else JobState.DONE)

    def _end(self, state: JobState, problem: str = "") -> None:
        self._steps = None
        self.problem = problem
        # The last thing to do: whoever sees it finds everything else in place.
        self.state = state
        self.ended.set()


class JobWorker:
    """One per process: up to `at_once` jobs take turns, the others wait in line; its thread ends with the last one."""

    def __init__(self, at_once: int = 4) -> None:
        self._at_once = at_once
        self._changed = threading.Condition()
        self._jobs: deque[Job] = deque()
        self._thread: threading.Thread | None = None

    def start(self, job: Job) -> Job:
        """Take a job; never waits."""
        with self._changed:
            self._jobs.append(job)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="workloads", daemon=True)
                self._thread.start()
        return job

    def place(self, job: Job) -> int:
        """How many wait before it, from 1; 0 if it has its turns."""
        with self._changed:
            waiting = [each for each in self._jobs if each.state is JobState.WAITING]
            return waiting.index(job) + 1 if job in waiting else 0

    def wait(self, timeout: float) -> bool:
        """Wait until nothing is left to do, for at most `timeout` seconds; whether it is so."""
        with self._changed:
            return self._changed.wait_for(lambda: self._thread is None, timeout)

    def _work(self) -> None:
        place = 0
        while (job := self._next(place)) is not None:
            place += 1
            end = time.monotonic() + TURN_S
            while job.state in (JobState.WAITING, JobState.RUNNING) and time.monotonic() < end:
                job.work()
                # Lets go of the interpreter, so that a page that is being drawn goes first.
                time.sleep(0)

    def _next(self, place: int) -> Job | None:
        """The job whose turn it is; None, and no thread any more, if there is nothing to do."""
        with self._changed:
            # A job that was cancelled in line needs no turn among the others to end.
            self._jobs = deque(job for job in self._jobs if job.is_going)
            if not self._jobs:
                self._thread = None
                self._changed.notify_all()
                return None
            cancelled = next((job for job in self._jobs if job.should_stop()), None)
            return cancelled or self._jobs[place % min(self._at_once, len(self._jobs))]

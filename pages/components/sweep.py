"""What every position of a slider would give: one run each, computed in a thread that takes turns between visitors.

Nothing that a page calls here waits for a run. Knows no Streamlit: its thread has no visitor.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass

from pages.components.runs import is_complete
from scheduler_core.difference import reasons
from scheduler_core.engine import Engine
from scheduler_core.errors import TickscopeError
from scheduler_core.sensitivity import Reading, read
from scheduler_core.trace import Trace

#: Ticks times requests that a sweep may cost; of larger runs only some positions are tried.
MAX_WORK = 150_000
#: The least positions to try, however large the run.
LEAST_TRIED = 5

#: Makes the engine of a position, with its requests sent; raises `TickscopeError` where it cannot run.
Make = Callable[[int], Engine]

#: So many sweeps of which some positions were not tried are kept: each holds its requests and their tokens.
_MAX_PARTIAL = 8
_TICKS_A_TURN = 20
_OVER = object()
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Hole:
    """A position without a figure, and why."""

    message: str


def spread(positions: int, work: int) -> list[int]:
    """Which positions to try where one run costs `work` (ticks times requests): all, or some from end to end."""
    tried = min(positions, max(LEAST_TRIED, MAX_WORK // max(work, 1)))
    return sorted({round(i * (positions - 1) / max(tried - 1, 1)) for i in range(tried)})


class Sweep:
    """The runs of a slider's positions. `results` and `reasons` fill up while it is worked on.

    `reasons` says for stretches (first, last) of equal runs why the setting decided nothing, where that is known.
    """

    def __init__(self, make: Make, positions: int, tried: Sequence[int], max_ticks: int) -> None:
        self.positions = positions
        self.results: dict[int, Reading | Hole] = {}
        self.reasons: dict[tuple[int, int], str] = {}
        self.problem = ""
        self._make: Make | None = make
        self._max_ticks = max_ticks
        self._todo = deque(tried)
        self._asked = set(tried)
        self._stretch: tuple[int, Trace] | None = None
        self._last = -1
        self._work: Iterator[None] | None = None

    @property
    def is_done(self) -> bool:
        return bool(self.problem) or len(self.results) >= len(self._asked)

    @property
    def is_whole(self) -> bool:
        """Whether every position was tried."""
        return len(self.results) == self.positions

    @property
    def num_asked(self) -> int:
        """How many positions are tried in all."""
        return len(self._asked)

    def ask(self, position: int) -> None:
        """Try this position too."""
        if position not in self._asked:
            self._asked.add(position)
            self._todo.append(position)

    def work(self) -> None:
        """The next tick of the next run, if there is one."""
        if self._work is None:
            if not self._todo:
                return
            self._work = self._try(self._todo.popleft())
        if next(self._work, _OVER) is _OVER:
            self._work = None
            self._let_go()

    def _let_go(self) -> None:
        """Keep figures only: runs and recordings are large."""
        if not self._todo:
            self._stretch = None
        if self.is_whole:
            self._make = None

    def _try(self, position: int) -> Iterator[None]:
        assert self._make is not None
        try:
            engine = self._make(position)
            while engine.has_work and engine.tick < self._max_ticks:
                engine.step()
                yield
            trace = engine.trace()
            result = self._read(trace)
            self._follow(position, result, trace)
        except TickscopeError as problem:
            result = Hole(str(problem))
            self._stretch = None
        # The last thing to do, as it may make the sweep done.
        self.results[position] = result

    def _read(self, trace: Trace) -> Reading | Hole:
        if is_complete(trace):
            return read(trace)
        return Hole(f"cut at {self._max_ticks:,} ticks, the limit of this site")

    def _follow(self, position: int, result: Reading | Hole, trace: Trace) -> None:
        """Go on with the stretch of equal runs that the position before belongs to, or begin one."""
        before = self.results.get(self._last)
        goes_on = isinstance(result, Reading) and isinstance(before, Reading) and before.decisions == result.decisions
        if self._stretch is not None and goes_on and position > self._last:
            first, beginning = self._stretch
            self.reasons[first, position] = "; ".join(reasons(beginning, trace))
        else:
            self._stretch = (position, trace)
        self._last = position


@dataclass(slots=True)
class _Wish:
    """What one slider of one visitor wants, and until when unless it is asked for again."""

    key: Hashable
    until: float


class SweepWorker:
    """One per process: works on what is wanted, some ticks of each sweep in turn; its thread ends when all is done.

    Each slot (a slider of a visitor) wants one sweep at a time, and for `keep_seconds` after it last asked. Sweeps
    that nobody wants any more are forgotten unless done; `max_kept` done ones are kept for all.
    """

    def __init__(self, keep_seconds: float = 20.0, max_kept: int = 200) -> None:
        self._keep_seconds = keep_seconds
        self._max_kept = max_kept
        self._changed = threading.Condition()
        self._sweeps: OrderedDict[Hashable, Sweep] = OrderedDict()
        self._wishes: OrderedDict[Hashable, _Wish] = OrderedDict()
        self._thread: threading.Thread | None = None

    def sweep(self, slot: Hashable, key: Hashable, make: Callable[[], Sweep], at: int) -> Sweep:
        """The sweep of that key, begun if it is new, with position `at` among those tried; never waits."""
        with self._changed:
            self._wishes[slot] = _Wish(key, time.monotonic() + self._keep_seconds)
            found = self._sweeps.get(key)
            if found is None:
                found = self._sweeps[key] = make()
            found.ask(at)
            self._sweeps.move_to_end(key)
            self._forget()
            if not found.is_done and self._thread is None:
                self._thread = threading.Thread(target=self._work, name="sweeps", daemon=True)
                self._thread.start()
            return found

    def wait(self, timeout: float) -> bool:
        """Wait until nothing is left to do, for at most `timeout` seconds; whether it is so."""
        with self._changed:
            return self._changed.wait_for(lambda: self._thread is None, timeout)

    @property
    def num_kept(self) -> int:
        with self._changed:
            return len(self._sweeps)

    def _work(self) -> None:
        while (sweep := self._next()) is not None:
            try:
                for _ in range(_TICKS_A_TURN):
                    sweep.work()
                    # Lets go of the interpreter, so that a page that is being drawn goes first.
                    time.sleep(0)
            except Exception as problem:
                _log.error("a sweep failed", exc_info=problem)
                sweep.problem = f"{type(problem).__name__}: {problem}"

    def _next(self) -> Sweep | None:
        """The sweep whose turn it is; None, and no thread any more, if nobody wants anything."""
        with self._changed:
            self._forget()
            for slot, wish in self._wishes.items():
                sweep = self._sweeps[wish.key]
                if not sweep.is_done:
                    self._wishes.move_to_end(slot)
                    return sweep
            self._thread = None
            self._changed.notify_all()
            return None

    def _forget(self) -> None:
        now = time.monotonic()
        for slot in [slot for slot, wish in self._wishes.items() if wish.until <= now]:
            del self._wishes[slot]
        wanted = {wish.key for wish in self._wishes.values()}
        spare = [key for key in self._sweeps if key not in wanted]
        partial = [key for key in spare if not self._sweeps[key].is_whole]
        unfinished = [key for key in spare if not self._sweeps[key].is_done]
        too_many = max(0, len(self._sweeps) - self._max_kept)
        for key in {*unfinished, *spare[:too_many], *partial[:-_MAX_PARTIAL]}:
            del self._sweeps[key]

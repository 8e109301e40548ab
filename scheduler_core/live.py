"""Live runs: one thread computes the ticks of all visitors' runs in turn, so that none waits for another's end.

Knows nothing about models or pages. A page starts a run, reads `trace()` and `version`, and gives commands; nothing
that a page calls here waits for a tick.
"""

from __future__ import annotations

import dataclasses
import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from enum import StrEnum

from scheduler_core.config import EngineConfig
from scheduler_core.engine import Engine
from scheduler_core.errors import RequestError, TickscopeError
from scheduler_core.request import RequestSpec
from scheduler_core.trace import Trace
from scheduler_core.workload import Draft, Encoder

Report = Callable[[float, str], None]
#: Makes the engine, with its first requests, and what turns words into its tokens; reports a fraction and a text.
Factory = Callable[[Report], tuple[Engine, Encoder]]
Command = Callable[[Engine, Encoder], None]

_MOST_MESSAGES = 20
_log = logging.getLogger(__name__)


class LiveState(StrEnum):
    """Where a run is. DONE has no work left and goes on when something is sent; the last two are final."""

    QUEUED = "queued"
    LOADING = "loading"
    RUNNING = "running"
    DONE = "done"
    STOPPED = "stopped"
    FAILED = "failed"


class LiveRun:
    """One visitor's run. All of it may be called from any thread; `version` grows whenever something changed."""

    def __init__(self, worker: ModelWorker, make: Factory, max_ticks: int) -> None:
        self.max_ticks = max_ticks
        self.version = 0
        self.state = LiveState.QUEUED
        self.progress = 0.0
        self.progress_text = ""
        self.error = ""
        self.messages: tuple[str, ...] = ()
        self._worker = worker
        self._make = make
        self._made: tuple[Engine, Encoder] | None = None
        self._trace: Trace | None = None
        self._commands: deque[tuple[Command, Future[None]]] = deque()
        self._end_asked = False
        self._forgotten = False
        self._kept_until = 0.0

    def trace(self) -> Trace | None:
        """The run so far; None until it is loaded."""
        return self._trace

    @property
    def queue_position(self) -> int:
        """1 for the next to start; 0 when not queued."""
        return self._worker.queue_position(self)

    @property
    def is_final(self) -> bool:
        return self.state in (LiveState.STOPPED, LiveState.FAILED)

    @property
    def is_computing(self) -> bool:
        """Whether the trace may still grow without a further command."""
        return self.state in (LiveState.QUEUED, LiveState.LOADING, LiveState.RUNNING)

    def send(self, request: RequestSpec | Draft) -> Future[None]:
        """Send a request that arrives now; a refusal is in the future and in `messages`."""

        def command(engine: Engine, encoder: Encoder) -> None:
            spec = request.spec(encoder) if isinstance(request, Draft) else request
            engine.add_request(dataclasses.replace(spec, arrival_time=max(spec.arrival_time, engine.now)))

        return self._worker.command(self, command)

    def abort(self, request_id: str) -> Future[None]:
        return self._worker.command(self, lambda engine, _: engine.abort(request_id))

    def reconfigure(self, config: EngineConfig) -> Future[None]:
        """Change settings from the next tick on."""
        return self._worker.command(self, lambda engine, _: engine.reconfigure(config))

    def stop(self) -> None:
        """End after the tick in progress; what was computed stays."""
        self._worker.end(self, forget=False)

    def cancel(self) -> None:
        """End and forget everything: the owner is gone."""
        self._worker.end(self, forget=True)

    def wait(self, until: Callable[[LiveRun], bool], timeout: float) -> bool:
        """Wait until `until(self)` holds, for at most `timeout` seconds; whether it does."""
        return self._worker.wait_for(lambda: until(self), timeout)


class ModelWorker:
    """One per process. `max_runs` compute at once and the rest queue; `max_kept` runs without work stay open.

    A run without work is closed after `keep_seconds`, which frees its KV memory; its trace stays.
    """

    def __init__(self, max_runs: int = 2, keep_seconds: float = 600.0, max_kept: int = 8) -> None:
        self.max_runs = max_runs
        self.keep_seconds = keep_seconds
        self.max_kept = max_kept
        self._changed = threading.Condition()
        self._queue: deque[LiveRun] = deque()
        self._active: deque[LiveRun] = deque()
        self._kept: deque[LiveRun] = deque()
        self._thread: threading.Thread | None = None
        self._closed = False

    # --- for pages, by way of LiveRun ----------------------------------------------------------------------------

    def start(self, make: Factory, max_ticks: int = 5_000) -> LiveRun:
        """A new run; `make` is called in a thread of its own as soon as there is room, until then it is queued."""
        with self._changed:
            if self._closed:
                raise TickscopeError("the worker is closed; restart the app")
            run = LiveRun(self, make, max_ticks)
            self._queue.append(run)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="model-worker", daemon=True)
                self._thread.start()
            # Now, and not after the tick in progress: it loads meanwhile.
            self._admit()
            self._changed.notify_all()
            return run

    def command(self, run: LiveRun, command: Command) -> Future[None]:
        """Have `command` carried out between two ticks; a run without work comes back to life for it."""
        future: Future[None] = Future()
        future.set_running_or_notify_cancel()  # it cannot be taken back
        with self._changed:
            if run.is_final or (run.state is LiveState.DONE and run._made is None):
                self._refuse(run, future, RequestError("this run has ended; start it again to send more"))
                return future
            run._commands.append((command, future))
            if run.state is LiveState.DONE:
                self._kept.remove(run)
                self._queue.append(run)
                self._set_state(run, LiveState.QUEUED)
            self._changed.notify_all()
        return future

    def end(self, run: LiveRun, forget: bool) -> None:
        with self._changed:
            run._end_asked = True
            run._forgotten |= forget
            if run in self._active:  # in a tick or in loading: it keeps its place until that is over
                run._trace = None if forget else run._trace
                if forget or run.state is LiveState.LOADING:
                    self._set_state(run, LiveState.STOPPED)
            else:
                if run in self._queue:
                    self._queue.remove(run)
                    self._queue_moved()
                self._finish(run, run.state if run.is_final else LiveState.STOPPED)
            self._changed.notify_all()

    def queue_position(self, run: LiveRun) -> int:
        with self._changed:
            return self._queue.index(run) + 1 if run in self._queue else 0

    def wait_for(self, predicate: Callable[[], bool], timeout: float) -> bool:
        with self._changed:
            return self._changed.wait_for(predicate, timeout)

    @property
    def num_active(self) -> int:
        """Runs that take a place: those that load or compute."""
        with self._changed:
            return len(self._active)

    def load(self) -> tuple[int, int, int]:
        """Runs that take a place, that wait for one, and that have no work but stay open."""
        with self._changed:
            return len(self._active), len(self._queue), len(self._kept)

    def close(self, timeout: float = 10.0) -> None:
        """End all runs and the thread."""
        with self._changed:
            self._closed = True
            for run in (*self._queue, *self._active, *self._kept):
                self.end(run, forget=False)
            self._changed.notify_all()
        if self._thread:
            self._thread.join(timeout)

    # --- the thread ----------------------------------------------------------------------------------------------

    def _work(self) -> None:
        while run := self._next():
            self._turn(run)

    def _next(self) -> LiveRun | None:
        """The run whose turn it is; waits for one, and is None when the worker is closed."""
        with self._changed:
            while True:
                self._close_kept()
                self._admit()
                for run in self._active:
                    if run._made is not None:
                        return run
                if self._closed and not self._active:
                    return None
                self._changed.wait(self._seconds_to_next_close())

    def _admit(self) -> None:
        while self._queue and len(self._active) < self.max_runs:
            run = self._queue.popleft()
            self._active.append(run)
            if run._made is not None:
                self._set_state(run, LiveState.RUNNING)
            else:
                self._set_state(run, LiveState.LOADING)
                # Apart, as it may take long: a conversion must not hold up runs that compute.
                threading.Thread(target=self._load, args=(run,), name="model-loader", daemon=True).start()
            self._queue_moved()

    def _queue_moved(self) -> None:
        for run in self._queue:
            self._touch(run)

    def _load(self, run: LiveRun) -> None:
        def report(fraction: float, text: str) -> None:
            with self._changed:
                run.progress, run.progress_text = fraction, text
                self._touch(run)

        try:
            made = run._make(report)
            trace = made[0].trace()
        except Exception as problem:
            self._fail(run, problem)
            return
        with self._changed:
            if run._end_asked:
                self._finish(run, LiveState.STOPPED)
                return
            run._made, run._trace = made, trace
            self._set_state(run, LiveState.RUNNING)

    def _turn(self, run: LiveRun) -> None:
        """Carry out the commands that came in, then one tick."""
        made = run._made
        assert made is not None
        try:
            self._obey(run, *made)
            stepped = self._step(run, made[0])
            trace = made[0].trace()
        except Exception as problem:
            self._fail(run, problem)
            return
        with self._changed:
            if not run._forgotten:
                run._trace = trace
            self._touch(run)
            if run._end_asked:
                self._finish(run, LiveState.STOPPED)
            elif not stepped and not run._commands:
                self._rest(run, made[0])
            else:  # behind those that were let in while it had its turn
                self._active.remove(run)
                self._active.append(run)

    def _obey(self, run: LiveRun, engine: Engine, encoder: Encoder) -> None:
        while not run._end_asked:
            with self._changed:
                if not run._commands:
                    return
                command, future = run._commands.popleft()
            try:
                command(engine, encoder)
            except TickscopeError as problem:
                with self._changed:
                    self._refuse(run, future, problem)
            except Exception as problem:
                future.set_exception(problem)
                raise
            else:
                future.set_result(None)

    def _step(self, run: LiveRun, engine: Engine) -> bool:
        """Make a tick if there is something to do; whether it was made."""
        if run._end_asked or not engine.has_work or engine.tick >= run.max_ticks:
            return False
        engine.step()
        return True

    # --- endings, all with the lock held -------------------------------------------------------------------------

    def _rest(self, run: LiveRun, engine: Engine) -> None:
        """Nothing left to do: make room, but stay open for a while; at the limit of ticks it is over."""
        if engine.tick >= run.max_ticks:
            self._tell(run, f"the run was ended at its limit of {run.max_ticks} ticks")
            self._finish(run, LiveState.STOPPED)
            return
        self._active.remove(run)
        run._kept_until = time.monotonic() + self.keep_seconds
        self._kept.append(run)
        self._set_state(run, LiveState.DONE)

    def _close_kept(self) -> None:
        """Let go of runs that were kept long enough, or are too many."""
        while self._kept and (len(self._kept) > self.max_kept or self._kept[0]._kept_until <= time.monotonic()):
            run = self._kept.popleft()
            run._made = None
            self._touch(run)

    def _seconds_to_next_close(self) -> float | None:
        return max(0.0, self._kept[0]._kept_until - time.monotonic()) if self._kept else None

    def _fail(self, run: LiveRun, problem: Exception) -> None:
        if not isinstance(problem, TickscopeError):
            _log.error("a live run failed", exc_info=problem)
        with self._changed:
            words = str(problem) if isinstance(problem, TickscopeError) else f"{type(problem).__name__}: {problem}"
            run.error = "" if run.is_final else words
            self._finish(run, run.state if run.is_final else LiveState.FAILED)

    def _finish(self, run: LiveRun, state: LiveState) -> None:
        """The end of a run: free its memory and its place, and answer the commands that it will not carry out."""
        for runs in (self._active, self._kept):
            if run in runs:
                runs.remove(run)
        run._made = None
        if run._forgotten:
            run._trace = None
        while run._commands:
            self._refuse(run, run._commands.popleft()[1], RequestError("the run ended before this could be done"))
        self._set_state(run, state)

    def _refuse(self, run: LiveRun, future: Future[None], problem: TickscopeError) -> None:
        self._tell(run, str(problem))
        future.set_exception(problem)

    def _tell(self, run: LiveRun, message: str) -> None:
        run.messages = (*run.messages, message)[-_MOST_MESSAGES:]
        self._touch(run)

    def _set_state(self, run: LiveRun, state: LiveState) -> None:
        run.state = state
        self._touch(run)

    def _touch(self, run: LiveRun) -> None:
        run.version += 1
        self._changed.notify_all()

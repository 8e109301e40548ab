"""The thread in which the engine steps, so that clients are served while the model computes."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from scheduler_core.request import RequestSpec
from scheduler_core.serving.served_engine import ServedEngine
from scheduler_core.trace import TickRecord, Trace

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Tick:
    """A tick that was made; `seconds` as measured, `ended` on the clock `time.monotonic`."""

    record: TickRecord
    seconds: float
    ended: float
    free_blocks: int


Command = Callable[[ServedEngine], None]


class EngineWorker:
    """Owns the engine and is the only one to touch it; `told` and `crashed` are called from its thread.

    An engine that raises is replaced by a new one: its requests are lost, and whoever sent them is told. So is a thread
    that dies. Where no new engine can be made, as on a device that is lost, the worker is dead.
    """

    def __init__(
        self,
        make: Callable[[bool], ServedEngine],
        told: Callable[[Tick], None],
        crashed: Callable[[BaseException], None],
        recorded: Callable[[Trace], None],
    ) -> None:
        self._make = make
        self._told = told
        self._crashed = crashed
        self._recorded = recorded
        self._commands: queue.SimpleQueue[Command | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()
        self.engine = make(True)
        self.tick_began: float | None = None

    def start(self) -> None:
        # A thread that dies at once waits until it is known, and leaves another in its place then.
        with self._starting:
            self._thread = threading.Thread(target=self._work, name="engine", daemon=True)
            self._thread.start()

    def stop(self, timeout: float) -> bool:
        """End after the tick in progress; False if that takes longer than `timeout` seconds."""
        self._commands.put(None)
        ends_at = time.monotonic() + timeout
        while (thread := self._known_thread()) is not None:
            thread.join(max(0.0, ends_at - time.monotonic()))
            if thread.is_alive() or thread is self._known_thread():
                return not thread.is_alive()
        return True

    def _known_thread(self) -> threading.Thread | None:
        with self._starting:
            return self._thread

    @property
    def is_dead(self) -> bool:
        """Whether it was started and computes no more; also after a stop."""
        thread = self._known_thread()
        return thread is not None and not thread.is_alive()

    @property
    def has_work(self) -> bool:
        return not self._commands.empty() or self.tick_began is not None or self.engine.has_work

    def add(self, request_id: str, make_spec: Callable[[float], RequestSpec]) -> None:
        """Send a request that arrives in the next tick; `make_spec` takes its arrival time."""
        self._commands.put(lambda engine: engine.add_request(make_spec(engine.now)))

    def abort(self, request_id: str) -> None:
        """End a request before the next tick, wherever it is; nothing happens if it has ended."""
        self._commands.put(lambda engine: engine.abort_if_alive(request_id))

    def _work(self) -> None:
        try:
            while self._turn():
                pass
        except BaseException as problem:
            self._go_on_elsewhere(problem)
        else:
            self._hand_over()

    def _go_on_elsewhere(self, problem: BaseException) -> None:
        """In a new thread with a new engine."""
        try:
            self._replace_engine(problem)
        except Exception as worse:
            _log.critical("the engine cannot be started anew", exc_info=worse)
        else:
            self.start()

    def _turn(self) -> bool:
        try:
            if not self._obey():
                return False
            self._step()
        except Exception as problem:
            self._replace_engine(problem)
        return True

    def _replace_engine(self, problem: BaseException) -> None:
        self.tick_began = None
        broken, self.engine = self.engine, self._make(False)
        if (trace := broken.break_off(problem)) is not None:
            self._recorded(trace)
        self._crashed(problem)

    def _obey(self) -> bool:
        """Carry out what came in; waits while there is nothing to compute. False to end."""
        while True:
            idle = not self.engine.has_work
            try:
                command = self._commands.get(block=idle)
            except queue.Empty:
                return True
            if command is None:
                return False
            command(self.engine)

    def _step(self) -> None:
        began = time.monotonic()
        self.tick_began = began
        was_recording = self.engine.is_recording
        record = self.engine.step()
        ended = time.monotonic()
        self.tick_began = None
        self._told(Tick(record, ended - began, ended, self.engine.num_free_blocks))
        if was_recording and not self.engine.is_recording:
            self._hand_over()

    def _hand_over(self) -> None:
        if (trace := self.engine.take_recording()) is not None:
            self._recorded(trace)

"""An LMDB folder behind processes of its own: pages that are damaged while it is open can take down only those.

LMDB trusts the pages that it maps: one that is damaged under it, by a bad disk or by another process, may make it read
where nothing is, and the system ends the process. So one process reads and one writes; if one dies or does not answer,
that is a miss that is counted, the folder is set aside if it was to blame, and new processes begin.
"""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from scheduler_core.storage.backing import Contents, StoreError, StoreFault
from scheduler_core.storage.frames import read_frame, write_frame
from scheduler_core.storage.lmdb_backing import set_aside
from scheduler_core.storage.recent_use import RecentUse

#: A process that takes longer to begin, to read or to write is ended. A run waits for who reads, nobody for who writes.
START_SECONDS = WRITE_SECONDS = 60.0
READ_SECONDS = 10.0
#: After so many deaths within so many seconds the store is closed, until the first of them is that long ago.
MAX_DEATHS = 8
DEATHS_SECONDS = 3_600.0
_PIPE_BYTES = 1 << 20
_END_SECONDS = 10.0
_ROOT = Path(__file__).resolve().parents[2]
#: What a process dies of that went where it must not.
_OF_DAMAGE = frozenset({signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGILL, signal.SIGFPE})


class GuardedLmdb:
    """The `LmdbBacking` of a folder, at arm's length."""

    tier = "disk"

    def __init__(self, folder: str | Path, limit_bytes: int) -> None:
        self._folder = Path(folder)
        self._limit = limit_bytes
        #: For whoever begins processes, or sets the folder aside.
        self._mending = threading.RLock()
        self._reader, self._writer = _Worker(READ_SECONDS), _Worker(WRITE_SECONDS)
        self._recent = RecentUse()
        #: When the last ones died, on the clock `time.monotonic`.
        self._deaths: deque[float] = deque(maxlen=MAX_DEATHS)
        self._evictions = 0
        self._evictions_before = 0
        self._is_closed = False
        self._pid = os.getpid()
        #: Whether what was there had to be set aside.
        self.was_damaged = False
        self._open()

    @property
    def is_paused(self) -> bool:
        """A disk is always asked again."""
        return False

    def read(self, names: Sequence[str]) -> list[bytes]:
        return self._ask(self._reader, {"ask": "read", "names": [*names]})[1]

    def touch(self, names: Sequence[str]) -> None:
        """Told with the next change."""
        self._recent.note(names)

    def missing(self, names: Sequence[str]) -> set[str]:
        return set(self._ask(self._reader, {"ask": "missing", "names": [*names]})[0]["names"])

    def write(self, items: Sequence[tuple[str, bytes]]) -> None:
        question = {"ask": "write", "names": [name for name, _ in items]}
        self._change(question, [value for _, value in items])

    def discard(self, name: str) -> None:
        self._change({"ask": "discard", "names": [name]})

    def contents(self) -> Contents:
        told = self._ask(self._reader, {"ask": "contents"})[0]
        return Contents(told["entries"], told["num_bytes"], told["limit_bytes"], self._evictions)

    def clear(self) -> None:
        self._change({"ask": "clear"})

    def close(self) -> None:
        if self._recent and not self._is_closed and self._pid == os.getpid():
            with suppress(StoreFault):  # what was used last is no loss
                self._change({"ask": "touch"})
        self._is_closed = True
        for worker in (self._writer, self._reader):
            with worker.lock:
                worker.end()

    # The processes

    def _open(self) -> None:
        for _ in range(2):
            with suppress(StoreFault):  # a page may be damaged between the look and the opening: then it is set aside
                self._begin(self._reader)
                return
        raise StoreError(f"the store {self._folder} cannot be opened; delete it, or name another folder")

    def _change(self, question: dict[str, Any], blobs: Sequence[bytes] = ()) -> None:
        # As one chain, whose first was used last.
        touched = self._recent.take()[::-1]
        told = self._ask(self._writer, {**question, "touched": touched}, blobs)[0]
        self._evictions = self._evictions_before + told["evictions"]

    def _ask(
        self, worker: _Worker, question: dict[str, Any], blobs: Sequence[bytes] = ()
    ) -> tuple[dict[str, Any], list[bytes]]:
        if self._pid != os.getpid():
            raise StoreFault("this process was forked from the one that opened the store, which alone may use it")
        with worker.lock:
            if not worker.is_running:
                try:
                    self._begin(worker)
                except StoreError as problem:
                    raise StoreFault(str(problem)) from None
            try:
                answer, values = worker.ask(question, blobs)
            except _Died as death:
                raise StoreFault(self._mend(worker, death)) from None
        if answer["begun_anew"] > worker.begun_anew:
            worker.begun_anew = answer["begun_anew"]
            self.was_damaged = True
            with self._mending:
                self._other(worker).kill()  # it has the file that was set aside
        if "fault" in answer:
            raise StoreFault(answer["fault"])
        return answer, values

    def _other(self, worker: _Worker) -> _Worker:
        return self._writer if worker is self._reader else self._reader

    def _begin(self, worker: _Worker) -> None:
        """Start a process; raises `StoreError` if it cannot open the folder, `StoreFault` if it died."""
        with self._mending:
            if self._is_closed:
                raise StoreFault("the store is closed")
            if len(self._deaths) == MAX_DEATHS and time.monotonic() - self._deaths[0] < DEATHS_SECONDS:
                raise StoreFault(f"the store is closed, as its processes died {MAX_DEATHS} times within an hour")
            # Who writes comes to a folder that was looked through when who reads began.
            trust = worker is self._writer and self._reader.is_running
            try:
                told = worker.start([str(self._folder), str(self._limit), "trust" if trust else "check"])
            except _Died as death:
                raise StoreFault(self._mend(worker, death)) from None
            if "refused" in told:
                worker.end()
                self._deaths.append(time.monotonic())
                raise StoreError(told["refused"])
            self.was_damaged |= told["was_damaged"]
            if worker is self._writer:
                self._evictions_before = self._evictions

    def _mend(self, worker: _Worker, death: _Died) -> str:
        """Set the folder aside if the death was of damage, so that the next ones begin anew; says what was done."""
        with self._mending:
            worker.end()
            if death.is_ours:
                return "the store was begun anew meanwhile"
            if self._is_closed:
                return str(death)
            self._deaths.append(time.monotonic())
            if death.signal not in _OF_DAMAGE:
                return f"{death}; another one begins"
            self._other(worker).kill()
            with suppress(StoreError):
                set_aside(self._folder)
                self.was_damaged = True
            return f"{death}, as the folder is damaged; the store was begun anew"


class _Died(Exception):
    """A process that was asked is gone."""

    def __init__(self, code: int, is_ours: bool, is_late: bool) -> None:
        self.is_ours = is_ours
        self.signal = signal.Signals(-code) if code < 0 and not is_late else None
        how = "did not answer" if is_late else f"died of {self.signal.name}" if self.signal else f"ended with {code}"
        super().__init__(f"the process at the disk {how}")


class _Worker:
    """One process, asked one thing at a time by whoever holds `lock`."""

    def __init__(self, patience: float) -> None:
        self.lock = threading.Lock()
        self.patience = patience
        self.process: subprocess.Popen[bytes] | None = None
        self._is_killed = False
        #: How often this process has begun the store anew.
        self.begun_anew = 0

    @property
    def is_running(self) -> bool:
        return self.process is not None and not self._is_killed

    def start(self, arguments: Sequence[str]) -> dict[str, Any]:
        """Begin, and return its first words; raises `_Died`."""
        self.end()
        self._is_killed, self.begun_anew = False, 0
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "scheduler_core.storage.lmdb_worker", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (str(_ROOT), os.environ.get("PYTHONPATH"))))},
        )
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            with suppress(OSError):  # the system may allow no more: then it is slower
                fcntl.fcntl(stream, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        self._finalizer = weakref.finalize(self, _end, self.process)
        return self._talk(self.process, None, (), START_SECONDS)[0]

    def ask(self, question: dict[str, Any], blobs: Sequence[bytes]) -> tuple[dict[str, Any], list[bytes]]:
        """Raises `_Died`."""
        assert self.process is not None, "who asks has begun it"
        return self._talk(self.process, question, blobs, self.patience)

    def _talk(
        self,
        process: subprocess.Popen[bytes],
        question: dict[str, Any] | None,
        blobs: Sequence[bytes],
        seconds: float,
    ) -> tuple[dict[str, Any], list[bytes]]:
        assert process.stdin is not None
        assert process.stdout is not None
        late = threading.Event()

        def give_up() -> None:
            late.set()
            process.kill()

        watch = threading.Timer(seconds, give_up)
        watch.daemon = True
        watch.start()
        try:
            if question is not None:
                write_frame(process.stdin, question, blobs)
            return read_frame(process.stdout)
        except (EOFError, OSError, ValueError):
            process.wait()
            raise _Died(process.returncode, self._is_killed, late.is_set()) from None
        finally:
            watch.cancel()

    def kill(self) -> None:
        """End it at once, whoever asks it something; they hear that it died by us."""
        if self.process is not None:
            self._is_killed = True
            self.process.kill()
            self.process.wait()

    def end(self) -> None:
        """Let it finish what it does, and go."""
        if self.process is not None:
            self._finalizer()
            self.process = None


def _end(process: subprocess.Popen[bytes]) -> None:
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            with suppress(OSError):
                stream.close()
    try:
        process.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()

"""Bytes on this disk in LMDB: every write is one synced transaction, so a process that dies leaves whole values only.

Beside the values stand, in the same transactions, when each was used last and how much there is in all.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from scheduler_core.storage.backing import Contents, StoreError, StoreFault
from scheduler_core.storage.check_lmdb import SOUND, UNKNOWN
from scheduler_core.storage.recent_use import RecentUse

T = TypeVar("T")

#: Room in the map beyond the limit: for pages that a transaction copies, and for the indexes.
_SPARE_BYTES = 16 << 20
_PAGE = 4096
_TOTAL = b"bytes"
_CLOCK = b"clock"
#: Evictions on a full map before a write is given up.
_MAX_TRIES = 8
#: A folder that takes longer to look through is taken as it is.
_CHECK_SECONDS = 30


class LmdbBacking:
    """One folder, of which a process has one environment, never shared with a child that it forks.

    `check` looks through what is there before it is opened. A page that is damaged later may end the process: who has
    more to lose goes through `GuardedLmdb`.
    """

    tier = "disk"

    def __init__(self, folder: str | Path, limit_bytes: int, *, check: bool = True) -> None:
        self._folder = Path(folder)
        self._limit = limit_bytes
        #: For whoever writes, opens or closes; readers go beside a writer.
        self._lock = threading.RLock()
        #: Whether what was there had to be set aside.
        self.was_damaged = False
        self._env: Any = None
        self._pid = 0
        self._evictions = 0
        self._recent = RecentUse()
        #: How often the store was begun anew since it was opened.
        self.num_begun_anew = 0
        if check and (self._folder / "data.mdb").is_file() and not _is_sound(self._folder):
            set_aside(self._folder)
            self.was_damaged = True
        self._open()

    # What is asked

    @property
    def is_paused(self) -> bool:
        """A disk is always asked again."""
        return False

    def read(self, names: Sequence[str]) -> list[bytes]:
        def look(txn: Any) -> list[bytes]:
            found = []
            for name in names:
                value = txn.get(name.encode(), db=self._values)
                if value is None:
                    break
                found.append(bytes(value))
            return found

        return self._reading(look)

    def touch(self, names: Sequence[str]) -> None:
        """Written with the next put."""
        self._recent.note(names)

    def missing(self, names: Sequence[str]) -> set[str]:
        return self._reading(lambda txn: {n for n in names if txn.get(n.encode(), db=self._used) is None})

    def write(self, items: Sequence[tuple[str, bytes]]) -> None:
        """Later blocks first, so that the least recently used is never a parent of what stays."""
        size = sum(_size(value) for _, value in items)
        if size > self._limit:
            raise StoreFault(f"{size} bytes are more than the whole limit of {self._limit}")
        for attempt in range(_MAX_TRIES):
            try:
                self._make_room(size << attempt if attempt else size)
                self._writing(lambda txn: self._put(txn, items))
                return
            except _MapFull:
                continue
        raise StoreFault("the map is full, and evicting did not help")

    def discard(self, name: str) -> None:
        self._writing(lambda txn: self._delete(txn, name.encode()))

    def contents(self) -> Contents:
        entries, used = self._reading(lambda txn: (txn.stat(self._values)["entries"], self._total(txn)))
        return Contents(entries, used, self._limit, self._evictions)

    @property
    def evictions(self) -> int:
        return self._evictions

    def clear(self) -> None:
        def drop(txn: Any) -> None:
            for db in (self._values, self._used, self._order, self._facts):
                txn.drop(db, delete=False)

        self._writing(drop)

    def close(self) -> None:
        with self._lock:
            if self._env is not None and self._pid == os.getpid():
                if self._recent:
                    with suppress(StoreFault):  # what was used last is no loss
                        self._writing(self._touch)
                self._env.close()
            self._env = None

    # Opening

    def _begin_anew(self, damaged: Any) -> None:
        """Go on with an empty store, unless another thread has done so; stay closed if even that fails."""
        with self._lock:
            if self._env is not damaged:
                return
            self._env.close()
            self._env = None
            with suppress(StoreError):
                set_aside(self._folder)
                self.was_damaged = True
                self.num_begun_anew += 1
                self._open()

    def _open(self) -> None:
        import lmdb

        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._env = lmdb.open(
                str(self._folder), map_size=self._limit + self._limit // 4 + _SPARE_BYTES, max_dbs=4, meminit=False
            )
            self._env.reader_check()  # those of processes that were killed
            self._values, self._used, self._order, self._facts = (
                self._env.open_db(name) for name in (b"values", b"used", b"order", b"facts")
            )
        except (lmdb.Error, OSError) as problem:
            raise StoreError(
                f"the store {self._folder} cannot be opened ({problem}); name a folder that can be written to and "
                "that no other part of this process has open, or delete a damaged one"
            ) from None
        self._pid = os.getpid()

    # Transactions

    @contextmanager
    def _transaction(self, write: bool) -> Iterator[Any]:
        import lmdb

        with self._lock if write else nullcontext():
            env = self._env
            if env is None:
                raise StoreFault("the store is closed")
            if self._pid != os.getpid():
                raise StoreFault("this process was forked from the one that opened the store, which alone may use it")
            try:
                with env.begin(write=write, buffers=not write) as txn:
                    yield txn
            except lmdb.MapFullError:
                raise _MapFull from None
            except (lmdb.Error, OSError) as problem:
                told = f"{type(problem).__name__}: {problem}"
                if isinstance(problem, lmdb.Error) and _is_of_damage(problem):
                    self._begin_anew(env)
                    told += "; the store was begun anew"
                raise StoreFault(told) from None

    def _reading(self, ask: Callable[[Any], T]) -> T:
        with self._transaction(write=False) as txn:
            return ask(txn)

    def _writing(self, change: Callable[[Any], T]) -> T:
        with self._transaction(write=True) as txn:
            return change(txn)

    # The books, in the same transaction as the values

    def _put(self, txn: Any, items: Sequence[tuple[str, bytes]]) -> None:
        self._touch(txn)
        for name, value in reversed(items):
            key = name.encode()
            self._delete(txn, key)
            txn.put(key, value, db=self._values)
            self._stamp(txn, key, _size(value))
            self._add(txn, _size(value))

    def _touch(self, txn: Any) -> None:
        for name in self._recent.take():
            if used := txn.get(name.encode(), db=self._used):
                txn.delete(bytes(used[:8]), db=self._order)
                self._stamp(txn, name.encode(), int.from_bytes(used[8:], "big"))

    def _make_room(self, size: int) -> None:
        while (over := self._reading(self._total) + size - self._limit) > 0:
            if not self._writing(partial(self._evict, num_bytes=over)):
                return

    def _evict(self, txn: Any, num_bytes: int) -> int:
        """Delete the least recently used until `num_bytes` came free; returns how many."""
        self._touch(txn)
        victims, freed = [], 0
        with txn.cursor(db=self._order) as cursor:
            for _, name in cursor:
                victims.append(bytes(name))
                used = txn.get(victims[-1], db=self._used)
                freed += int.from_bytes(used[8:], "big") if used else 0
                if freed >= num_bytes:
                    break
        for victim in victims:
            self._delete(txn, victim)
        self._evictions += len(victims)
        return len(victims)

    def _delete(self, txn: Any, key: bytes) -> None:
        used = txn.get(key, db=self._used)
        if used is None:
            return
        txn.delete(bytes(used[:8]), db=self._order)
        txn.delete(key, db=self._used)
        txn.delete(key, db=self._values)
        self._add(txn, -int.from_bytes(used[8:], "big"))

    def _stamp(self, txn: Any, key: bytes, size: int) -> None:
        now = int.from_bytes(txn.get(_CLOCK, b"", db=self._facts), "big") + 1
        stamp = now.to_bytes(8, "big")
        txn.put(_CLOCK, stamp, db=self._facts)
        txn.put(stamp, key, db=self._order)
        txn.put(key, stamp + size.to_bytes(8, "big"), db=self._used)

    def _add(self, txn: Any, num_bytes: int) -> None:
        txn.put(_TOTAL, max(0, self._total(txn) + num_bytes).to_bytes(8, "big"), db=self._facts)

    def _total(self, txn: Any) -> int:
        return int.from_bytes(txn.get(_TOTAL, b"", db=self._facts), "big")


def _is_sound(folder: Path) -> bool:
    """Found out in a process of its own: a damaged page may take the process that reads it down."""
    script = Path(__file__).with_name("check_lmdb.py")
    try:
        done = subprocess.run(
            [sys.executable, "-I", str(script), str(folder)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_CHECK_SECONDS,
            check=False,
        )
    except (subprocess.TimeoutExpired, OSError):
        return True
    return done.returncode in (SOUND, UNKNOWN)


def _is_of_damage(problem: Exception) -> bool:
    """Whether LMDB met what it would never write: the system's own troubles have no class, or one of these."""
    import lmdb

    of_the_system = (lmdb.DiskError, lmdb.LockError, lmdb.MemoryError, lmdb.ReadersFullError, lmdb.TlsFullError)
    of_others = (lmdb.MapResizedError, lmdb.BadRslotError)
    return type(problem) is not lmdb.Error and not isinstance(problem, of_the_system + of_others)


def set_aside(folder: Path) -> None:
    """Keep a folder in which LMDB cannot find its way under another name; raises `StoreError`."""
    data = folder / "data.mdb"
    try:
        data.replace(data.with_name("data.mdb.damaged"))
        data.with_name("lock.mdb").unlink(missing_ok=True)
    except OSError as problem:
        raise StoreError(
            f"the store {folder} is damaged and cannot be set aside ({problem}); delete it, or name another folder"
        ) from None


class _MapFull(StoreFault):
    """The map has no page left; evicting may help."""


def _size(value: bytes) -> int:
    """What a value takes in whole pages, with the header of its first."""
    return -(-(len(value) + 16) // _PAGE) * _PAGE

"""Requests whose every attempt failed, kept on disk until somebody sends them again or throws them away."""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from scheduler_core.errors import TickscopeError
from scheduler_core.serving.ask import Ask
from scheduler_core.serving.attempt import FailedAttempt

FILE = "dead_letters.sqlite3"
#: So that a broken model cannot fill the disk.
MAX_LETTERS = 10_000

_SCHEMA = """
CREATE TABLE IF NOT EXISTS letters (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    written REAL NOT NULL,
    endpoint TEXT NOT NULL,
    body TEXT NOT NULL,
    prompt_tokens INTEGER NOT NULL,
    attempts TEXT NOT NULL
)
"""


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """One of them; `body` is what the client sent to `endpoint`; times in seconds since 1970."""

    id: str
    written: float
    endpoint: str
    body: dict[str, Any]
    prompt_tokens: int
    attempts: tuple[FailedAttempt, ...]

    @property
    def reason(self) -> str:
        """Why the last attempt failed."""
        return self.attempts[-1].reason


class DeadLetters:
    """The box in a folder; any thread and any process may use it. What `put` has returned survives a loss of power."""

    def __init__(self, folder: Path, max_letters: int = MAX_LETTERS) -> None:
        self._max_letters = max_letters
        self._lock = threading.Lock()
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            path = folder / FILE
            path.touch(mode=0o600)
            self._db = sqlite3.connect(path, timeout=10.0, isolation_level=None, check_same_thread=False)
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = FULL")
            self._db.execute(_SCHEMA)
        except (OSError, sqlite3.Error) as problem:
            raise TickscopeError(f"the dead letters in {folder} cannot be opened: {problem}") from None

    def close(self) -> None:
        self._db.close()

    def __len__(self) -> int:
        with self._lock:
            return int(self._db.execute("SELECT count(*) FROM letters").fetchone()[0])

    def put(self, ask: Ask, attempts: Sequence[FailedAttempt]) -> str:
        """Keep a request; its id, once it is on disk. Raises `TickscopeError` when the box is full."""
        if len(self) >= self._max_letters:
            raise TickscopeError(f"there are {self._max_letters} dead letters already; replay or purge some")
        row = (
            time.time(),
            ask.endpoint,
            json.dumps(dict(ask.body)),
            len(ask.prompt_token_ids),
            json.dumps([asdict(attempt) for attempt in attempts]),
        )
        with self._lock:
            cursor = self._db.execute(
                "INSERT INTO letters (written, endpoint, body, prompt_tokens, attempts) VALUES (?, ?, ?, ?, ?)", row
            )
        return str(cursor.lastrowid)

    def letters(self) -> list[DeadLetter]:
        """All, the oldest first."""
        return self._read("ORDER BY id")

    def page(self, limit: int, before: int | None = None) -> list[DeadLetter]:
        """At most `limit` of them, the newest first; with `before` only those with smaller ids."""
        if before is None:
            return self._read("ORDER BY id DESC LIMIT ?", limit)
        return self._read("WHERE id < ? ORDER BY id DESC LIMIT ?", before, limit)

    def ids(self) -> list[str]:
        """Those of all, the oldest first."""
        with self._lock:
            return [str(row[0]) for row in self._db.execute("SELECT id FROM letters ORDER BY id")]

    def letter(self, letter_id: str) -> DeadLetter:
        """The one of that id; raises `TickscopeError` where there is none."""
        for letter in self._read("WHERE id = ?", letter_id):
            return letter
        raise TickscopeError(f"there is no dead letter {letter_id!r}; see `dead-letters list`")

    def remove(self, letter_id: str) -> bool:
        """Throw one away; False if it was gone."""
        with self._lock:
            return self._db.execute("DELETE FROM letters WHERE id = ?", (letter_id,)).rowcount > 0

    def purge(self) -> int:
        """Throw all away; how many there were."""
        with self._lock:
            return self._db.execute("DELETE FROM letters").rowcount

    def _read(self, which: str, *values: int | str) -> list[DeadLetter]:
        """Those that the end of an SQL statement chooses."""
        columns = "id, written, endpoint, body, prompt_tokens, attempts"
        with self._lock:
            rows = self._db.execute(f"SELECT {columns} FROM letters {which}", values).fetchall()
        return [_letter(row) for row in rows]


def _letter(row: tuple[Any, ...]) -> DeadLetter:
    letter_id, written, endpoint, body, prompt_tokens, attempts = row
    failed = tuple(FailedAttempt(**each) for each in json.loads(attempts))
    return DeadLetter(str(letter_id), written, endpoint, json.loads(body), prompt_tokens, failed)

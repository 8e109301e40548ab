"""A folder that keeps converted models: each is there whole and unharmed, or not at all. Knows nothing about models."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from scheduler_core.errors import ModelError

Progress = Callable[[float, str], None]

MANIFEST = "tickscope.json"
_FORMAT = 1
_PARTIAL = ".partial-"
_LONGEST_WAIT_SECONDS = 900.0
_PIECE = 1 << 22


def default_root() -> Path:
    """Where converted models are kept: TICKSCOPE_CACHE, else the platform's cache folder."""
    if named := os.environ.get("TICKSCOPE_CACHE"):
        return Path(named).expanduser()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "tickscope"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "tickscope" / "Cache"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tickscope"


def file_digest(path: Path, into: hashlib._Hash | None = None) -> str:
    """The sha256 of a file's content, in hex; continues `into` when given."""
    digest = into or hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            digest.update(piece)
    return digest.hexdigest()


class ModelCache:
    """Models by name and by the digest of what they were converted from."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def folder(self, name: str, source_digest: str) -> Path:
        return self.root / f"{name}-{source_digest[:16]}"

    def find(self, name: str, source_digest: str) -> Path | None:
        """The folder of a whole and unharmed conversion (every byte is checked), or None."""
        folder = self.folder(name, source_digest)
        files = _manifest_files(folder, source_digest)
        if not files or not all(_has_size(folder / file, size) for file, (size, _) in files.items()):
            return None
        if not all(file_digest(folder / file) == digest for file, (_, digest) in files.items()):
            return None
        return folder

    def holds(self, name: str) -> bool:
        """Whether some conversion of that name is there, looked at from outside only."""
        return any(self.root.glob(f"{name}-*/{MANIFEST}"))

    def build(self, name: str, source_digest: str, write: Callable[[Path], None], progress: Progress) -> Path:
        """Have `write` fill a folder and keep it under its name in one step; raises `ModelError`.

        Conversions take turns, so whatever is unfinished when one begins was left by a process that died.
        """
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            with self._turn(progress):
                if found := self.find(name, source_digest):
                    return found
                self._remove_leftovers()
                return self._write_whole(self.folder(name, source_digest), source_digest, write)
        except OSError as problem:
            raise ModelError(
                f"cannot keep the converted model in {self.root}: {problem.strerror or problem}; "
                "set TICKSCOPE_CACHE to a folder that can be written and has about 600 MB free"
            ) from None

    def _write_whole(self, target: Path, source_digest: str, write: Callable[[Path], None]) -> Path:
        partial = self.root / f"{_PARTIAL}{os.getpid()}"
        try:
            partial.mkdir()
            write(partial)
            _write_manifest(partial, source_digest)
            _sync_all(partial)
            if target.exists():  # damaged, or it would have been found
                target.rename(self.root / f"{_PARTIAL}damaged-{os.getpid()}")
            partial.rename(target)
            _sync(self.root)
        finally:
            self._remove_leftovers()
        return target

    def _remove_leftovers(self) -> None:
        for leftover in self.root.glob(f"{_PARTIAL}*"):
            shutil.rmtree(leftover, ignore_errors=True)

    @contextlib.contextmanager
    def _turn(self, progress: Progress) -> Iterator[None]:
        from filelock import FileLock, Timeout

        lock = FileLock(self.root / "convert.lock")
        give_up = time.monotonic() + _LONGEST_WAIT_SECONDS
        while True:
            try:
                lock.acquire(timeout=1.0)
                break
            except Timeout:
                progress(0.0, "another process is converting the model; waiting for it")
                if time.monotonic() > give_up:
                    raise ModelError(f"another process has held {lock.lock_file} for too long; end it") from None
        try:
            yield
        finally:
            lock.release()


def _manifest_files(folder: Path, source_digest: str) -> dict[str, tuple[int, str]] | None:
    try:
        plain = json.loads((folder / MANIFEST).read_bytes())
        if plain["format"] != _FORMAT or plain["source_digest"] != source_digest:
            return None
        return {str(name): (int(size), str(digest)) for name, (size, digest) in plain["files"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None  # no manifest, or one that says nothing: the folder is not a conversion


def _write_manifest(folder: Path, source_digest: str) -> None:
    files = {p.name: (p.stat().st_size, file_digest(p)) for p in sorted(folder.iterdir())}
    plain = {"format": _FORMAT, "source_digest": source_digest, "files": files}
    (folder / MANIFEST).write_text(json.dumps(plain, indent=1), encoding="utf-8")


def _has_size(path: Path, size: int) -> bool:
    return path.is_file() and path.stat().st_size == size


def _sync_all(folder: Path) -> None:
    for path in folder.iterdir():
        _sync(path)
    _sync(folder)


def _sync(path: Path) -> None:
    """Bring a file, or a folder's list of names, to the disk."""
    if path.is_dir() and os.name == "nt":
        return  # Windows has no handle for this
    number = os.open(path, os.O_RDONLY if path.is_dir() or os.name != "nt" else os.O_RDWR)
    try:
        os.fsync(number)
    finally:
        os.close(number)

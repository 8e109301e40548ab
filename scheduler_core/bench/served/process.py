"""Starts `serve` on a free port of this machine, reads its metrics and its memory, and ends it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scheduler_core.bench.peers import ROOT
from scheduler_core.bench.served.exposition import Metrics, parse
from scheduler_core.errors import BenchError

_ADDRESS = re.compile(r"^serving (.+) on (http://127\.0\.0\.1:\d+)$", re.MULTILINE)
#: The first start of the model converts its weights and compiles its kernels.
_START_S = 300.0
_END_S = 60.0


@dataclass(frozen=True, slots=True)
class Memory:
    """Of a process, in MiB: what it has for itself, and what it has mapped from files, such as the store's."""

    own: float
    mapped: float


class ServedProcess:
    """A running `serve`; `model` is what clients call it by, and what it says is in `log`."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path, model: str, url: str) -> None:
        self.process = process
        self.log = log
        self.model = model
        self.url = url

    def metrics(self) -> Metrics:
        """What /metrics says; raises `BenchError` if nothing does."""
        return parse(self._get("/metrics").decode())

    def in_flight(self) -> int:
        """Requests that have not ended, by /health; it has status 503 while a call of the model stalls."""
        return int(json.loads(self._get("/health", also=503))["in_flight"])

    def happened(self) -> dict[str, int]:
        """Kind of planned fault -> how often it has happened so far; for a gateway with --operations."""
        told = json.loads(self._get("/operations/faults"))["happened"]
        return {str(kind): int(count) for kind, count in told.items()}

    def memory(self) -> Memory:
        """What the kernel says; raises `BenchError` where it does not."""
        try:
            lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
            sizes = {name: text for name, _, text in (line.partition(":") for line in lines)}
            return Memory(*(int(sizes[name].split()[0]) / 1024 for name in ("RssAnon", "RssFile")))
        except (OSError, KeyError) as problem:
            raise BenchError(f"the memory of the server cannot be read here ({problem}); run this on Linux") from None

    def end(self) -> int:
        """Tell it to end and wait; its exit status, or that of a kill if it does not end."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()

    def said(self) -> str:
        """Everything it wrote so far."""
        return self.log.read_text(encoding="utf-8", errors="replace")

    def _get(self, path: str, also: int = 200) -> bytes:
        """The body of an answer with status 200, or the other one."""
        try:
            with urllib.request.urlopen(self.url + path, timeout=30) as answer:
                body: bytes = answer.read()
                return body
        except urllib.error.HTTPError as problem:
            with problem:
                if problem.code == also:
                    return problem.read()
                raise BenchError(f"the gateway answers at {path} with status {problem.code}") from None
        except (OSError, urllib.error.URLError) as problem:
            raise BenchError(f"the gateway does not answer at {path}: {problem}; {self._last_words()}") from None

    def _last_words(self) -> str:
        return f"it said last: {(self.said().strip().splitlines() or ['nothing'])[-1]}"


@contextmanager
def served(folder: Path, *options: str, env: Mapping[str, str] | None = None) -> Iterator[ServedProcess]:
    """A gateway with its log and its dead letters in `folder`, ended in the end; raises `BenchError`."""
    log = folder / "serve.log"
    # Port 0 is a free one; without a host it listens on the loopback interface alone.
    command = [
        sys.executable,
        "-m",
        "scheduler_core",
        "serve",
        "--port",
        "0",
        "--state",
        str(folder / "state"),
        *options,
    ]
    with log.open("wb") as out:
        process = subprocess.Popen(command, cwd=ROOT, env=_environment(env or {}), stdout=out, stderr=out)
    try:
        model, url = _address(process, log)
        yield ServedProcess(process, log, model, url)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


def _environment(extra: Mapping[str, str]) -> dict[str, str]:
    """Settings that somebody has made for a server of their own do not hold here."""
    kept: dict[str, Any] = {
        name: value for name, value in os.environ.items() if not name.startswith("TICKSCOPE_SERVE_")
    }
    return {**kept, "PYTHONPATH": str(ROOT), **extra}


def _address(process: subprocess.Popen[bytes], log: Path) -> tuple[str, str]:
    """The name of the model and where it is served, once the server says so."""
    give_up = time.monotonic() + _START_S
    while time.monotonic() < give_up:
        status, text = process.poll(), log.read_text(encoding="utf-8", errors="replace")
        if found := _ADDRESS.search(text):
            return found[1], found[2]
        if status is not None:
            last = (text.strip().splitlines() or ["it said nothing"])[-1]
            raise BenchError(f"`serve` ended with status {status}: {last}")
        time.sleep(0.05)
    raise BenchError(f"`serve` did not start within {_START_S:g} s; see whether it does when run by itself")

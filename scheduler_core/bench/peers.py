"""The peers' own environment: where it is, and running a module of ours in it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from scheduler_core.errors import BenchError

ROOT = Path(__file__).resolve().parents[2]
DEFAULT_PEERS = ROOT / ".venv-peers"
REMEDY = "build it with: make bench-peers"

#: No peer may reach for the network, or tell anybody that it runs.
OFFLINE = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "VLLM_LOGGING_LEVEL": "ERROR"}


def peers_python(folder: Path | None) -> Path | None:
    """The interpreter of the peers' environment; None if the usual place is empty.

    Raises `BenchError` if `folder` was named and is none.
    """
    python = (folder or DEFAULT_PEERS) / "bin" / "python"
    if python.is_file():
        return python
    if folder is None:
        return None
    raise BenchError(f"the peers' environment is {folder}, but there is no {python}; name another one, or {REMEDY}")


def run_module(python: Path | None, module: str, arguments: Sequence[object]) -> Any:
    """What a module of ours prints as JSON, run by `python`, or by this interpreter if None; raises `BenchError`."""
    command = [str(python or sys.executable), "-m", module, *map(str, arguments)]
    environment = {**os.environ, **OFFLINE, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise BenchError(f"{module} ended with status {done.returncode} in {command[0]}: {last}; {REMEDY}")
    return json.loads(done.stdout)

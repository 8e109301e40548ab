"""The machine that figures were measured on, as facts to print beside them."""

from __future__ import annotations

import os
import platform
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class MachineFacts:
    """`cores` are those this process may use; `load` is the average of waiting processes of the last minute."""

    cpu: str
    cores: int
    system: str
    python: str
    date: str
    load: float

    @classmethod
    def here(cls) -> MachineFacts:
        return cls(
            _cpu_model(),
            _usable_cores(),
            f"{platform.system()} {platform.machine()}",
            platform.python_version(),
            datetime.now().astimezone().isoformat(timespec="seconds"),
            round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else 0.0,
        )

    def as_plain(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)

    @property
    def text(self) -> str:
        """One line for people."""
        return (
            f"{self.cpu}, {self.cores} cores, {self.system}, Python {self.python}, {self.date[:10]}, "
            f"load {self.load:.2f} before"
        )


def _usable_cores() -> int:
    """Of those that there are, where the system says which this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _cpu_model() -> str:
    """As Linux names it; elsewhere the platform's own word."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, "") or platform.processor() or platform.machine()

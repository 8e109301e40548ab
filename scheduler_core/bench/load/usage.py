"""What a run took of this machine: kept out of results, which are the same everywhere."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


def peak_memory_bytes() -> int | None:
    """The most memory this process has held so far; None where the system does not tell."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    # Linux counts in KiB, macOS in bytes.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1_024)


@contextmanager
def stop_on_interrupt() -> Iterator[Callable[[], bool]]:
    """While it lasts, the first Ctrl-C only makes the answer true; the second one interrupts as usual."""
    stopped = False
    before = signal.getsignal(signal.SIGINT)

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal stopped
        stopped = True
        signal.signal(signal.SIGINT, before)

    signal.signal(signal.SIGINT, stop)
    try:
        yield lambda: stopped
    finally:
        signal.signal(signal.SIGINT, before)

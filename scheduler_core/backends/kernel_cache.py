"""Where compiled kernels are kept: apart for each state of their sources, as they are built into one another."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import numba

from scheduler_core.backends.model_cache import file_digest

_SOURCES = ("crew.py", "vectors.py", "panels.py", "attention_tiles.py", "llama_kernels.py")


def keep_kernels_apart() -> None:
    """Has to be called before the first kernel is defined; NUMBA_CACHE_DIR, where set, goes before.

    They stand with Python's own compiled files; numba looks for another place where it may not write there.
    """
    if "NUMBA_CACHE_DIR" in os.environ:
        return
    here, digest = Path(__file__).parent, hashlib.sha256()
    for name in _SOURCES:
        file_digest(here / name, into=digest)
    numba.config.CACHE_DIR = str(here / "__pycache__" / f"kernels-{digest.hexdigest()[:16]}")  # type: ignore[attr-defined]

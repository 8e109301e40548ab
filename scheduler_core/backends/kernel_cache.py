"""Where compiled kernels are kept: apart for each state of their sources, as they are built into one another."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import numba

from scheduler_core.backends.model_cache import default_root, file_digest

_SOURCES = ("crew.py", "vectors.py", "panels.py", "attention_tiles.py", "llama_kernels.py")


def keep_kernels_apart() -> None:
    """Has to be called before the first kernel is defined; NUMBA_CACHE_DIR, where set, goes before."""
    if "NUMBA_CACHE_DIR" in os.environ:
        return
    digest = hashlib.sha256()
    for name in _SOURCES:
        file_digest(Path(__file__).with_name(name), into=digest)
    folder = default_root() / "kernels" / digest.hexdigest()[:16]
    numba.config.CACHE_DIR = str(folder)  # type: ignore[attr-defined]

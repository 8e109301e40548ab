"""The command line within the tests' own process, which is faster than a process for each."""

from __future__ import annotations

import contextlib
import io
import sys
from dataclasses import dataclass
from unittest import mock

from scheduler_core.__main__ import main


@dataclass(frozen=True)
class Done:
    returncode: int
    stdout: str
    stderr: str


def command(*words: object) -> Done:
    """What `python -m scheduler_core WORDS` answers."""
    out, err = io.StringIO(), io.StringIO()
    argv = ["scheduler_core", *map(str, words)]
    with mock.patch.object(sys, "argv", argv), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = main()
    return Done(status, out.getvalue(), err.getvalue())

"""One contender in a process of its own: reads commands, a line of JSON each, and answers each with a line.

`python -m scheduler_core.bench.engine.worker MODULE FOLDER THREADS`, where MODULE in this package has a class
`Contender` and FOLDER is where the model is.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from typing import Any, Protocol, TextIO


class Contender(Protocol):
    """Something that runs the model; made with the model's folder and a number of threads."""

    versions: dict[str, str]

    def generate(self, prompts: list[list[int]], max_tokens: int) -> list[list[int]]:
        """Greedy output tokens of every prompt, exactly `max_tokens` each, from a cold cache."""
        ...


def serve(contender: Any, lines: TextIO, answers: TextIO) -> None:
    """Answer commands until they end. `{"do": NAME, ...}` calls that method; "race" times `generate`."""
    for line in lines:
        command = json.loads(line)
        name = command.pop("do")
        answer = _race(contender, **command) if name == "race" else getattr(contender, name)(**command)
        print(json.dumps(answer), file=answers, flush=True)


def _race(contender: Any, prompts: list[list[int]], max_tokens: int) -> dict[str, Any]:
    if hasattr(contender, "prepare"):
        contender.prepare(prompts, max_tokens)
    begin = time.perf_counter()
    tokens = contender.generate(prompts, max_tokens)
    seconds = time.perf_counter() - begin
    return {"seconds": seconds, "tokens": tokens, "notes": getattr(contender, "notes", {})}


def main() -> None:
    module, folder, threads = sys.argv[1:]
    # Answers go out by a file of their own: libraries print what they like.
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as answers:
        os.dup2(2, 1)
        contender = importlib.import_module(f"scheduler_core.bench.engine.{module}").Contender(folder, int(threads))
        print(json.dumps({"versions": contender.versions}), file=answers, flush=True)
        serve(contender, sys.stdin, answers)


if __name__ == "__main__":
    main()

"""The contenders, each in its process, take turns on every workload."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scheduler_core.backends import model_store
from scheduler_core.bench.engine.workloads import Workload
from scheduler_core.bench.peers import OFFLINE, REMEDY, ROOT
from scheduler_core.errors import BenchError

#: A tick of eight decodes, one of a long prompt's part, and both together: (tokens before, tokens now) of requests.
TICKS = ([(100, 1)] * 8, [(0, 256)], [(100, 1)] * 7 + [(512, 64)])

Report = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Entry:
    """A contender: `module` of this package; `peer` if it lives in the peers' environment."""

    module: str
    title: str
    peer: bool = False
    same_numbers: bool = True


ENTRIES = (
    Entry("ours", "Tickscope"),
    Entry("generate", "generate, one by one"),
    Entry("generate_batch", "generate_batch"),
    Entry("vllm", "vLLM, CPU build", peer=True),
    Entry("openvino", "OpenVINO GenAI, 4-bit weights", peer=True, same_numbers=False),
)


class Process:
    """A contender's process; its answers are what it prints, what libraries say goes to a file."""

    def __init__(self, entry: Entry, python: Path, model: str, threads: int) -> None:
        self._title = entry.title
        self._said = tempfile.TemporaryFile()  # noqa: SIM115  (closed with the process)
        self._process = subprocess.Popen(
            [str(python), "-m", "scheduler_core.bench.engine.worker", entry.module, model, str(threads)],
            cwd=ROOT,
            env={**os.environ, **OFFLINE, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": str(threads)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            text=True,
        )
        self.versions: dict[str, str] = self._answer()["versions"]

    def ask(self, do: str, **arguments: Any) -> Any:
        """Have the contender do something; raises `BenchError` when it ends instead."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # it has ended: the answer says with what
            print(json.dumps({"do": do, **arguments}), file=self._process.stdin, flush=True)
        return self._answer()

    def close(self) -> None:
        """End the process by ending its commands."""
        if not self._said.closed:
            self._process.communicate()
            self._said.close()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            status = self._process.wait()
            self._said.seek(0)
            last = (self._said.read().decode(errors="replace").strip().splitlines() or ["it said nothing"])[-1]
            self.close()
            raise BenchError(f"{self._title} ended with status {status}: {last}; {REMEDY}")
        return json.loads(line)


def race(workloads: Sequence[Workload], rounds: int, threads: int, peers: Path | None, say: Report) -> dict[str, Any]:
    """Every workload, `rounds` times by each contender in turn, after one turn to warm up; the raw figures."""
    with _started(threads, peers, say) as processes:
        ours = processes["ours"]
        results = [_run(workload, rounds, processes, say) for workload in workloads]
        shared = next((result["prompts"] for result in results if result["name"] == "shared"), None)
        say("first tokens and the tick's floor")
        return {
            "threads": threads,
            "rounds": rounds,
            "versions": {module: process.versions for module, process in processes.items()},
            "workloads": [{key: value for key, value in result.items() if key != "prompts"} for result in results],
            "first_tokens": _first_tokens(ours, shared, rounds) if shared else None,
            "floor": ours.ask("tick_floor", shapes=TICKS, rounds=4 * rounds + 1),
        }


@contextmanager
def _started(threads: int, peers: Path | None, say: Report) -> Iterator[dict[str, Process]]:
    weights = model_store.find_weights()
    if weights is None:
        raise BenchError(f"the benchmark needs the model's weights; {model_store.HOW_TO_GET}")
    folder = str(model_store.folder_of(weights))
    with ExitStack() as stack:
        processes = {}
        for entry in ENTRIES:
            model = weights.location if entry.module == "openvino" else folder
            if (entry.peer and peers is None) or (entry.module == "openvino" and weights.kind != "gguf"):
                continue
            say(f"starting {entry.title}")
            python = peers if entry.peer and peers else Path(sys.executable)
            processes[entry.module] = Process(entry, python, model, threads)
            stack.callback(processes[entry.module].close)
        yield processes


def _run(workload: Workload, rounds: int, processes: dict[str, Process], say: Report) -> dict[str, Any]:
    asked = [{"text": prompt.text, "system": prompt.system} for prompt in workload.prompts]
    prompts = processes["ours"].ask("encode", prompts=asked)
    seconds: dict[str, list[float]] = {module: [] for module in processes}
    notes: dict[str, list[Any]] = {module: [] for module in processes}
    tokens: dict[str, Any] = {}
    for number in range(rounds + 1):
        for module, process in processes.items():
            if number == 0 and module == "generate":
                continue  # it has nothing to warm up and takes longest
            say(f"{workload.title}: {module}, turn {number} of {rounds}")
            answer = process.ask("race", prompts=prompts, max_tokens=workload.max_tokens)
            tokens[module] = answer["tokens"]
            if number:
                seconds[module].append(answer["seconds"])
                notes[module].append(answer["notes"])
    return {
        "name": workload.name,
        "title": workload.title,
        "prompts": prompts,
        "prompt_tokens": sum(map(len, prompts)),
        "output_tokens": workload.max_tokens * len(prompts),
        "seconds": seconds,
        "notes": notes["ours"],
        "texts": _compare(prompts, tokens, processes["generate"]),
    }


def _compare(prompts: list[list[int]], tokens: dict[str, Any], generate: Process) -> dict[str, Any]:
    """How many texts equal those of `generate`, and the margin between the best two where one first differs."""
    found = {}
    for entry in ENTRIES:
        if entry.module == "generate" or entry.module not in tokens or not entry.same_numbers:
            continue
        margins = []
        for prompt, expected, got in zip(prompts, tokens["generate"], tokens[entry.module], strict=True):
            if got != expected:
                same = next(i for i, pair in enumerate(zip(expected, got, strict=True)) if pair[0] != pair[1])
                margins.append(generate.ask("margin", tokens=[*prompt, *expected[:same]]))
        found[entry.module] = {"equal": len(prompts) - len(margins), "of": len(prompts), "margins": margins}
    return found


def _first_tokens(ours: Process, prompts: list[list[int]], rounds: int) -> dict[str, list[float]]:
    """Seconds to the first token of a request with a cold cache, and of the next ones, which share its beginning."""
    turns = [ours.ask("first_tokens", prompts=prompts[:5]) for _ in range(rounds + 1)][1:]
    return {"cold": [turn[0] for turn in turns], "warm": [seconds for turn in turns for seconds in turn[1:]]}

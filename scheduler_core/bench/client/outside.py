"""vLLM's own serving benchmark, `vllm bench serve`, as a client of our gateway; and what its result file says."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from scheduler_core.bench.client.plan import ClientPlan, Prompt, as_lines
from scheduler_core.bench.client.turn import Turn
from scheduler_core.bench.peers import OFFLINE, REMEDY, ROOT
from scheduler_core.errors import BenchError

#: How much longer than it sends the client may take.
_PATIENCE_S = 1_800.0
#: Lists of the result file with one entry for each request, in the order of sending.
_LISTS = ("start_times", "ttfts", "itls", "output_lens", "errors")


def run(
    python: Path, url: str, model: str, tokenizer: str, prompts: tuple[Prompt, ...], plan: ClientPlan, folder: Path
) -> Turn:
    """Raises `BenchError` with the last thing that it said."""
    data, result = folder / "prompts.jsonl", folder / "result.json"
    data.write_text(as_lines(prompts), encoding="utf-8")
    result.unlink(missing_ok=True)
    seconds = plan.requests / plan.rate + _PATIENCE_S
    try:
        done = subprocess.run(
            [
                str(python),
                "-m",
                "scheduler_core.bench.client.vllm_bench",
                *_words(url, model, tokenizer, plan, data, result),
            ],
            cwd=folder,
            env={**os.environ, **OFFLINE, "PYTHONPATH": str(ROOT), "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise BenchError(
            f"vLLM's client did not end within {seconds / 60:.0f} minutes; send fewer --requests, or shorter ones"
        ) from None
    if done.returncode or not result.is_file():
        last = (done.stdout.strip().splitlines() or ["it said nothing"])[-1]
        raise BenchError(f"vLLM's client ended with status {done.returncode}: {last}; {REMEDY}")
    return read(json.loads(result.read_text(encoding="utf-8")))


def _words(url: str, model: str, tokenizer: str, plan: ClientPlan, data: Path, result: Path) -> list[str]:
    """Its options: prompts from `data`, as they stand and in their order, every figure to `result`."""
    options = {
        "base-url": url,
        "backend": "openai",
        "endpoint": "/v1/completions",
        "model": model,
        "tokenizer": tokenizer,
        "dataset-name": "custom",
        "dataset-path": data,
        "custom-output-len": -1,
        "num-prompts": plan.requests,
        "request-rate": plan.rate,
        "burstiness": 1.0,
        "seed": plan.seed,
        "temperature": 0,
        "result-dir": result.parent,
        "result-filename": result.name,
    }
    flags = ("disable-shuffle", "skip-chat-template", "ignore-eos", "disable-tqdm", "save-result", "save-detailed")
    return [
        *(word for name, value in options.items() for word in (f"--{name}", str(value))),
        *(f"--{flag}" for flag in flags),
    ]


def version(python: Path) -> str:
    """Of vLLM in that environment."""
    words = (
        "import importlib.metadata as m; print(next(d.version for d in m.distributions() if d.name.startswith('vllm')))"
    )
    done = subprocess.run([str(python), "-c", words], capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def read(result: Mapping[str, Any]) -> Turn:
    """A result file of `--save-detailed`; raises `BenchError` for one without details, or with failed requests."""
    if missing := [name for name in _LISTS if not isinstance(result.get(name), list)]:
        raise BenchError(f"the result of vLLM's client has no {missing[0]}; let it write --save-detailed")
    if failed := [str(error) for error in result["errors"] if error]:
        raise BenchError(f"{len(failed)} requests of vLLM's client failed, one with: {_last_line(failed[0])}")
    starts: Sequence[float] = result["start_times"]
    return Turn(
        tuple(start - min(starts) for start in starts),
        tuple(float(each) for each in result["ttfts"]),
        tuple(float(gap) for gaps in result["itls"] for gap in gaps),
        sum(result["output_lens"]),
    )


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or [""])[-1]

"""Compares our decisions with recorded ones of another scheduler, tick by tick.

Format `vllm-decisions/1`: a configuration, requests in tokens, and per tick what was scheduled, admitted, preempted
and, as of its end, finished, running and free. The stub model's output token number j of request i is
1000000 + 1000 * i + j.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scheduler_core.config import EngineConfig
from scheduler_core.engine import Engine
from scheduler_core.errors import TickscopeError, WorkloadError
from scheduler_core.events import RequestAdmitted, RequestFinished, RequestPreempted
from scheduler_core.narration import narrate_tick
from scheduler_core.output import ModelRunnerOutput, SampledToken, SchedulerOutput
from scheduler_core.request import RequestSpec, SamplingParams
from scheduler_core.trace import Backend, TickRecord, Trace

FORMAT = "vllm-decisions/1"


class StubRunner:
    """The stub model of the recordings: no KV, tokens by request and position."""

    backend = Backend("stub", model="stub")
    eos_token_ids = ()
    max_model_len = None

    def __init__(self, request_ids: Sequence[str]) -> None:
        self._index = {request_id: i for i, request_id in enumerate(request_ids)}

    def allocate(self, num_blocks: int, block_size: int) -> None:
        """The stub needs no KV."""

    def encode(self, text: str) -> tuple[int, ...]:
        raise WorkloadError("the stub model has no tokenizer")

    def encode_chat(self, text: str, system: str | None = None) -> tuple[int, ...]:
        return self.encode(text)

    def decode(self, token_ids: Sequence[int]) -> str:
        return " ".join(map(str, token_ids))

    def token_text(self, token_id: int) -> str:
        return str(token_id)

    def execute_model(self, output: SchedulerOutput) -> ModelRunnerOutput:
        drawn = (item for item in output.scheduled if item.samples)
        return ModelRunnerOutput(
            {i.request_id: SampledToken(1_000_000 + 1_000 * self._index[i.request_id] + i.output_index) for i in drawn}
        )

    def copy_out(self, block_ids: tuple[int, ...]) -> Any:
        return block_ids

    def copy_in(self, saved: Any, first_block: int, block_ids: tuple[int, ...]) -> None:
        """The stub needs no KV."""


@dataclass(frozen=True, slots=True)
class Decisions:
    """What a scheduler did in one tick; `running`, `finished` and `free_blocks` as of its end."""

    tick: int
    scheduled: dict[str, int]
    admitted: dict[str, int]
    preempted: frozenset[str]
    finished: frozenset[str]
    running: tuple[str, ...]
    free_blocks: int


@dataclass(frozen=True, slots=True)
class Difference:
    """The first thing in which a file and our run differ, and what our run says about that tick."""

    tick: int
    what: str
    theirs: object
    ours: object
    reason: str


def compare_file(path: Path) -> Difference | None:
    """Run the workload of a file under the vllm preset; None if every decision is the same."""
    data = _read(path)
    try:
        theirs = [_their_decisions(tick) for tick in data["ticks"] if tick["scheduled"]]
        trace = _run(data)
    except (KeyError, TypeError, ValueError, AttributeError) as problem:
        raise WorkloadError(f"{path}: not a recording in the format {FORMAT}: {problem!r}") from None
    except TickscopeError as problem:
        raise WorkloadError(f"{path}: {problem}") from None
    ours = [(record, _our_decisions(record)) for record in trace.records if not record.is_idle]
    return _first_difference(theirs, ours, trace)


def _read(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_bytes())
    except OSError as problem:
        raise WorkloadError(f"cannot read {path}: {problem.strerror or problem}") from None
    except ValueError as problem:
        raise WorkloadError(f"{path}: not valid JSON: {problem}") from None
    found = data.get("format") if isinstance(data, dict) else None
    if found != FORMAT:
        raise WorkloadError(f"{path}: the format is {found!r}; this program reads {FORMAT!r}")
    return dict(data)


def _config(recorded: dict[str, Any]) -> EngineConfig:
    same = ("policy", "block_size", "max_model_len", "num_blocks", "max_num_seqs", "max_num_batched_tokens")
    return EngineConfig.preset("vllm").replace(
        **{name: recorded[name] for name in same},
        enable_prefix_caching=recorded["enable_prefix_caching"],
        chunk_size=recorded["long_prefill_token_threshold"] or None,
        watermark=int(recorded["watermark"] * recorded["num_blocks"]),
    )


def _run(data: dict[str, Any]) -> Trace:
    requests = data["requests"]
    engine = Engine(_config(data["config"]), StubRunner([request["id"] for request in requests]))
    for request in requests:
        engine.add_request(
            RequestSpec(
                request["id"],
                tuple(request["prompt"]),
                SamplingParams(max_tokens=request["max_tokens"]),
                float(request["arrival_tick"]),
                request["priority"],
            )
        )
    return engine.run()


def _their_decisions(tick: dict[str, Any]) -> Decisions:
    return Decisions(
        tick["tick"],
        tick["scheduled"],
        {**tick["admitted"], **tick["resumed"]},
        frozenset(tick["preempted"]),
        frozenset(tick["finished"]),
        tuple(tick["running"]),
        tick["free_blocks"],
    )


def _our_decisions(record: TickRecord) -> Decisions:
    assert record.snapshot is not None
    return Decisions(
        int(record.start),
        {item.request_id: item.num_tokens for item in record.output.scheduled},
        {e.request_id: e.hit_tokens for e in record.events if isinstance(e, RequestAdmitted)},
        frozenset(e.request_id for e in record.events if isinstance(e, RequestPreempted)),
        frozenset(e.request_id for e in record.events if isinstance(e, RequestFinished)),
        record.snapshot.running,
        len(record.snapshot.free_blocks),
    )


def _first_difference(
    theirs: list[Decisions], ours: list[tuple[TickRecord, Decisions]], trace: Trace
) -> Difference | None:
    for expected, (record, got) in zip(theirs, ours, strict=False):
        for what in Decisions.__slots__:
            one, other = getattr(expected, what), getattr(got, what)
            if one != other:
                return Difference(expected.tick, what, _plain(one), _plain(other), _reason(trace, record.tick))
    if len(theirs) != len(ours):
        tick = min(theirs[-1].tick, int(ours[-1][0].start)) if theirs and ours else 0
        return Difference(tick, "ticks with work", len(theirs), len(ours), "one side goes on when the other has ended")
    return None


def _plain(value: object) -> object:
    return sorted(value) if isinstance(value, frozenset) else value


def _reason(trace: Trace, tick: int) -> str:
    return " ".join(sentence.whole for sentence in narrate_tick(trace, tick))

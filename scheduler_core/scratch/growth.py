"""How the real scheduler grows: the same requests under one more of its parts each time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from scheduler_core.backends.synthetic import SyntheticRunner
from scheduler_core.config import EngineConfig
from scheduler_core.engine import Engine
from scheduler_core.metrics import request_metrics, totals
from scheduler_core.scratch.prompts import REQUESTS
from scheduler_core.trace import Trace
from scheduler_core.workload import Draft

#: Where it begins: one request after the other, nothing shared, nothing cut.
FIRST = EngineConfig(
    block_size=4,
    max_num_batched_tokens=24,
    max_num_seqs=1,
    enable_chunked_prefill=False,
    chunk_size=8,
    enable_prefix_caching=False,
    quantum=None,
    priority_push_out=False,
)


@dataclass(frozen=True, slots=True)
class Stage:
    """A part more: the settings that switch it on, what it does, and the modules that do it."""

    name: str
    title: str
    changes: Mapping[str, Any]
    text: str
    paths: tuple[str, ...]


STAGES = (
    Stage(
        "line",
        "One at a time",
        {},
        "A queue that decides: one request runs, the others wait. Every request is read once and answered up "
        "to its limit. Nobody can get past R1, though.",
        ("scheduler_core/scheduler.py", "scheduler_core/waiting_queue.py"),
    ),
    Stage(
        "batch",
        "A batch",
        {"max_num_seqs": 2},
        "Two lanes: in each tick the model computes the next tokens of two requests in one pass. Two whole "
        "prompts in one tick make a long tick, and whoever is generating waits for it.",
        ("scheduler_core/scheduling_pass.py", "scheduler_core/lanes.py"),
    ),
    Stage(
        "chunks",
        "Chunks",
        {"enable_chunked_prefill": True},
        "A prompt is read in chunks of at most 8 tokens, so no tick is long. A chunk is a number of tokens "
        "to compute next, not a task: the request keeps its count of computed tokens. On this clock every tick takes a "
        "second, so the price shows and the gain does not; the lesson on chunked prefill has the gain.",
        ("scheduler_core/chunker.py",),
    ),
    Stage(
        "cache",
        "A prefix cache",
        {"enable_prefix_caching": True},
        "KV lives in blocks of 4 tokens. A full block can be found by whoever begins with the same tokens, "
        "and those are not computed again.",
        ("scheduler_core/prefix_cache.py", "scheduler_core/block_pool.py", "scheduler_core/kv_cache_manager.py"),
    ),
    Stage(
        "slices",
        "Slices",
        {"quantum": 4},
        "After 4 ticks of its own a request makes room for one that waits. Its KV is saved on the host, and it goes on "
        "where it was.",
        ("scheduler_core/preemption.py", "scheduler_core/swap.py"),
    ),
    Stage(
        "priorities",
        "Priorities",
        {"policy": "priority", "priority_push_out": True},
        "R4 is urgent. As the queue is put in order in every tick, it takes a lane as soon as it is there.",
        ("scheduler_core/policy.py", "scheduler_core/ranking.py"),
    ),
)


@dataclass(frozen=True, slots=True)
class Grown:
    """The figures of a stage; `urgent_ttft` is how many seconds R4 waits for its first token."""

    ticks: int
    largest_tick: int
    urgent_ttft: float
    hit_tokens: int
    preemptions: int


def stage_config(index: int) -> EngineConfig:
    """The settings of a stage: its own and those of all before it."""
    config = FIRST
    for stage in STAGES[: index + 1]:
        config = config.replace(**stage.changes)
    return config


def stage_run(index: int) -> Trace:
    """The requests under the parts that a stage has."""
    runner = SyntheticRunner()
    engine = Engine(stage_config(index), runner, scenario="from_scratch", title=STAGES[index].title)
    for sent in REQUESTS:
        engine.add_request(Draft(sent.id, sent.prompt, sent.max_tokens, sent.arrival, sent.priority).spec(runner))
    return engine.run()


def grown(trace: Trace) -> Grown:
    """What a run of a stage comes to."""
    urgent = next(metrics for metrics in request_metrics(trace) if metrics.id == REQUESTS[-1].id)
    assert urgent.ttft_s is not None, "every stage answers all requests"
    sums = totals(trace)
    return Grown(
        len(trace.records),
        max(record.counts.scheduled_tokens for record in trace.records),
        urgent.ttft_s,
        int(sums["hit_tokens"]),
        int(sums["preemptions"]),
    )

"""A workload that the fit has not seen, run by the engine on the real model: what its ticks took."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from scheduler_core.backends.base import ModelRunner
from scheduler_core.config import EngineConfig
from scheduler_core.engine import Engine
from scheduler_core.errors import BenchError
from scheduler_core.events import FaultInjected
from scheduler_core.output import SchedulerOutput
from scheduler_core.request import RequestSpec, SamplingParams
from scheduler_core.trace import TickRecord

#: So many ticks at the start are not counted: caches and threads are still cold.
WARM_UP = 2
_CONFIG = EngineConfig(
    num_blocks=256,
    max_num_batched_tokens=192,
    max_num_seqs=8,
    chunk_size=128,
    quantum=None,
    enable_prefix_caching=False,
    num_swap_blocks=0,
    cost="smollm2-cpu",
)


@dataclass(frozen=True, slots=True)
class Unseen:
    """The ticks of the workload, with the seconds that each took in every round: the batches are the same in all."""

    requests: int
    seed: int
    ticks: list[tuple[SchedulerOutput, list[float]]]

    def add(self, records: Sequence[TickRecord]) -> None:
        """Take in a further round."""
        if not self.ticks:
            self.ticks.extend((record.output, []) for record in records)
        for (output, seconds), record in zip(self.ticks, records, strict=True):
            assert output == record.output, "the engine decided otherwise in another round"
            seconds.append(record.wall_seconds)

    def fastest(self) -> Unseen:
        """Only the fastest round of each tick."""
        return Unseen(self.requests, self.seed, [(output, [min(seconds)]) for output, seconds in self.ticks])


def run_unseen(runner: ModelRunner, requests: int, seed: int, say: Callable[[str], None]) -> list[TickRecord]:
    """One round: a random mix of chats and long prompts that come one after the other; its ticks, once warm."""
    engine = Engine(_CONFIG, runner, scenario="unseen", check=False)
    for spec in mix(requests, seed):
        engine.add_request(spec)
    trace = engine.run(progress=lambda tick, finished, sent: say(f"unseen workload: {finished} of {sent} requests"))
    for event in trace.records[-1].events:
        if isinstance(event, FaultInjected):
            raise BenchError(f"a tick of the unseen workload failed: {event.detail}")
    return [record for record in trace.records if record.output.scheduled][WARM_UP:]


def mix(requests: int, seed: int) -> list[RequestSpec]:
    """Lengths and arrivals drawn at random, none of them from the grid of the fit."""
    draw, now, specs = random.Random(seed), 0.0, []
    for number in range(requests):
        is_long = draw.random() < 0.4
        prompt = draw.randint(150, 450) if is_long else draw.randint(10, 60)
        tokens = tuple(draw.randint(100, 40_000) for _ in range(prompt))
        sampling = SamplingParams(draw.randint(6, 24), ignore_eos=True)
        specs.append(RequestSpec(f"U{number}", tokens, sampling, now))
        now += draw.expovariate(1 / 0.12)
    return specs

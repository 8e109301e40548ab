"""The work that schedulers are measured on: every lane decodes, and many requests wait."""

from __future__ import annotations

from dataclasses import dataclass

from scheduler_core.config import EngineConfig
from scheduler_core.request import RequestSpec, SamplingParams

#: Requests that wait behind the full lanes.
WAITING = (100, 10_000)


@dataclass(frozen=True, slots=True)
class SchedulerLoad:
    """`waiting` requests behind full lanes, all there from the start; sizes in tokens, blocks and lanes.

    In a "steady" load nobody finishes while it is measured; in one with "turnover" two or three do in every tick, as
    many others enter, and as many new ones join the queue.
    """

    name: str
    waiting: int
    lanes: int = 256
    num_blocks: int = 10_000
    block_size: int = 16
    prompt_tokens: int = 100
    max_num_batched_tokens: int = 2_048
    max_model_len: int = 1_024

    @property
    def num_requests(self) -> int:
        """Requests that are there at the start."""
        return self.lanes + self.waiting

    @property
    def output_tokens(self) -> tuple[int, int]:
        """The shortest and the longest output: in a steady load the longest that all lanes have blocks for."""
        if self.name == "turnover":
            return 40, 160
        longest = self.num_blocks // self.lanes * self.block_size - self.prompt_tokens
        return longest, longest

    def config(self, preset: str, **changes: object) -> EngineConfig:
        """These sizes under a preset."""
        return EngineConfig.preset(preset).replace(
            block_size=self.block_size,
            num_blocks=self.num_blocks,
            max_num_seqs=self.lanes,
            max_num_batched_tokens=self.max_num_batched_tokens,
            max_model_len=self.max_model_len,
            **changes,
        )

    def request(self, number: int) -> RequestSpec:
        """Request `number`: a prompt that shares nothing with any other, and one of four priorities."""
        first = number * self.prompt_tokens
        shortest, longest = self.output_tokens
        # 37 has no divisor in common with the width, so that lengths are spread evenly and in no order.
        length = shortest + number * 37 % (longest - shortest + 1)
        prompt = tuple(range(first, first + self.prompt_tokens))
        return RequestSpec(f"r{number}", prompt, SamplingParams(length, ignore_eos=True), priority=number % 4)


def vllm_loads() -> tuple[SchedulerLoad, ...]:
    """What both schedulers are measured on."""
    return tuple(SchedulerLoad(name, waiting) for name in ("steady", "turnover") for waiting in WAITING)

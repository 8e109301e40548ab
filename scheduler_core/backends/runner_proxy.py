"""A runner that stands before another one and does nothing else than pass on; others change what they need."""

from __future__ import annotations

from typing import Any

from scheduler_core.backends.base import ModelRunner
from scheduler_core.output import ModelRunnerOutput, SchedulerOutput
from scheduler_core.trace import Backend


class RunnerProxy:
    """All of a `ModelRunner`, written out: what is only found when asked for is not seen by checks of its kind."""

    def __init__(self, runner: ModelRunner) -> None:
        self._runner = runner

    @property
    def backend(self) -> Backend:
        return self._runner.backend

    @property
    def eos_token_ids(self) -> tuple[int, ...]:
        return self._runner.eos_token_ids

    @property
    def max_model_len(self) -> int | None:
        return self._runner.max_model_len

    def allocate(self, num_blocks: int, block_size: int) -> None:
        self._runner.allocate(num_blocks, block_size)

    def encode(self, text: str) -> tuple[int, ...]:
        return self._runner.encode(text)

    def encode_chat(self, text: str, system: str | None = None) -> tuple[int, ...]:
        return self._runner.encode_chat(text, system)

    def decode(self, token_ids: tuple[int, ...] | list[int]) -> str:
        return self._runner.decode(token_ids)

    def token_text(self, token_id: int) -> str:
        return self._runner.token_text(token_id)

    def execute_model(self, output: SchedulerOutput) -> ModelRunnerOutput:
        return self._runner.execute_model(output)

    def copy_out(self, block_ids: tuple[int, ...]) -> Any:
        return self._runner.copy_out(block_ids)

    def copy_in(self, saved: Any, first_block: int, block_ids: tuple[int, ...]) -> None:
        self._runner.copy_in(saved, first_block, block_ids)

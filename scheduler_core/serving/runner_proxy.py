"""A runner that stands before another one and does nothing else than pass on; others change what they need."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from scheduler_core.backends.kv_bytes import KVBytes, KVFormat
from scheduler_core.output import ModelRunnerOutput, SchedulerOutput
from scheduler_core.serving.served_model import ServedRunner
from scheduler_core.trace import Backend


class RunnerProxy:
    """All of a `ServedRunner`, written out: what is only found when asked for is not seen by checks of its kind."""

    def __init__(self, runner: ServedRunner) -> None:
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

    @property
    def vocab_size(self) -> int:
        return self._runner.vocab_size

    def allocate(self, num_blocks: int, block_size: int) -> None:
        self._runner.allocate(num_blocks, block_size)

    def encode(self, text: str) -> tuple[int, ...]:
        return self._runner.encode(text)

    def encode_chat(self, text: str, system: str | None = None) -> tuple[int, ...]:
        return self._runner.encode_chat(text, system)

    def encode_messages(self, messages: Sequence[tuple[str, str]]) -> tuple[int, ...]:
        return self._runner.encode_messages(messages)

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

    def kv_format(self) -> KVFormat:
        return self._runner.kv_format()

    def pack(self, saved: Any) -> list[KVBytes]:
        return self._runner.pack(saved)

    def unpack(self, block: KVBytes) -> Any:
        return self._runner.unpack(block)

"""A served runner that stands before another one and passes on; others change what they need."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from scheduler_core.backends.kv_bytes import KVBytes, KVFormat
from scheduler_core.backends.runner_proxy import RunnerProxy
from scheduler_core.serving.served_model import ServedRunner

#: Faults that have happened as planned: (kind, request or "", in words).
PlannedFaults = tuple[tuple[str, str, str], ...]


class ServedRunnerProxy(RunnerProxy):
    """All of a `ServedRunner`."""

    _runner: ServedRunner

    def __init__(self, runner: ServedRunner) -> None:
        super().__init__(runner)

    @property
    def vocab_size(self) -> int:
        return self._runner.vocab_size

    def encode_messages(self, messages: Sequence[tuple[str, str]]) -> tuple[int, ...]:
        return self._runner.encode_messages(messages)

    def kv_format(self) -> KVFormat:
        return self._runner.kv_format()

    def pack(self, saved: Any) -> list[KVBytes]:
        return self._runner.pack(saved)

    def unpack(self, block: KVBytes) -> Any:
        return self._runner.unpack(block)

    def take_planned(self) -> PlannedFaults:
        """What whoever stands further behind has made fail on purpose since the last call of this."""
        return self._runner.take_planned() if isinstance(self._runner, ServedRunnerProxy) else ()

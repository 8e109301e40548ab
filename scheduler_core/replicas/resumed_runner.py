"""A runner for texts that were begun elsewhere: the prompt holds what there is of them, and draws go on from there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from scheduler_core.backends.base import ModelRunner
from scheduler_core.backends.kv_bytes import KVBytes, KVFormat, KVPacker
from scheduler_core.backends.runner_proxy import RunnerProxy
from scheduler_core.errors import ConfigError
from scheduler_core.output import ModelRunnerOutput, ScheduledRequest, SchedulerOutput
from scheduler_core.request import RequestSpec


def resumed_spec(spec: RequestSpec, so_far: Sequence[int], time: float) -> RequestSpec:
    """The rest of a request as a request of the same id: its prompt and the tokens so far are to be computed again."""
    done, sampling = len(so_far), spec.sampling
    rest = replace(sampling, max_tokens=sampling.max_tokens - done, min_tokens=max(0, sampling.min_tokens - done))
    prompt = (*spec.prompt_token_ids, *so_far)
    return replace(spec, prompt_token_ids=prompt, sampling=rest, arrival_time=time)


class ResumedRunner(RunnerProxy):
    """Another runner, told the true place in its output of every token, so that the same ones are drawn."""

    def __init__(self, runner: ModelRunner) -> None:
        super().__init__(runner)
        self._packer = runner if isinstance(runner, KVPacker) else None
        self._begun: dict[str, tuple[RequestSpec, int]] = {}

    def resume(self, spec: RequestSpec, so_far: int) -> None:
        """Hear that `so_far` output tokens of a request are in its prompt."""
        self._begun[spec.id] = spec, so_far

    def execute_model(self, output: SchedulerOutput) -> ModelRunnerOutput:
        if not self._begun:
            return self._runner.execute_model(output)
        return self._runner.execute_model(replace(output, scheduled=tuple(map(self._true_place, output.scheduled))))

    def _true_place(self, item: ScheduledRequest) -> ScheduledRequest:
        if item.request_id not in self._begun:
            return item
        spec, so_far = self._begun[item.request_id]
        return replace(item, output_index=item.output_index + so_far, sampling=spec.sampling)

    # For a store below the pool

    def kv_format(self) -> KVFormat:
        return self._packing().kv_format()

    def pack(self, saved: Any) -> list[KVBytes]:
        return self._packing().pack(saved)

    def unpack(self, block: KVBytes) -> Any:
        return self._packing().unpack(block)

    def _packing(self) -> KVPacker:
        if self._packer is None:
            kind = self._runner.backend.kind
            raise ConfigError(f"the backend {kind!r} has no KV that replicas could share; run without a shared tier")
        return self._packer

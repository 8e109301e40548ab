"""Computes a batch that fails for the second time in parts, so that one bad request does not take others with it."""

from __future__ import annotations

import dataclasses

from scheduler_core.output import ModelRunnerOutput, SampledToken, ScheduledRequest, SchedulerOutput
from scheduler_core.serving.attempt import is_retry
from scheduler_core.serving.runner_proxy import ServedRunnerProxy


class SplittingRunner(ServedRunnerProxy):
    """The first failure fails the whole batch, as it may be a passing one.

    If a batch fails in which somebody tries again, its halves are computed apart, down to the requests that fail alone.
    Computing a batch again is harmless: the same KV goes to the same blocks.
    """

    def execute_model(self, output: SchedulerOutput) -> ModelRunnerOutput:
        try:
            return super().execute_model(output)
        except Exception:
            if len(output.scheduled) < 2 or not any(is_retry(item.request_id) for item in output.scheduled):
                raise
        sampled: dict[str, SampledToken] = {}
        failed: dict[str, str] = {}
        half = len(output.scheduled) // 2
        seconds = self._part(output, output.scheduled[:half], sampled, failed)
        seconds += self._part(output, output.scheduled[half:], sampled, failed)
        return ModelRunnerOutput(sampled, seconds, failed or None)

    def _part(
        self,
        output: SchedulerOutput,
        items: tuple[ScheduledRequest, ...],
        sampled: dict[str, SampledToken],
        failed: dict[str, str],
    ) -> float:
        """Compute some of the batch into `sampled` and `failed`; returns the seconds it took."""
        try:
            result = super().execute_model(dataclasses.replace(output, scheduled=items))
        except Exception as problem:
            if len(items) == 1:
                failed[items[0].request_id] = f"the model failed: {type(problem).__name__}: {problem}"
                return 0.0
            half = len(items) // 2
            return sum(self._part(output, part, sampled, failed) for part in (items[:half], items[half:]))
        sampled |= result.sampled
        failed |= result.failed or {}
        return result.wall_seconds

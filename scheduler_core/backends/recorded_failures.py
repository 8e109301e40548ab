"""Calls of the model that failed in a recorded run fail again where the run is repeated."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from scheduler_core.backends.base import ModelRunner
from scheduler_core.backends.runner_proxy import RunnerProxy
from scheduler_core.errors import ModelError
from scheduler_core.events import FaultInjected, RequestFinished
from scheduler_core.output import ModelRunnerOutput, SchedulerOutput
from scheduler_core.request import FinishReason
from scheduler_core.trace import TickRecord


class RecordedFailures(RunnerProxy):
    """Fails whole batches, and single requests in a batch, as `records` tell; after these ticks it only passes on."""

    def __init__(self, runner: ModelRunner, records: Sequence[TickRecord]) -> None:
        super().__init__(runner)
        self._records = {record.tick: record for record in records if _failed(record)}

    def execute_model(self, output: SchedulerOutput) -> ModelRunnerOutput:
        record = self._records.get(output.tick)
        # What a tier below had is computed on its own before the batch, and did not fail.
        if record is None or output.scheduled != record.output.scheduled:
            return super().execute_model(output)
        if any(isinstance(event, FaultInjected) and event.name == "forward" for event in record.events):
            raise ModelError("the model failed in the recorded run")
        failed = _failed(record)
        result = super().execute_model(output)
        sampled = {who: token for who, token in result.sampled.items() if who not in failed}
        return dataclasses.replace(result, sampled=sampled, failed={**(result.failed or {}), **failed})


def _failed(record: TickRecord) -> dict[str, str]:
    """Those in the batch of a tick that the model failed."""
    batch = {item.request_id for item in record.output.scheduled}
    return {
        event.request_id: event.message
        for event in record.events
        if isinstance(event, RequestFinished) and event.reason is FinishReason.ERROR and event.request_id in batch
    }

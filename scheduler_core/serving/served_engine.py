"""An engine for days of serving: it forgets whom it has answered, and may record its first ticks for the stage."""

from __future__ import annotations

import dataclasses
import time
from typing import NamedTuple

from scheduler_core.attempts import SERVED
from scheduler_core.backends.base import ModelRunner
from scheduler_core.config import EngineConfig
from scheduler_core.engine import Engine
from scheduler_core.events import Event, FaultInjected
from scheduler_core.output import ModelRunnerOutput, SchedulerOutput
from scheduler_core.refusal import refusal
from scheduler_core.request import Request, RequestSpec
from scheduler_core.serving.runner_proxy import ServedRunnerProxy
from scheduler_core.storage.block_store import BlockStore
from scheduler_core.trace import Counts, Snapshot, TickRecord, Trace


class ModelCall(NamedTuple):
    """A call of the model in progress: when it began on the clock `time.monotonic`, and for whom."""

    began: float
    request_ids: frozenset[str]


class ServedEngine(Engine):
    """Keeps nothing of requests that ended, not even their ids: whoever sends must not use one twice.

    `call` is the call of the model in progress, which any thread may read. The first `record_ticks` ticks are recorded
    in full; `take_recording` hands them over.
    """

    def __init__(
        self,
        config: EngineConfig,
        runner: ModelRunner,
        *,
        record_ticks: int = 0,
        check: bool = False,
        store: BlockStore | None = None,
    ) -> None:
        super().__init__(
            config,
            runner,
            scenario=SERVED,
            title="A live run of the gateway",
            record="full" if record_ticks else "none",
            check=check,
            store=store,
        )
        self._ticks_to_record = record_ticks
        self._recording: Trace | None = None
        self.call: ModelCall | None = None

    @property
    def num_kept(self) -> int:
        """Requests that anything is remembered of."""
        return len(self._sent)

    @property
    def num_free_blocks(self) -> int:
        return self._kv.pool.num_free

    def refusal(self, spec: RequestSpec) -> str | None:
        """Why `spec` could never run; reads settings alone, so that any thread may ask."""
        longest = min(len(spec.prompt_token_ids) + spec.sampling.max_tokens, self.config.max_model_len)
        refused = refusal(Request(spec, 0, longest), self._kv)
        return refused.message if refused else None

    def abort_if_alive(self, request_id: str) -> None:
        """End a request at the start of the next tick, if it has not ended by then."""
        if request_id in self._sent:
            self.abort(request_id)

    def step(self, measured: float | None = None) -> TickRecord:
        """One tick; the last one to record ends the recording."""
        record = super().step(measured)
        if self.is_recording and len(self._recorder.records) >= self._ticks_to_record:
            self._end_recording()
        return record

    @property
    def is_recording(self) -> bool:
        return self._recorder.keeps

    def take_recording(self) -> Trace | None:
        """What was recorded, once; ends a recording that still goes on."""
        if self.is_recording:
            self._end_recording()
        recording, self._recording = self._recording, None
        return recording

    def break_off(self, problem: BaseException) -> Trace | None:
        """The recording of an engine that broke within a tick, with that as its last one; None if there is none."""
        if not self.is_recording:
            return self.take_recording()
        trace = self.trace()
        told = self._planned() or [FaultInjected("engine", "", f"{type(problem).__name__}: {problem}")]
        counts, nobody = Counts(0, 0, 0, 0, 0), Snapshot((), (), (), tuple(range(self.config.num_blocks)), (), 0, 0)
        end = TickRecord(self.tick, self.now, self.now, 0.0, SchedulerOutput(self.tick), tuple(told), counts, nobody)
        return dataclasses.replace(trace, records=(*trace.records, end))

    def _end_recording(self) -> None:
        self._recording = self.trace()
        self._recorder.stop()
        self.scheduler.tell_parts = self._check
        alive = self._roster.requests
        for request_id in [i for i in self._sent if i not in alive]:
            del self._sent[request_id]

    def _execute(self, output: SchedulerOutput) -> ModelRunnerOutput:
        self.call = ModelCall(time.monotonic(), frozenset(item.request_id for item in output.scheduled))
        try:
            result = super()._execute(output)
        finally:
            self.call = None
        self._log += self._planned()
        return result

    def _planned(self) -> list[Event]:
        """What has failed on purpose since the last call of the model."""
        if not isinstance(self._runner, ServedRunnerProxy):
            return []
        return [FaultInjected(f"planned_{kind}", who, words) for kind, who, words in self._runner.take_planned()]

    def _abort_now(self, request_id: str) -> None:
        super()._abort_now(request_id)
        if not self.is_recording:
            self._sent.pop(request_id, None)

    def _forget_ended(self) -> None:
        for request in self._roster.finished:
            self._sent.pop(request.id, None)

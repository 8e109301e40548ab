"""Our scheduler as a contender: a whole step of the engine but for the model."""

from __future__ import annotations

from time import perf_counter

from scheduler_core.bench.scheduler.contender import MeasuredTick
from scheduler_core.config import EngineConfig
from scheduler_core.conformance import StubRunner
from scheduler_core.engine import Engine
from scheduler_core.events import RequestFinished
from scheduler_core.output import ModelRunnerOutput, SampledToken, SchedulerOutput
from scheduler_core.request import RequestSpec

_TOKEN = SampledToken(7)


class InstantModel(StubRunner):
    """Draws the same token for everybody; keeps the last batch, and the seconds it took to answer."""

    def __init__(self) -> None:
        super().__init__(())
        self.batch = SchedulerOutput(0)
        self.seconds = 0.0

    def execute_model(self, output: SchedulerOutput) -> ModelRunnerOutput:
        start = perf_counter()
        self.batch = output
        answer = ModelRunnerOutput({item.request_id: _TOKEN for item in output.scheduled if item.samples})
        self.seconds = perf_counter() - start
        return answer


class OurScheduler:
    """An engine that keeps a summary and does not check its laws."""

    includes = "Engine.step() with its events and a summary record, arrivals and the cost model; not the model's answer"

    def __init__(self, name: str, config: EngineConfig) -> None:
        self.name = name
        self._model = InstantModel()
        self._engine = Engine(config, self._model, record="summary", check=False)

    def add(self, spec: RequestSpec) -> None:
        self._engine.add_request(spec)

    def tick(self) -> MeasuredTick:
        start = perf_counter()
        record = self._engine.step()
        seconds = perf_counter() - start - self._model.seconds
        scheduled = {item.request_id: item.num_tokens for item in self._model.batch.scheduled}
        return MeasuredTick(seconds, scheduled, sum(isinstance(e, RequestFinished) for e in record.events))

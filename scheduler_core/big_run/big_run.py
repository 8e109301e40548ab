"""`BigRun`: a load on a simulated machine, kept as facts of requests and numbers of ticks; windows of it in full."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, replace
from typing import Any

from scheduler_core.big_run.checkpoints import Checkpoints
from scheduler_core.big_run.simulation import Simulation
from scheduler_core.big_run.tick_series import TickSeries
from scheduler_core.config import EngineConfig
from scheduler_core.errors import TraceError
from scheduler_core.load.request import Load
from scheduler_core.request import RequestSpec
from scheduler_core.request_facts import FactsCollector, RequestFacts
from scheduler_core.summary import Targets, summarise
from scheduler_core.trace import TickRecord, Trace

MAX_TICKS = 5_000_000
MAX_WINDOW_TICKS = 2_000

#: A full record names every block, so a window of a large memory has to be shorter: this many block names in all.
MAX_WINDOW_BLOCKS = 8_000_000

#: Ticks between two calls of `progress` and `should_stop`.
_STRIDE = 256
#: Ticks of a window that are computed at a stretch.
_WINDOW_STRIDE = 16

#: Called with the requests that have ended, all of them, and the tick.
Progress = Callable[[int, int, int], None]


@dataclass(frozen=True, slots=True)
class BigResult:
    """A run so far: `is_complete` tells whether every request of the load was sent and has ended."""

    config: EngineConfig
    facts: tuple[RequestFacts, ...]
    series: TickSeries
    num_requests: int
    is_complete: bool

    def figures(self, targets: Targets | None = None) -> dict[str, Any]:
        """vLLM's result keys and ours; throughput is per second until the last tick that ended."""
        return summarise(self.facts, self.seconds, targets)

    @property
    def seconds(self) -> float:
        """Virtual time from the first arrival to the end of the last tick."""
        if not self.facts or not len(self.series):
            return 0.0
        return max(0.0, self.series.end_s[-1] - min(each.arrival for each in self.facts))


class BigRun:
    """May be advanced, stopped and gone on with; what there is so far can be had at any time."""

    def __init__(
        self,
        config: EngineConfig,
        load: Load,
        *,
        scenario: str = "",
        title: str = "",
        checkpoints: Checkpoints | None = None,
    ) -> None:
        self.config = config
        self.series = TickSeries()
        self._load = load
        self._title = title
        self._collector = FactsCollector()
        self._checkpoints = Checkpoints() if checkpoints is None else checkpoints
        self._names = {"scenario": scenario, "title": title}
        self._simulation = Simulation(config, load, self._collector.meet, **self._names)

    @property
    def is_over(self) -> bool:
        return len(self.series) >= MAX_TICKS or self._simulation.is_over

    @property
    def num_ended(self) -> int:
        return self._collector.num_ended

    def advance(self, ticks: int) -> bool:
        """Up to `ticks` more ticks; whether anything is left to do after them."""
        simulation, series, collector = self._simulation, self.series, self._collector
        for _ in range(ticks):
            if self.is_over:
                return False
            self._checkpoints.offer(len(series), simulation.save)
            record = simulation.step()
            series.append(record, collector.read(record))
        return not self.is_over

    def run(self, progress: Progress | None = None, should_stop: Callable[[], bool] | None = None) -> BigResult:
        """Go on until all is done, or `should_stop` says so."""
        for _ in self.steps(_STRIDE, progress, should_stop):
            pass
        return self.result()

    def steps(
        self, stride: int, progress: Progress | None = None, should_stop: Callable[[], bool] | None = None
    ) -> Iterator[None]:
        """The same, given back to the caller every `stride` ticks, so that several runs can take turns."""
        while not (should_stop and should_stop()) and self.advance(stride):
            if progress:
                progress(self.num_ended, len(self._load), len(self.series))
            yield
        if progress:
            progress(self.num_ended, len(self._load), len(self.series))

    def result(self) -> BigResult:
        """What there is so far."""
        complete = self._simulation.is_over and self._simulation.num_sent == len(self._load)
        facts = tuple(self._collector.facts())
        return BigResult(self.config, facts, self.series, len(self._load), complete)

    # Windows

    @property
    def most_window_ticks(self) -> int:
        """The longest window of this run."""
        return max(1, min(MAX_WINDOW_TICKS, MAX_WINDOW_BLOCKS // self.config.num_blocks))

    def window(self, first: int, last: int) -> Trace:
        """The ticks `first .. last` in full, as a run of its own whose tick 0 is `first`; raises `TraceError`.

        Found by running again from the nearest checkpoint before. Its requests are those that were there or came; what
        had happened to them before is only in the first snapshot, so their latencies are to be had from `result`.
        """
        steps = self.window_steps(first, last)
        while True:
            try:
                next(steps)
            except StopIteration as over:
                trace: Trace = over.value
                return trace

    def window_steps(self, first: int, last: int) -> Generator[None, None, Trace]:
        """The same, given back to the caller every few ticks; what it returns in the end is the window."""
        self._check_window(first, last)
        simulation, start = self._checkpoint_before(first)
        for tick in range(start, last + 1):
            if tick == first:
                simulation.engine.record_fully()
            self._repeat(simulation, tick)
            if tick % _WINDOW_STRIDE == 0:
                yield
        return _renumbered(simulation.engine.trace(), first)

    def _check_window(self, first: int, last: int) -> None:
        ticks = len(self.series)
        if not 0 <= first <= last < ticks:
            raise TraceError(f"the window is ticks {first} to {last}; this run has ticks 0 to {ticks - 1}")
        if last - first >= self.most_window_ticks:
            raise TraceError(f"the window has {last - first + 1} ticks; at most {self.most_window_ticks} can be shown")

    def _checkpoint_before(self, tick: int) -> tuple[Simulation, int]:
        """A simulation that stands at the start of a tick at or before `tick`, and that tick."""
        if found := self._checkpoints.before(tick):
            at, saved = found
            return Simulation.restore(saved, self._load, _ignore), at
        return Simulation(self.config, self._load, _ignore, **self._names), 0

    def _repeat(self, simulation: Simulation, tick: int) -> TickRecord:
        record = simulation.step()
        if not self.series.is_same(tick, record):
            raise TraceError(f"tick {tick} cannot be reproduced: it decides differently this time")
        return record


def _ignore(spec: RequestSpec, tenant: str) -> None:
    """A run that is repeated has met everybody before."""


def _renumbered(trace: Trace, first: int) -> Trace:
    last = first + len(trace.records) - 1
    title = f"{trace.title or trace.scenario}: ticks {first:,} to {last:,}".removeprefix(": ")
    records = tuple(
        replace(record, tick=number, output=replace(record.output, tick=number))
        for number, record in enumerate(trace.records)
    )
    requests = tuple(replace(spec, prompt_token_ids=tuple(spec.prompt_token_ids)) for spec in trace.requests)
    return replace(trace, title=title, requests=requests, records=records)

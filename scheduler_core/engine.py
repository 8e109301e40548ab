"""Runs a workload tick by tick and records it: arrive, schedule, execute, commit, record."""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from scheduler_core.arrivals import Arrivals
from scheduler_core.audit import Audit
from scheduler_core.backends.base import ModelRunner
from scheduler_core.backends.kv_bytes import KVPacker
from scheduler_core.backends.recorded_failures import RecordedFailures
from scheduler_core.backends.replay import ReplayRunner
from scheduler_core.chunk_control import chunk_control, is_changed
from scheduler_core.config import FIXED_FIELDS, EngineConfig
from scheduler_core.copies import Copies
from scheduler_core.cost_model import machine, tick_seconds
from scheduler_core.errors import ConfigError, RequestError, TickscopeError, TraceError
from scheduler_core.events import (
    ConfigChanged,
    Event,
    FaultInjected,
    FaultSwitchedOn,
    LawBroken,
    RequestFinished,
)
from scheduler_core.faults import FAULTS, build_parts
from scheduler_core.integrity import check_integrity
from scheduler_core.kv_cache_manager import KVCacheManager
from scheduler_core.laws import BrokenLaw, Law
from scheduler_core.lower_tier import LowerTier, RecordedTier, StoreTier
from scheduler_core.output import ModelRunnerOutput, SchedulerOutput
from scheduler_core.recorder import Recorder
from scheduler_core.request import FinishReason, RequestSpec
from scheduler_core.trace import SCHEMA_VERSION, TickRecord, Trace

if TYPE_CHECKING:
    from scheduler_core.storage.block_store import BlockStore

MAX_TICKS = 100_000
RECORD_MODES = ("full", "summary", "none")
Progress = Callable[[int, int, int], None]


class Engine:
    """One run. `record` is "full", or "summary" for big ones (no snapshots, no batches, tokens without candidates).

    With "none" each summary is only returned by `step`, and who has ended is forgotten, so that memory stays bounded.
    `check` verifies the laws after every tick. `faults` names mistakes to build in (see `faults.py`): then a law that
    breaks is recorded and ends the run. `store` keeps KV blocks below the block pool: what memory lacks is asked there.
    """

    def __init__(
        self,
        config: EngineConfig,
        runner: ModelRunner,
        *,
        scenario: str = "",
        title: str = "",
        record: str = "full",
        check: bool = True,
        faults: Sequence[str] = (),
        store: BlockStore | None = None,
    ) -> None:
        if record not in RECORD_MODES:
            raise ConfigError(f"record is {record!r}; it must be one of {', '.join(RECORD_MODES)}")
        if runner.max_model_len is not None and config.max_model_len > runner.max_model_len:
            raise ConfigError(
                f"max_model_len is {config.max_model_len}; the model takes at most {runner.max_model_len} tokens"
            )
        self.config = config
        self.tick = 0
        self.now = 0.0
        self._first_config = config
        self._runner = runner
        self._backend = runner.backend
        self._scenario = scenario
        self._title = title
        self._check = check
        self._machine = machine(config.cost)
        self._chunks = chunk_control(config)
        self._log: list[Event] = []
        block_bytes = self._backend.kv_bytes_per_token * config.block_size
        parts = build_parts(faults)
        self._kv = parts.kv_cache_manager(config, self._backend.weights_digest, self._backend.dtype, self._log)
        self.scheduler = parts.scheduler(
            config,
            self._kv,
            self._log,
            block_bytes=block_bytes,
            eos_token_ids=runner.eos_token_ids,
            tell_parts=check or record == "full",
        )
        self.scheduler.resize(self._chunks.in_force(config))
        self._roster = self.scheduler.roster
        self._recorder = Recorder(
            self._roster, self._kv, runner.token_text, full=record == "full", keeps=record != "none"
        )
        self._faults = tuple(faults)
        self._log += [FaultSwitchedOn(name, FAULTS[name].description) for name in faults]
        self._has_stopped = False
        self._sent: dict[str, RequestSpec] = {}
        self._forgotten: set[str] = set()
        self._audit = Audit(config.block_size, self._sent)
        self._arrivals = Arrivals()
        self._aborts: list[str] = []
        self._empty_ticks = 0
        runner.allocate(config.num_blocks, config.block_size)
        self.copies = Copies(self.scheduler, self._kv, runner, self._log, config.block_size)
        if store is not None:
            self._ask(_store_tier(store, self._kv, runner))
            self._kv.evicted = deque()

    # What users do, between ticks

    def add_request(self, spec: RequestSpec) -> None:
        """Send a request; it arrives in the first tick that starts at its arrival time or later."""
        if spec.id in self._sent or spec.id in self._forgotten:
            raise RequestError(f"there is a request {spec.id!r} already; give the new one another id")
        self._sent[spec.id] = spec
        self._arrivals.send(spec)
        self._recorder.meet(spec)

    def abort(self, request_id: str) -> None:
        """End a request at the start of the next tick; nothing happens if it has finished already."""
        if request_id not in self._sent:
            raise RequestError(f"there is no request {request_id!r} to abort")
        self._aborts.append(request_id)

    def reconfigure(self, config: EngineConfig) -> None:
        """Change settings from the next tick on; those that shape memory or randomness are fixed for a run."""
        changes = config.changed_from(self.config)
        if fixed := [name for name in changes if name in FIXED_FIELDS]:
            raise ConfigError(f"{fixed[0]} cannot change during a run; start the run again with the new value")
        if not changes:
            return
        as_text = tuple((name, _text(old), _text(new)) for name, (old, new) in changes.items())
        self._log.append(ConfigChanged(as_text))
        if is_changed(self.config, config):
            self._chunks = chunk_control(config, self._chunks)
        self.config = config
        self.copies.save(self.scheduler.reconfigure(self._chunks.in_force(config), self.tick))

    def answer_as(self, trace: Trace) -> None:
        """Let the tiers below answer as they did in a recorded run."""
        self._ask(RecordedTier(trace))

    def _ask(self, tier: LowerTier) -> None:
        size = self.config.block_size
        self.copies.tier = tier
        self.scheduler.loading.attach(tier, lambda name, blocks: self._machine.load_seconds(name, blocks * size))

    def record_fully(self) -> None:
        """Keep full records from the next tick on, of those who are still there; `trace` begins with that tick."""
        self._first_config = self.config
        self._recorder.begin_anew(self._sent.values())
        self.scheduler.tell_parts = True

    # Ticks

    @property
    def has_work(self) -> bool:
        return bool(self._arrivals or self._roster.requests) and not self._has_stopped

    def step(self, measured: float | None = None) -> TickRecord:
        """One tick; `measured` are the seconds that its forward took when it was first run, where it is repeated."""
        if self._has_stopped:
            raise TickscopeError("this run has stopped: a deliberate mistake broke a law; start it again")
        self._arrive()
        if not self._roster.requests:
            return self._idle()
        decided = self.scheduler.schedule(self.tick)
        self._alarm_if_stuck(decided)
        output = self.copies.make(decided)
        result = self._execute(output)
        self.scheduler.update_from_output(output, result)
        if self._check:
            self._check_laws(output)
        wall_seconds = result.wall_seconds if measured is None else measured
        end = self.now + tick_seconds(output, self._machine, self.config.block_size)
        self._steer(output, end, wall_seconds)
        return self._close(output, end, wall_seconds)

    def run(self, max_ticks: int = MAX_TICKS, progress: Progress | None = None) -> Trace:
        """Step until nothing is left to do, or `max_ticks` ticks were made; `progress(tick, finished, sent)`."""
        finished = 0
        for _ in range(max_ticks):
            if not self.has_work:
                break
            record = self.step()
            if progress:
                finished += sum(isinstance(event, RequestFinished) for event in record.events)
                progress(record.tick, finished, len(self._sent))
        return self.trace()

    def trace(self) -> Trace:
        """The run so far."""
        return Trace(
            SCHEMA_VERSION,
            self._scenario,
            self._title,
            self._first_config,
            self._backend,
            tuple(self._sent.values()),
            dict(self._recorder.token_texts),
            tuple(self._recorder.records),
        )

    def replace_last_record(self, record: TickRecord) -> None:
        """Keep `record` for the last tick: the same decisions, with the times and tokens first measured."""
        self._recorder.replace_last(record)

    # The steps of a tick

    def _arrive(self) -> None:
        for request_id in self._aborts:
            self._abort_now(request_id)
        self._aborts.clear()
        for spec in self._arrivals.due(self.now):
            self.scheduler.add(spec, self.tick)

    def _abort_now(self, request_id: str) -> None:
        if request_id in self._roster.requests:
            self.scheduler.abort(request_id, self.tick)
        elif self._arrivals.withdraw(request_id):
            self._log.append(RequestFinished(request_id, FinishReason.ABORT, "aborted before it arrived"))

    def _idle(self) -> TickRecord:
        """Nothing to compute: the clock jumps to the next arrival."""
        if self._check:
            self._check_laws(SchedulerOutput(self.tick))
        next_time = self._arrivals.next_time
        return self._close(SchedulerOutput(self.tick), self.now if next_time is None else next_time, 0.0)

    def _execute(self, output: SchedulerOutput) -> ModelRunnerOutput:
        """One forward pass. One that raises fails every request of the batch, and only those."""
        if not output.scheduled:
            return ModelRunnerOutput({})
        try:
            return self._runner.execute_model(output)
        except Exception as problem:
            message = f"the model failed: {type(problem).__name__}: {problem}"
            self._log.append(FaultInjected("forward", "", message))
            return ModelRunnerOutput({}, failed={item.request_id: message for item in output.scheduled})

    def _steer(self, output: SchedulerOutput, end: float, wall_seconds: float) -> None:
        """Let chunk control look at the tick; what it moves holds from the next one on."""
        told = self._chunks.steer(output, self.now, end, wall_seconds, self._log)
        if told is None:
            return
        self._log.append(told)
        if told.new != told.old:
            self.scheduler.resize(self._chunks.in_force(self.config))

    def _forget_ended(self) -> None:
        for request in self._roster.finished:
            del self._sent[request.id]
            self._forgotten.add(request.id)

    def _check_laws(self, output: SchedulerOutput) -> None:
        """Raise `BrokenLaw`; in a run with deliberate mistakes record it and stop instead."""
        try:
            check_integrity(self._roster, self._kv, output)
            self._audit.read(self._log, self.config)
        except BrokenLaw as broken:
            if not self._faults:
                raise
            self._log.append(LawBroken(broken.law, broken.detail))
            self._has_stopped = True

    def _alarm_if_stuck(self, decided: SchedulerOutput) -> None:
        self._empty_ticks = 0 if decided.scheduled else self._empty_ticks + 1
        if self._empty_ticks >= 2 and self._roster.requests:
            raise BrokenLaw(Law.PROGRESS, "there is work, but nothing was scheduled in two ticks")

    def _close(self, output: SchedulerOutput, end: float, wall_seconds: float) -> TickRecord:
        self.copies.forget_saved()
        self.copies.keep_finished()
        record = self._recorder.record(output, self._log, self.now, end, wall_seconds)
        self._log.clear()
        if not self._recorder.keeps:
            self._forget_ended()
        self._roster.finished.clear()
        self.tick += 1
        self.now = end
        return record


def _store_tier(store: BlockStore, kv: KVCacheManager, runner: ModelRunner) -> StoreTier:
    if not isinstance(runner, KVPacker):
        raise ConfigError(f"the backend {runner.backend.kind!r} has no KV that a store could keep; run without a store")
    return StoreTier(store, kv, runner, runner)


def _text(value: object) -> str:
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def fork(
    trace: Trace,
    tick: int,
    config: EngineConfig,
    runner: ModelRunner | None = None,
    *,
    add: Sequence[RequestSpec] = (),
    abort: Sequence[str] = (),
    max_ticks: int = MAX_TICKS,
) -> Trace:
    """The same run up to `tick`, and from there on with `config`, without those in `abort` and with those in `add`.

    What is added arrives in `tick` at the earliest. Without a runner the recorded tokens are used; those of added
    requests are not recorded. The ticks before are those of `trace`, to the byte; raises `TraceError` if they cannot
    be reproduced. `max_ticks` bounds the whole run.
    """
    engine = replay_to(trace, tick, runner or ReplayRunner(trace))
    engine.reconfigure(config)
    for request_id in abort:
        engine.abort(request_id)
    for spec in add:
        engine.add_request(dataclasses.replace(spec, arrival_time=max(spec.arrival_time, engine.now)))
    return engine.run(max(0, max_ticks - tick))


def replay_to(trace: Trace, tick: int, runner: ModelRunner) -> Engine:
    """An engine that has lived through the first `tick` ticks of `trace` and can go on differently."""
    if not 0 <= tick <= len(trace.records):
        raise TraceError(f"tick is {tick}; the trace has ticks 0 to {len(trace.records)}")
    # A run with mistakes goes on where it stopped.
    engine = Engine(
        trace.config,
        RecordedFailures(runner, trace.records[:tick]),
        scenario=trace.scenario,
        title=trace.title,
        check=not trace.faults,
        faults=trace.faults,
    )
    engine.answer_as(trace)
    for spec in trace.requests:
        engine.add_request(spec)
    for record in trace.records[:tick]:
        _repeat_commands(engine, trace, record)
        again = engine.step(record.wall_seconds)
        if again.output != record.output or again.snapshot != record.snapshot:
            raise TraceError(f"tick {record.tick} cannot be reproduced: it decides differently this time")
        engine.replace_last_record(record)
    return engine


def _repeat_commands(engine: Engine, trace: Trace, record: TickRecord) -> None:
    for event in record.events:
        if isinstance(event, ConfigChanged):
            engine.reconfigure(trace.settings_at(record.tick))
        elif isinstance(event, RequestFinished) and event.reason is FinishReason.ABORT:
            engine.abort(event.request_id)

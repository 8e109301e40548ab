"""Sets the chunk size or the budget between ticks: by a PID on what a tick takes, or by a ramp that measures nothing.

A PID works on logarithms: its error is by how many doublings the measured time is off the target, and its output is the
size, so that the same gains do on every machine and for every target.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from math import log2
from typing import Protocol

from simple_pid import PID

from scheduler_core.chunk_range import ChunkRange, in_force, is_steered
from scheduler_core.config import EngineConfig
from scheduler_core.events import ChunkSteered, Event, RequestFinished, SteerReason, TokenSampled
from scheduler_core.metrics import percentile
from scheduler_core.output import SchedulerOutput

#: Gains of the PID by name: proportional, integral, derivative. Above an integral gain of 2 it swings for good.
GAINS: dict[str, tuple[float, float, float]] = {
    "calm": (0.05, 0.25, 0.0),
    "usual": (0.05, 0.8, 0.05),
    "nervous": (0.0, 2.1, 0.0),
}
#: Within this share of the target it is met: sizes are whole tokens, so it can rarely be met to the microsecond.
TOLERANCE = 0.05
#: Gaps between tokens are looked at over so many ticks, and only those since the size last changed.
WINDOW = 8

_TARGET_FIELDS = ("chunk_control", "chunk_target_ms", "chunk_signal", "chunk_moves", "chunk_response")


class ChunkControl(Protocol):
    """What decides, after each tick, on the sizes of the next one."""

    def in_force(self, config: EngineConfig) -> EngineConfig:
        """The settings with the size as it stands."""

    def steer(
        self, output: SchedulerOutput, start: float, end: float, wall: float, events: Sequence[Event]
    ) -> ChunkSteered | None:
        """Take in a tick: its batch, its virtual start and end, its measured length and what happened in it."""


def chunk_control(config: EngineConfig, before: ChunkControl | None = None) -> ChunkControl:
    """The control that a configuration asks for; it takes over the size from the one `before` it."""
    if not is_steered(config):
        return FixedChunks()
    limits = ChunkRange.of(config)
    start = before.size if isinstance(before, SteeredChunks) and before.setting == limits.setting else None
    if config.chunk_control == "ramp":
        return RampedChunks(limits, config.block_size, start)
    return PidChunks(config, limits, start)


def is_changed(old: EngineConfig, new: EngineConfig) -> bool:
    """Whether the change concerns chunk control: then it starts anew, from the size that it has reached."""
    if any(getattr(old, name) != getattr(new, name) for name in _TARGET_FIELDS) or is_steered(old) != is_steered(new):
        return True
    return is_steered(new) and ChunkRange.of(old) != ChunkRange.of(new)


class FixedChunks:
    """Moves nothing."""

    def in_force(self, config: EngineConfig) -> EngineConfig:
        return config

    def steer(
        self, output: SchedulerOutput, start: float, end: float, wall: float, events: Sequence[Event]
    ) -> ChunkSteered | None:
        return None


class SteeredChunks:
    """A size that moves within its limits."""

    def __init__(self, limits: ChunkRange, start: int) -> None:
        self._limits = limits
        self.size = limits.nearest(start)

    @property
    def setting(self) -> str:
        return self._limits.setting

    def in_force(self, config: EngineConfig) -> EngineConfig:
        return in_force(config, self.size)


class RampedChunks(SteeredChunks):
    """A block more in every tick that reads a prompt, from the lower end; back to it when none is read."""

    def __init__(self, limits: ChunkRange, step: int, start: int | None) -> None:
        super().__init__(limits, limits.low if start is None else start)
        self._step = step

    def steer(
        self, output: SchedulerOutput, start: float, end: float, wall: float, events: Sequence[Event]
    ) -> ChunkSteered | None:
        if not output.scheduled:
            return None
        old, reads = self.size, any(not item.is_decode for item in output.scheduled)
        self.size = self._limits.nearest(old + self._step) if reads else self._limits.low
        return ChunkSteered(self.setting, old, self.size, 0.0, end - start, 0.0, SteerReason.RAMP)


class PidChunks(SteeredChunks):
    """Keeps a time near its target. It learns nothing from a tick that another size would not have changed."""

    def __init__(self, config: EngineConfig, limits: ChunkRange, start: int | None) -> None:
        super().__init__(limits, limits.high if start is None else start)
        self._target = config.chunk_target_ms / 1_000
        self._signal = config.chunk_signal
        self._gaps = Gaps()
        p, i, d = GAINS[config.chunk_response]
        self._pid = PID(
            p,
            i,
            d,
            setpoint=0.0,
            sample_time=None,
            output_limits=(log2(limits.low), log2(limits.high)),
            starting_output=log2(self.size),
            time_fn=_no_clock,
        )

    def steer(
        self, output: SchedulerOutput, start: float, end: float, wall: float, events: Sequence[Event]
    ) -> ChunkSteered | None:
        self._gaps.take(events, end)
        if not output.scheduled:
            return None
        measured = self._measure(end - start, wall)
        old = self.size
        if measured is None:
            return ChunkSteered(self.setting, old, old, self._target, 0.0, 0.0, SteerReason.NOT_MEASURED)
        reason = self._decide(output, measured)
        if self.size != old:
            self._gaps.forget()
        return ChunkSteered(self.setting, old, self.size, self._target, measured, self._target - measured, reason)

    def _measure(self, seconds: float, wall: float) -> float | None:
        if self._signal == "itl_p99":
            return self._gaps.p99()
        return (wall or None) if self._signal == "measured_tick" else seconds

    def _decide(self, output: SchedulerOutput, measured: float) -> SteerReason:
        """Move the size where that can help; hold it, without adding up what cannot be helped, where it cannot."""
        if abs(measured - self._target) <= TOLERANCE * self._target:
            return SteerReason.ON_TARGET
        is_late = measured > self._target
        if not (self._could_shrink(output) if is_late else self._could_grow(output)):
            return SteerReason.NOTHING_TO_CUT
        old, used = self.size, self._used(output)
        if is_late and used < old:
            # What was not even used up is too large: go on from what was.
            self._go_on_from(used)
        wanted = self._pid(log2(measured / self._target), dt=1.0)
        assert wanted is not None, "a PID with limits has an output"
        self.size = self._limits.nearest(round(2.0**wanted))
        if self.size == old and old in (self._limits.low, self._limits.high):
            if is_late and old == self._limits.low:
                return SteerReason.AT_LOWEST
            if not is_late and old == self._limits.high:
                return SteerReason.AT_HIGHEST
        return SteerReason.TOO_SLOW if is_late else SteerReason.FASTER_THAN_NEEDED

    @staticmethod
    def _could_shrink(output: SchedulerOutput) -> bool:
        return any(not item.is_decode for item in output.scheduled)

    def _could_grow(self, output: SchedulerOutput) -> bool:
        """Whether the size was what bounded somebody."""
        return self._could_shrink(output) and self._used(output) >= self.size

    def _used(self, output: SchedulerOutput) -> int:
        """How much of the size the tick took: the whole batch of a budget, else the largest chunk."""
        if self.setting == "max_num_batched_tokens":
            return output.num_scheduled_tokens
        return max((item.num_tokens for item in output.scheduled if not item.is_decode), default=0)

    def _go_on_from(self, size: int) -> None:
        self._pid.set_auto_mode(False)
        self._pid.set_auto_mode(True, last_output=log2(max(size, self._limits.low)))


class Gaps:
    """The times between two tokens of an answer, of the last ticks."""

    def __init__(self) -> None:
        self._last: dict[str, float] = {}
        self._ticks: deque[tuple[float, ...]] = deque(maxlen=WINDOW)

    def take(self, events: Sequence[Event], now: float) -> None:
        found = []
        for event in events:
            if isinstance(event, TokenSampled):
                if event.request_id in self._last:
                    found.append(now - self._last[event.request_id])
                self._last[event.request_id] = now
            elif isinstance(event, RequestFinished):
                self._last.pop(event.request_id, None)
        self._ticks.append(tuple(found))

    def p99(self) -> float | None:
        return percentile((gap for gaps in self._ticks for gap in gaps), 99)

    def forget(self) -> None:
        """Gaps under another size tell nothing about this one."""
        self._ticks.clear()


def _no_clock() -> float:
    """A PID asks for the time even where it is told how much has passed."""
    return 0.0

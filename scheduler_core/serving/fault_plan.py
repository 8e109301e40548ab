"""Faults of the model and of copies, injected by a plan: to see retries and dead letters work. Not the fault museum."""

from __future__ import annotations

import dataclasses
import math
import time
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scheduler_core.backends.base import CopyError
from scheduler_core.errors import ConfigError
from scheduler_core.output import ModelRunnerOutput, SchedulerOutput
from scheduler_core.serving.runner_proxy import ServedRunnerProxy
from scheduler_core.serving.served_model import ServedRunner

KINDS = ("raise", "nan", "slow", "copy_out", "copy_in")


@dataclass(frozen=True, slots=True)
class PlannedFault:
    """Happens at call number `first` (from 1) and the `count - 1` after it, and again every `every` calls (0 = never).

    Calls of the model are counted for "raise", "nan" (the first request of the batch gets no number) and "slow" (the
    call takes `seconds` longer), copies in their direction for "copy_out" and "copy_in".
    """

    kind: str
    first: int = 1
    count: int = 1
    every: int = 0
    seconds: float = 0.0

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ConfigError(f"kind is {self.kind!r}; it must be one of {', '.join(KINDS)}")
        for name, least in (("first", 1), ("count", 1), ("every", 0)):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise ConfigError(f"{name} is {value!r}; it must be a whole number, at least {least}")
        if not isinstance(self.seconds, int | float) or not 0 <= self.seconds < math.inf:
            raise ConfigError(f"seconds is {self.seconds!r}; it must be a number, at least 0")

    def happens_at(self, call: int) -> bool:
        since = call - self.first
        return since >= 0 and (since % self.every if self.every else since) < self.count


def load_fault_plan(path: Path) -> tuple[PlannedFault, ...]:
    """The `[[faults]]` of a TOML file; raises `ConfigError`."""
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8")).get("faults")
    except (OSError, ValueError) as problem:
        raise ConfigError(f"the fault plan {path} cannot be read: {problem}") from None
    if not isinstance(tables, list) or not tables or not all(isinstance(table, dict) for table in tables):
        raise ConfigError(f"the fault plan {path} has no [[faults]]; each needs at least a kind")
    return tuple(_fault(table, path) for table in tables)


def _fault(table: dict[str, Any], path: Path) -> PlannedFault:
    known = [field.name for field in dataclasses.fields(PlannedFault)]
    if unknown := sorted(set(table) - set(known)):
        raise ConfigError(f"the fault plan {path} has {unknown[0]!r}; a fault has {', '.join(known)}")
    if "kind" not in table:
        raise ConfigError(f"a fault in {path} has no kind; it must be one of {', '.join(KINDS)}")
    try:
        return PlannedFault(**table)
    except ConfigError as problem:
        raise ConfigError(f"the fault plan {path}: {problem}") from None


class PlannedFailure(Exception):
    """What a planned call of the model raises."""


class FaultyRunner(ServedRunnerProxy):
    """A runner with planned faults."""

    def __init__(self, runner: ServedRunner, plan: tuple[PlannedFault, ...]) -> None:
        super().__init__(runner)
        self._plan = plan
        self._calls = dict.fromkeys(("model", "copy_out", "copy_in"), 0)

    def execute_model(self, output: SchedulerOutput) -> ModelRunnerOutput:
        faults = self._due("model", ("raise", "nan", "slow"))
        for fault in faults:
            if fault.kind == "slow":
                time.sleep(fault.seconds)
        if any(fault.kind == "raise" for fault in faults):
            raise PlannedFailure(f"planned for call {self._calls['model']}")
        result = super().execute_model(output)
        return _without_number(result, output) if any(fault.kind == "nan" for fault in faults) else result

    def copy_out(self, block_ids: tuple[int, ...]) -> Any:
        if self._due("copy_out", ("copy_out",)):
            raise CopyError("the copy to the host failed, as planned")
        return super().copy_out(block_ids)

    def copy_in(self, saved: Any, first_block: int, block_ids: tuple[int, ...]) -> None:
        if self._due("copy_in", ("copy_in",)):
            raise CopyError("the copy from the host failed, as planned")
        super().copy_in(saved, first_block, block_ids)

    def _due(self, counter: str, kinds: tuple[str, ...]) -> list[PlannedFault]:
        self._calls[counter] += 1
        return [fault for fault in self._plan if fault.kind in kinds and fault.happens_at(self._calls[counter])]


def _without_number(result: ModelRunnerOutput, output: SchedulerOutput) -> ModelRunnerOutput:
    victim = output.scheduled[0].request_id
    sampled = {request_id: token for request_id, token in result.sampled.items() if request_id != victim}
    failed = {**(result.failed or {}), victim: "the model computed values that are not numbers (NaN), as planned"}
    return dataclasses.replace(result, sampled=sampled, failed=failed)

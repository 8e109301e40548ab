"""Faults of the model, of copies and of caches, injected by a plan: to see retries and dead letters work.

Not the fault museum: nothing here breaks a law. A plan may be switched while it serves.
"""

from __future__ import annotations

import dataclasses
import os
import signal
import threading
import time
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from scheduler_core.backends.base import CopyError
from scheduler_core.errors import ConfigError
from scheduler_core.output import ModelRunnerOutput, SchedulerOutput
from scheduler_core.serving.runner_proxy import PlannedFaults, ServedRunnerProxy
from scheduler_core.serving.served_model import ServedRunner
from scheduler_core.storage.backing import Backing
from scheduler_core.storage.faulty_backing import FaultyBacking

#: Kind -> what goes wrong.
KINDS = {
    "raise": "the model raised",
    "nan": "the model computed no number",
    "slow": "the model was slow",
    "copy_out": "a copy to the host failed",
    "copy_in": "a copy from the host failed",
    "store_full": "a cache took nothing more",
    "store_gone": "a cache did not answer",
    "worker_killed": "the engine's thread was killed",
}
_MODEL = ("raise", "nan", "slow", "worker_killed")
#: So that a plan of somebody else stays small.
MAX_FAULTS = 32
_LARGEST = 1_000_000_000
MAX_SECONDS = 3_600.0
_MOST_UNTOLD = 256


@dataclass(frozen=True, slots=True)
class PlannedFault:
    """Happens at call number `first` (from 1) and the `count - 1` after it, and again every `every` calls (0 = never).

    Calls of the model are counted for "raise", "nan" (the first request of the batch gets no number), "slow" (the
    call takes `seconds` longer) and "worker_killed" (the thread that computes dies); copies in their direction for
    "copy_out" and "copy_in"; writes to a cache below memory for "store_full", all calls of it for "store_gone".
    `tier` names one of these caches, "" means each.
    """

    kind: str
    first: int = 1
    count: int = 1
    every: int = 0
    seconds: float = 0.0
    tier: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.kind, str) or self.kind not in KINDS:
            raise ConfigError(f"kind is {self.kind!r}; it must be one of {', '.join(KINDS)}")
        for name, least in (("first", 1), ("count", 1), ("every", 0)):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= _LARGEST:
                raise ConfigError(f"{name} is {value!r}; it must be a whole number, at least {least}")
        if not isinstance(self.seconds, int | float) or not 0 <= self.seconds <= MAX_SECONDS:
            raise ConfigError(f"seconds is {self.seconds!r}; it must be a number, at least 0, at most {MAX_SECONDS:g}")
        if not isinstance(self.tier, str):
            raise ConfigError(f"tier is {self.tier!r}; it must be the name of a cache, or left out for each")

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
    try:
        return planned_faults(tables)
    except ConfigError as problem:
        raise ConfigError(f"the fault plan {path}: {problem}") from None


def planned_faults(tables: Sequence[Mapping[str, Any]]) -> tuple[PlannedFault, ...]:
    """A plan from names and values; raises `ConfigError`."""
    if len(tables) > MAX_FAULTS:
        raise ConfigError(f"the plan has {len(tables)} faults; at most {MAX_FAULTS} are possible")
    return tuple(_fault(table) for table in tables)


def _fault(table: Mapping[str, Any]) -> PlannedFault:
    known = [field.name for field in dataclasses.fields(PlannedFault)]
    if unknown := sorted(set(table) - set(known)):
        raise ConfigError(f"a fault has no {unknown[0][:40]!r}; it has {', '.join(known)}")
    if "kind" not in table:
        raise ConfigError(f"a fault has no kind; it must be one of {', '.join(KINDS)}")
    return PlannedFault(**table)


class Due(NamedTuple):
    """A fault that happens now, at its call number `call`."""

    fault: PlannedFault
    call: int


@dataclass(slots=True)
class _Switched:
    """A fault that is on, and the calls made since."""

    fault: PlannedFault
    calls: int = 0


class FaultPlan:
    """The faults that are on. Any thread may switch them, and any may ask what is due."""

    def __init__(self, faults: Iterable[PlannedFault] = ()) -> None:
        self._lock = threading.Lock()
        self._switched = [_Switched(fault) for fault in faults]
        self._happened: Counter[str] = Counter()
        self._untold: Counter[tuple[str, str, str]] = Counter()

    @property
    def faults(self) -> tuple[PlannedFault, ...]:
        with self._lock:
            return tuple(each.fault for each in self._switched)

    @property
    def happened(self) -> dict[str, int]:
        """How often each kind has happened so far, also those that are off again."""
        with self._lock:
            return dict(self._happened)

    def switch(self, faults: Iterable[PlannedFault]) -> None:
        """Have these on and no others; those that were on already go on counting, new ones begin at call 1."""
        with self._lock:
            before = list(self._switched)
            self._switched = []
            for fault in faults:
                kept = next((each for each in before if each.fault == fault), None)
                if kept is not None:
                    before.remove(kept)
                self._switched.append(kept or _Switched(fault))

    def due(self, kinds: Sequence[str], tier: str = "") -> list[Due]:
        """Count a call for each fault of these kinds that looks at this tier, and tell which of them happen."""
        with self._lock:
            due = []
            for each in self._switched:
                if each.fault.kind in kinds and each.fault.tier in ("", tier):
                    each.calls += 1
                    if each.fault.happens_at(each.calls):
                        due.append(Due(each.fault, each.calls))
            return due

    def tell(self, kind: str, request_id: str = "", tier: str = "") -> None:
        """Note that a fault has happened, to whom or where."""
        with self._lock:
            self._happened[kind] += 1
            told = kind, request_id, tier
            if told in self._untold or len(self._untold) < _MOST_UNTOLD:
                self._untold[told] += 1

    def take_untold(self) -> PlannedFaults:
        """What has happened since the last call of this: (kind, request, in words)."""
        with self._lock:
            untold, self._untold = self._untold, Counter()
        return tuple(
            (kind, request_id, KINDS[kind] + (f" ({tier})" if tier else "") + (f", {times} times" if times > 1 else ""))
            for (kind, request_id, tier), times in untold.items()
        )

    def around(self, backing: Backing) -> FaultyBacking:
        """A cache's place that fails as planned."""

        def fails(is_write: bool) -> str | None:
            if self.due(("store_gone",), backing.tier):
                self.tell("store_gone", tier=backing.tier)
                return "the connection is lost, as planned"
            if is_write and self.due(("store_full",), backing.tier):
                self.tell("store_full", tier=backing.tier)
                return "there is no space left, as planned"
            return None

        return FaultyBacking(backing, fails)


class PlannedFailure(Exception):
    """What a planned call of the model raises."""


class WorkerKilled(BaseException):
    """Ends the thread that computes, past everybody who deals with failures of the model."""


def kill_thread() -> NoReturn:
    """How a worker dies where others live in the same process."""
    raise WorkerKilled("the engine's thread was killed, as planned")


def kill_process() -> NoReturn:
    """How a worker dies that has a process to itself."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("nobody survives this signal")


class FaultyRunner(ServedRunnerProxy):
    """A runner with planned faults; `kill` is how its worker dies: with several in processes, by ending the process."""

    def __init__(self, runner: ServedRunner, plan: FaultPlan, kill: Callable[[], NoReturn] = kill_thread) -> None:
        super().__init__(runner)
        self._plan = plan
        self._kill = kill

    def execute_model(self, output: SchedulerOutput) -> ModelRunnerOutput:
        due = {each.fault.kind: each for each in self._plan.due(_MODEL)}
        if slow := due.get("slow"):
            self._plan.tell("slow")
            time.sleep(slow.fault.seconds)
        if "worker_killed" in due:
            self._plan.tell("worker_killed")
            self._kill()
        if planned := due.get("raise"):
            self._plan.tell("raise")
            raise PlannedFailure(f"planned for call {planned.call}")
        result = super().execute_model(output)
        if "nan" not in due or not output.scheduled:
            return result
        victim = output.scheduled[0].request_id
        self._plan.tell("nan", victim)
        return _without_number(result, victim)

    def copy_out(self, block_ids: tuple[int, ...]) -> Any:
        if self._plan.due(("copy_out",)):
            self._plan.tell("copy_out")
            raise CopyError("the copy to the host failed, as planned")
        return super().copy_out(block_ids)

    def copy_in(self, saved: Any, first_block: int, block_ids: tuple[int, ...]) -> None:
        if self._plan.due(("copy_in",)):
            self._plan.tell("copy_in")
            raise CopyError("the copy from the host failed, as planned")
        super().copy_in(saved, first_block, block_ids)

    def take_planned(self) -> PlannedFaults:
        return self._plan.take_untold()


def _without_number(result: ModelRunnerOutput, victim: str) -> ModelRunnerOutput:
    sampled = {request_id: token for request_id, token in result.sampled.items() if request_id != victim}
    failed = {**(result.failed or {}), victim: "the model computed values that are not numbers (NaN), as planned"}
    return dataclasses.replace(result, sampled=sampled, failed=failed)

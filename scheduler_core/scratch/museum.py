"""Runs an exhibit of the fault museum, with its mistake or without, and tells which law broke and what led to it."""

from __future__ import annotations

from dataclasses import dataclass

from scheduler_core.backends.synthetic import SyntheticRunner
from scheduler_core.engine import Engine
from scheduler_core.errors import ConfigError
from scheduler_core.events import LawBroken
from scheduler_core.faults import FAULT_FOLDER, FAULTS
from scheduler_core.laws import Law
from scheduler_core.narration import narrate_tick
from scheduler_core.trace import Trace
from scheduler_core.workload import load_scenario

#: The ticks before the break that are told.
TOLD_TICKS = 2


@dataclass(frozen=True, slots=True)
class Break:
    """The law that broke: at which tick, where, and what happened in the ticks up to then (tick, sentence)."""

    tick: int
    law: Law
    detail: str
    led_to_it: tuple[tuple[int, str], ...]


def exhibit(name: str, *, is_on: bool) -> Trace:
    """The workload of a mistake, with the mistake or without; raises `ConfigError` for one that is not there."""
    if name not in FAULTS:
        raise ConfigError(f"there is no fault {name!r}; the faults are {', '.join(FAULTS)}")
    scenario, runner = load_scenario(FAULT_FOLDER / f"{name}.toml"), SyntheticRunner()
    faults = [name] if is_on else []
    engine = Engine(scenario.config, runner, scenario=name, title=scenario.title, faults=faults)
    for spec in scenario.specs(runner):
        engine.add_request(spec)
    return engine.run()


def law_break(trace: Trace) -> Break | None:
    """Which law broke, None if all held."""
    for record in trace.records:
        for event in record.events:
            if isinstance(event, LawBroken):
                return Break(record.tick, event.law, event.detail, _led_to(trace, record.tick))
    return None


def _led_to(trace: Trace, tick: int) -> tuple[tuple[int, str], ...]:
    """The sentences of the tick and of those before it, without the break itself and the switching on."""
    return tuple(
        (at, sentence.whole)
        for at in range(max(0, tick - TOLD_TICKS), tick + 1)
        for sentence in narrate_tick(trace, at)
        if sentence.kind not in ("fault", "law")
    )

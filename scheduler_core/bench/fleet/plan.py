"""What a fleet benchmark runs: for each replica the same share of load, memory and prefixes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from scheduler_core.backends.length_only import LengthOnlyRunner
from scheduler_core.config import EngineConfig
from scheduler_core.cost_model import machine
from scheduler_core.errors import BenchError
from scheduler_core.load.config import LoadConfig
from scheduler_core.load.generator import GeneratedLoad
from scheduler_core.load.lengths import Lengths
from scheduler_core.replicas.config import MAX_REPLICAS, ROUTERS, FleetConfig, Kill
from scheduler_core.replicas.fleet import Fleet
from scheduler_core.replicas.fleet_trace import FleetTrace
from scheduler_core.request import RequestSpec

_PROMPT, _OUTPUT = Lengths.fixed(128), Lengths.fixed(32)


@dataclass(frozen=True, slots=True)
class Plan:
    """A load for one replica, of which a fleet of n gets n times as much: requests, rate and prefix groups."""

    engine: EngineConfig
    seed: int = 0
    requests: int = 20
    rate: float = 10.0
    prompt: Lengths = _PROMPT
    output: Lengths = _OUTPUT
    groups: int = 8
    prefix_tokens: int = 1_024
    prefix_skew: float = 0.8
    load_bound: float = 1.25
    load_floor: int = 0
    kill_at: float | None = None
    restart_after: float | None = None
    start_seconds: float = 30.0

    def __post_init__(self) -> None:
        if self.restart_after is not None and self.kill_at is None:
            raise BenchError("restart-after needs a replica that was killed; give kill-at too")

    def load(self, num_replicas: int) -> LoadConfig:
        return LoadConfig(
            seed=self.seed,
            num_requests=self.requests * num_replicas,
            rate=self.rate * num_replicas,
            prompt=self.prompt,
            output=self.output,
            prefix_groups=self.groups * num_replicas,
            prefix_tokens=self.prefix_tokens,
            prefix_skew=self.prefix_skew,
        )

    def fleet(self, num_replicas: int, router: str) -> FleetConfig:
        """A kill hits the last replica; a single one is spared, as nobody could go on."""
        is_hit = self.kill_at is not None and num_replicas > 1
        kills = (Kill(self.kill_at or 0.0, num_replicas - 1, self.restart_after),) if is_hit else ()
        prefix_blocks = max(1, self.prefix_tokens // self.engine.block_size)
        return FleetConfig(
            num_replicas,
            router,
            self.load_bound,
            self.load_floor,
            min(prefix_blocks, 4),
            self.seed,
            kills=kills,
            start_seconds=self.start_seconds,
        )

    def run(self, num_replicas: int, router: str) -> FleetTrace:
        """Simulate; only figures are kept."""
        # It keeps nothing of any request, so all replicas may share it.
        runner = LengthOnlyRunner(machine(self.engine.cost).model.kv_bytes_per_token)
        fleet = Fleet(self.fleet(num_replicas, router), self.engine, lambda: runner, record="none", check=False)
        return fleet.run(_specs(GeneratedLoad(self.load(num_replicas))))


def _specs(load: GeneratedLoad) -> Iterator[RequestSpec]:
    return (request.spec() for request in load)


def parse_replicas(text: str) -> list[int]:
    """Numbers with commas between; raises `BenchError`."""
    numbers = []
    for word in (part.strip() for part in text.split(",")):
        if not (word.isascii() and word.isdigit() and len(word) < 8 and 1 <= int(word) <= MAX_REPLICAS):
            raise BenchError(
                f"replicas is {word[:40]!r}; each must be a whole number from 1 to {MAX_REPLICAS:,}, "
                "with commas between"
            )
        numbers.append(int(word))
    return numbers


def parse_routers(text: str) -> list[str]:
    """Names with commas between, or "all"; raises `BenchError`."""
    names = [*ROUTERS] if text.strip() == "all" else [part.strip() for part in text.split(",")]
    for name in names:
        if name not in ROUTERS:
            raise BenchError(f"router is {name[:40]!r}; it must be all, or of {', '.join(ROUTERS)}")
    return names

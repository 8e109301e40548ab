"""The loads of the page: made for so many replicas by the app's generator, or a shipped scenario."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pages.components.runs import scenario_named, scenario_names
from scheduler_core.backends.synthetic import SyntheticRunner
from scheduler_core.config import EngineConfig
from scheduler_core.load.config import LoadConfig
from scheduler_core.load.generator import GeneratedLoad
from scheduler_core.load.lengths import Lengths
from scheduler_core.replicas.grid import whole_seconds
from scheduler_core.request import RequestSpec


@dataclass(frozen=True, slots=True)
class Example:
    """A generated load for one replica, of which a fleet of n gets n times as much; `groups` are for each replica."""

    title: str
    text: str
    load: LoadConfig
    groups: int = 0


_REQUESTS = 14
_RATE = 0.16
_LOAD = LoadConfig(prompt=Lengths("uniform", 8, 24), output=Lengths("uniform", 6, 16), prefix_tokens=96)

EXAMPLES = {
    "shared": Example(
        "Shared beginnings",
        "Chats with a few system prompts of 96 tokens, some more popular than others.",
        replace(_LOAD, prefix_skew=0.6),
        groups=2,
    ),
    "hot": Example(
        "One hot prompt",
        "9 of 10 requests begin with the same 96 tokens: all of them have the same home.",
        replace(_LOAD, prefix_groups=1, prefix_share=0.9),
    ),
    "apart": Example("Nothing shared", "Every prompt is new, so there is nothing to find in a cache.", _LOAD),
}
DEFAULT_LOAD = "shared"

#: What one replica of a generated load is: small enough to be seen whole.
SMALL = EngineConfig(
    num_blocks=48,
    max_num_batched_tokens=64,
    max_num_seqs=4,
    chunk_size=32,
    quantum=None,
    max_model_len=512,
    preemption_mode="recompute",
    num_swap_blocks=0,
)


def load_names() -> list[str]:
    return [*EXAMPLES, *scenario_names()]


def load_title(name: str) -> str:
    return EXAMPLES[name].title if name in EXAMPLES else f"Scenario: {scenario_named(name).title}"


def load_text(name: str) -> str:
    return EXAMPLES[name].text if name in EXAMPLES else scenario_named(name).description


def load_of(name: str, replicas: int, seed: int) -> tuple[list[RequestSpec], EngineConfig]:
    """The requests, all at whole seconds, and the engine of each replica, whose ticks last a second."""
    if name not in EXAMPLES:
        scenario = scenario_named(name)
        # Chunk control by time would have nothing to measure where every tick lasts as long.
        config = scenario.config.replace(cost="unit", chunk_control="fixed")
        return whole_seconds(scenario.specs(SyntheticRunner())), config
    example = EXAMPLES[name]
    load = replace(
        example.load,
        seed=seed,
        num_requests=_REQUESTS * replicas,
        rate=_RATE * replicas,
        prefix_groups=example.groups * replicas or example.load.prefix_groups,
    )
    return whole_seconds(request.spec() for request in GeneratedLoad(load)), SMALL

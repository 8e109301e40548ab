"""Helpers to arrange fleets with and to ask what they did."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from scheduler_core.backends.synthetic import SyntheticRunner
from scheduler_core.config import EngineConfig
from scheduler_core.engine import Engine
from scheduler_core.events import TokenSampled
from scheduler_core.replicas.config import FleetConfig
from scheduler_core.replicas.fleet import Fleet, in_order
from scheduler_core.replicas.fleet_trace import FleetTrace
from scheduler_core.request import RequestSpec
from tests.helpers import create_request, outputs

SMALL = {"block_size": 4, "num_blocks": 32, "max_model_len": 128, "quantum": None}


def run_fleet(specs: Sequence[RequestSpec], engine: EngineConfig | None = None, **knobs: Any) -> FleetTrace:
    """`knobs` are fields of FleetConfig."""
    fleet = Fleet(FleetConfig(**knobs), engine or EngineConfig(**SMALL), lambda: SyntheticRunner(eos_every=0))
    return fleet.run(in_order(specs))


def solo_texts(specs: Sequence[RequestSpec], engine: EngineConfig | None = None) -> dict[str, list[int]]:
    """The output of each request when one engine serves all of them."""
    one = Engine(engine or EngineConfig(**SMALL), SyntheticRunner(eos_every=0))
    for spec in in_order(specs):
        one.add_request(spec)
    return outputs(one.run())


def fleet_texts(trace: FleetTrace) -> dict[str, list[int]]:
    """The output tokens of each request over all replicas, in order of delivery."""
    found: list[tuple[float, int, str, int]] = []
    for number, one in enumerate(trace.traces):
        for record in one.records:
            for event in record.events:
                if isinstance(event, TokenSampled):
                    found.append((record.end, number, event.request_id, event.token_id))
    texts: dict[str, list[int]] = {}
    for _, _, request_id, token_id in sorted(found, key=lambda row: row[:2]):
        texts.setdefault(request_id, []).append(token_id)
    return texts


def shared_prefix_load(seed: int, count: int = 24, groups: int = 3, gap: float = 1.0) -> list[RequestSpec]:
    """Requests of a few groups that share 16 tokens each, one after the other with own ends."""
    rng = random.Random(seed)
    prefixes = [[1_000 * (group + 1) + i for i in range(16)] for group in range(groups)]
    return [
        create_request(
            f"R{number}",
            [*rng.choice(prefixes), *(100_000 + 100 * number + i for i in range(rng.randint(1, 9)))],
            rng.randint(1, 10),
            arrival=gap * number * rng.random(),
            temperature=rng.choice([0.0, 1.0]),
        )
        for number in range(count)
    ]

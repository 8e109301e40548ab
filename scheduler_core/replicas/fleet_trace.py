"""What a fleet did: a trace of each replica, the routing between them, and the figures of all."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from scheduler_core import codec
from scheduler_core.config import EngineConfig
from scheduler_core.replicas.config import FleetConfig
from scheduler_core.replicas.events import (
    FleetEvent,
    ReplicaKilled,
    ReplicaReady,
    ReplicaStarting,
    RequestMoved,
    RequestRouted,
    RouteReason,
)
from scheduler_core.replicas.life import Life
from scheduler_core.replicas.replica import ReplicaFigures
from scheduler_core.request_facts import RequestFacts
from scheduler_core.summary import Targets, jain_index, summarise
from scheduler_core.trace import Trace

#: Decisions in which a prefix did not go to its home.
OVERFLOWS = (RouteReason.NEXT_ON_RING, RouteReason.OVER_BOUND)


@dataclass(frozen=True, slots=True)
class FleetTrace:
    """`lives` are empty where only figures were recorded; `facts` are those of every request, wherever it ran."""

    config: FleetConfig
    engine: EngineConfig
    lives: tuple[Life, ...]
    events: tuple[FleetEvent, ...]
    replicas: tuple[ReplicaFigures, ...]
    facts: tuple[RequestFacts, ...]

    @property
    def traces(self) -> tuple[Trace, ...]:
        """One for each life, in order of replicas: without a restart one for each replica."""
        return tuple(life.trace for life in self.lives)

    @property
    def routed(self) -> tuple[RequestRouted, ...]:
        return tuple(event for event in self.events if isinstance(event, RequestRouted))

    @property
    def moved(self) -> tuple[RequestMoved, ...]:
        return tuple(event for event in self.events if isinstance(event, RequestMoved))

    @property
    def kills(self) -> tuple[ReplicaKilled, ...]:
        return tuple(event for event in self.events if isinstance(event, ReplicaKilled))

    @property
    def starts(self) -> tuple[ReplicaStarting, ...]:
        return tuple(event for event in self.events if isinstance(event, ReplicaStarting))

    @property
    def comebacks(self) -> tuple[ReplicaReady, ...]:
        return tuple(event for event in self.events if isinstance(event, ReplicaReady))

    @property
    def loads(self) -> list[int]:
        """Tokens computed by each replica that was never killed."""
        return [each.computed_tokens for each in self.replicas if each.killed_at is None]

    @property
    def max_over_mean(self) -> float | None:
        """The busiest replica's computed tokens over the mean; 1 is perfect balance. None if nothing was computed."""
        total = sum(self.loads)
        return max(self.loads) * len(self.loads) / total if total else None

    @property
    def jain(self) -> float | None:
        """Jain's index over the computed tokens: 1 if all are equal, 1/n if one did everything."""
        return jain_index(self.loads)

    def figures(self, targets: Targets | None = None) -> dict[str, Any]:
        """Those of all requests as in `summary`, and how they were spread."""
        return {
            **summarise(self.facts, targets=targets),
            "num_replicas": self.config.num_replicas,
            "router": self.config.router,
            "max_over_mean_load": self.max_over_mean,
            "jain_load": self.jain,
            "overflows": sum(event.reason in OVERFLOWS for event in self.routed),
            "shared_hit_tokens": sum(each.shared_hit_tokens for each in self.replicas),
            "moved": len(self.moved),
            "moved_tokens": sum(event.num_prompt_tokens + event.tokens_so_far for event in self.moved),
            "moved_hit_tokens": sum(each.resumed_hit_tokens for each in self.replicas),
        }

    def to_json(self) -> str:
        """Everything, the same bytes for the same run."""
        plain = {
            "config": codec.to_plain(self.config),
            "engine": codec.to_plain(self.engine),
            "figures": self.figures(),
            "replicas": [asdict(each) for each in self.replicas],
            "events": [codec.to_tagged(event) for event in self.events],
            "lives": [codec.to_plain(life) for life in self.lives],
        }
        return json.dumps(plain, separators=(",", ":"))

"""Who goes first: each policy answers with a class (smaller is better). Knows no queue, block or budget."""

from __future__ import annotations

from scheduler_core.config import EngineConfig
from scheduler_core.request import Request


class SchedulingPolicy:
    """First come, first served: one class for all, so the queue number decides."""

    name = "fcfs"
    #: A waiting request of a better class may push out running ones.
    has_classes = False
    #: The class depends on what the prefix cache holds for the request.
    looks_up_prefix = False

    def __init__(self, config: EngineConfig) -> None:
        self.config = config

    def request_class(self, request: Request) -> int:
        """The request's class now, before ageing."""
        return 0

    def level_after_expiry(self, request: Request) -> int:
        """The level it falls to when the end of its slice preempts it."""
        return request.level

    def class_after_expiry(self, request: Request) -> int:
        """The class it would have after being preempted at the end of its slice."""
        return self.request_class(request)


class PriorityPolicy(SchedulingPolicy):
    """The class that came with the request; lower is better."""

    name = "priority"
    has_classes = True

    def request_class(self, request: Request) -> int:
        return request.spec.priority


class MlfqPolicy(SchedulingPolicy):
    """Multi-level feedback queue: starts at level 0 and falls one level at each slice that ends in a preemption."""

    name = "mlfq"
    has_classes = True

    def request_class(self, request: Request) -> int:
        return request.level

    def level_after_expiry(self, request: Request) -> int:
        return min(request.level + 1, self.config.mlfq_levels - 1)

    def class_after_expiry(self, request: Request) -> int:
        return self.level_after_expiry(request)


class ShortestPolicy(SchedulingPolicy):
    """Fewest tokens left under max_tokens first: an oracle, as a server does not know how long an answer will be."""

    name = "shortest"

    def request_class(self, request: Request) -> int:
        return request.work_left


class LongestPrefixPolicy(SchedulingPolicy):
    """Most cached blocks first; each cached block is one class better."""

    name = "longest_prefix"
    looks_up_prefix = True

    def request_class(self, request: Request) -> int:
        return self.config.max_model_len // self.config.block_size - request.hit_blocks


_POLICIES = {
    cls.name: cls for cls in (SchedulingPolicy, PriorityPolicy, MlfqPolicy, ShortestPolicy, LongestPrefixPolicy)
}


def make_policy(config: EngineConfig) -> SchedulingPolicy:
    """The policy that `config.policy` names."""
    return _POLICIES[config.policy](config)

"""`Pass`: what one tick's scheduling has decided so far."""

from __future__ import annotations

from dataclasses import dataclass, field

from scheduler_core.chunker import Chunker
from scheduler_core.events import Numbers, SkipReason
from scheduler_core.output import BlockCopy, BlockLoad
from scheduler_core.ranking import Ranking
from scheduler_core.request import Request
from scheduler_core.waiting_queue import Key


@dataclass(frozen=True, slots=True)
class Obstacle:
    """The first rule that keeps a request out of the batch."""

    reason: SkipReason
    numbers: Numbers = ()


@dataclass(slots=True)
class Pass:
    """What one call of `schedule` has decided so far.

    `items` maps request id to its tokens of this tick, `later` are those whose turn comes after admission; `left` are
    those preempted for another request, who come back to the queue when the pass is over, `best_left` the best key of
    theirs; `running` and `expired` rank those who might have to leave; `batch_open` tells whether nothing ran when the
    tick began.
    """

    tick: int
    chunker: Chunker
    running: Ranking
    expired: Ranking
    batch_open: bool
    items: dict[str, int] = field(default_factory=dict)
    later: frozenset[str] = frozenset()
    admitted: set[str] = field(default_factory=set)
    left: list[Request] = field(default_factory=list)
    best_left: Key | None = None
    num_memory_victims: int = 0
    copies_out: list[BlockCopy] = field(default_factory=list)
    copies_in: list[BlockCopy] = field(default_factory=list)
    loads: list[BlockLoad] = field(default_factory=list)

    def put_in(self, request: Request, count: int) -> None:
        self.items[request.id] = count
        self.chunker.take(count)

    def take_out(self, request: Request) -> None:
        self.chunker.give_back(self.items.pop(request.id, 0))

    def enter(self, request: Request) -> None:
        self.admitted.add(request.id)
        self.running.enter(request)

    def leave(self, request: Request, key: Key) -> None:
        self.left.append(request)
        self.best_left = key if self.best_left is None else min(key, self.best_left)

    def finishes(self, request: Request) -> bool:
        """Whether it reaches max_tokens in this tick."""
        if request.num_tokens + 1 < request.max_total_tokens:
            return False
        return request.id in self.later or self.items.get(request.id) == request.num_tokens_left

    def may_leave(self, request: Request) -> bool:
        """Whether a running request may be sent away for a waiting one."""
        return request.id not in self.admitted and not self.finishes(request)

    def no_budget(self) -> Obstacle:
        left = max(0, self.chunker.budget_left)
        return Obstacle(SkipReason.BUDGET, (("budget", self.chunker.budget), ("budget_left", left)))

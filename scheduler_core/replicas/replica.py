"""One place in the fleet: an engine with a pool of its own, another after a restart, and what they delivered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from scheduler_core.backends.base import ModelRunner
from scheduler_core.config import EngineConfig
from scheduler_core.engine import Engine
from scheduler_core.events import LowerTierQueried, PrefixCacheQueried
from scheduler_core.replicas.life import Life
from scheduler_core.replicas.resumed_runner import ResumedRunner, resumed_spec
from scheduler_core.replicas.shared_store import OneReplicasView
from scheduler_core.request import RequestSpec
from scheduler_core.storage.block_store import BlockStore
from scheduler_core.trace import TickRecord


@dataclass(frozen=True, slots=True)
class Comeback:
    """What a restarted replica has done since it was back; its pool was empty then."""

    ready_at: float
    requests: int
    queried_tokens: int
    hit_tokens: int
    shared_hit_tokens: int


@dataclass(frozen=True, slots=True)
class ReplicaFigures:
    """What one replica did. `computed_tokens` are those of all its batches; `busy_s` is the time of ticks with work.

    Hits are those of first admissions; requests that came from a killed replica are counted apart, as `resumed_…`.
    Both have what was loaded from a shared tier in them; `shared_hit_tokens` is that alone. `killed_at` is when it was
    last killed, `comeback` what followed if it came back from that.
    """

    requests: int
    computed_tokens: int
    queried_tokens: int
    hit_tokens: int
    resumed_queried_tokens: int
    resumed_hit_tokens: int
    shared_hit_tokens: int
    busy_s: float
    most_outstanding: int
    killed_at: float | None
    comeback: Comeback | None = None

    @property
    def hit_rate(self) -> float | None:
        return self.hit_tokens / self.queried_tokens if self.queried_tokens else None


class Replica:
    """Ticks are computed when they start and delivered when they end."""

    def __init__(
        self,
        number: int,
        config: EngineConfig,
        make_runner: Callable[[], ModelRunner],
        *,
        record: str,
        check: bool,
        store: BlockStore | None = None,
    ) -> None:
        self.number = number
        self.is_alive = False
        self.killed_at: float | None = None
        self.in_progress: TickRecord | None = None
        #: How often it was started.
        self.num_lives = 0
        self._config = config
        self._make_runner = make_runner
        self._record = record
        self._check = check
        self._shared = store
        self._requests = self._computed = self._most = 0
        self._queries = [0, 0, 0, 0]
        self._shared_hits = 0
        self._busy_s = 0.0
        self._ended: list[Life] = []
        self.start(0.0)

    def start(self, time: float) -> None:
        """Be there from now on, with an empty pool; what it did in earlier lives goes on being counted."""
        assert not self.is_alive, "only who is gone comes back"
        self.is_alive = True
        self.num_lives += 1
        self._born = time
        self._at_birth = self._requests, self._queries[0], self._queries[1], self._shared_hits
        self._resumed: set[str] = set()
        self._runner = ResumedRunner(self._make_runner())
        self._store = None if self._shared is None else OneReplicasView(self._shared)
        title = f"Replica {self.number + 1}"
        self._engine = Engine(
            self._config, self._runner, title=title, record=self._record, check=self._check, store=self._store
        )

    def add(self, spec: RequestSpec, so_far: Sequence[int], time: float, outstanding: int) -> None:
        """Take a request that arrives now, or the rest of one that was begun elsewhere."""
        self._requests += 1
        self._most = max(self._most, outstanding)
        # Kills come before arrivals, so who arrives now has not been elsewhere.
        if time > spec.arrival_time:
            self._runner.resume(spec, len(so_far))
            self._resumed.add(spec.id)
            spec = resumed_spec(spec, so_far, time)
        self._engine.add_request(spec)

    def start_tick(self, time: float) -> TickRecord | None:
        """Begin the next tick, if there is anything to do; one that is idle first lets its clock catch up."""
        if not self._engine.has_work:
            return None
        if self._engine.now < time:
            self._engine.step()
        assert self._engine.now == time, "an idle replica wakes up with the request that arrives"
        self.in_progress = self._engine.step()
        return self.in_progress

    def end_tick(self) -> TickRecord:
        """Deliver the tick that is going on."""
        record, self.in_progress = self.in_progress, None
        assert record is not None
        if tokens := record.counts.scheduled_tokens:
            self._computed += tokens
            self._busy_s += record.end - record.start
        for event in record.events:
            if isinstance(event, PrefixCacheQueried) and not event.self_hit:
                place = 2 if event.request_id in self._resumed else 0
                self._queries[place] += event.query_tokens
                self._queries[place + 1] += event.hit_tokens
            elif isinstance(event, LowerTierQueried) and not event.self_hit:
                self._queries[3 if event.request_id in self._resumed else 1] += event.hit_tokens
                self._shared_hits += event.hit_tokens
        if self._store is not None:
            self._store.deliver()
        return record

    def kill(self, time: float, num_requests: int) -> bool:
        """Be gone; returns whether a tick was going on, of which nothing counts."""
        self.is_alive, self.killed_at = False, time
        lost_tick, self.in_progress = self.in_progress is not None, None
        if self._record == "full":
            life = Life.of(self.number, self._born, self._engine.trace())
            self._ended.append(life.killed(time, num_requests, lost_tick))
        return lost_tick

    def figures(self) -> ReplicaFigures:
        queried, hit, resumed_queried, resumed_hit = self._queries
        return ReplicaFigures(
            self._requests,
            self._computed,
            queried,
            hit,
            resumed_queried,
            resumed_hit,
            self._shared_hits,
            self._busy_s,
            self._most,
            self.killed_at,
            self._comeback(),
        )

    def _comeback(self) -> Comeback | None:
        if self.num_lives == 1 or not self.is_alive:
            return None
        now = self._requests, self._queries[0], self._queries[1], self._shared_hits
        return Comeback(self._born, *(count - before for count, before in zip(now, self._at_birth, strict=True)))

    def lives(self) -> tuple[Life, ...]:
        """All that was delivered, a trace for each life."""
        last = (Life.of(self.number, self._born, self._engine.trace()),) if self.is_alive else ()
        return *self._ended, *last

"""`Fleet`: engines behind a router over one virtual clock; a killed one's requests go on elsewhere, exactly once."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from scheduler_core.backends.base import ModelRunner
from scheduler_core.config import EngineConfig
from scheduler_core.errors import RequestError, WorkloadError
from scheduler_core.events import Event, LowerTierQueried, PrefixCacheQueried, RequestFinished, TokenSampled
from scheduler_core.replicas.config import FleetConfig
from scheduler_core.replicas.events import (
    FleetEvent,
    ReplicaKilled,
    ReplicaReady,
    ReplicaStarting,
    RequestMoved,
    RequestRouted,
)
from scheduler_core.replicas.fleet_laws import check_fleet
from scheduler_core.replicas.fleet_trace import FleetTrace
from scheduler_core.replicas.kills import Change, Turn, turns
from scheduler_core.replicas.loads import Loads
from scheduler_core.replicas.replica import Replica
from scheduler_core.replicas.router import make_router
from scheduler_core.replicas.shared_store import shared_tier
from scheduler_core.request import RequestSpec
from scheduler_core.request_facts import FactsCollector
from scheduler_core.trace import TickRecord


class _Live:
    """A request on its way: what was sent, the output that has been delivered, and how often it was routed."""

    __slots__ = ("attempts", "spec", "tokens")

    def __init__(self, spec: RequestSpec) -> None:
        self.spec = spec
        self.tokens: list[int] = []
        self.attempts = 0


class Fleet:
    """Runs a workload once. `record` is "full" (a trace of each replica, for the stage) or "none" (figures only).

    What happens at the same instant happens in this order: ticks end, replicas come back, replicas are killed, killed
    ones begin to start, requests arrive, ticks start; each in order of replicas or sending. A tick's tokens are
    delivered when it ends, so neither a router nor a request that moves knows anything that a real gateway would not.
    `check` verifies the laws of every engine and, in the end, those of the fleet.
    """

    def __init__(
        self,
        config: FleetConfig,
        engine: EngineConfig,
        make_runner: Callable[[], ModelRunner],
        *,
        record: str = "full",
        check: bool = True,
    ) -> None:
        self.config = config
        self.loads = Loads(config.num_replicas)
        self.now = 0.0
        self._engine_config = engine
        self._record = record
        self._check = check
        self._router = make_router(config, engine.block_size)
        self._store = shared_tier() if config.shared_tier else None
        self._replicas = [
            Replica(number, engine, make_runner, record=record, check=check, store=self._store)
            for number in range(config.num_replicas)
        ]
        self._turns = turns(config.kills, config.start_seconds)
        #: When a tick ends, on which replica, and in which of its lives.
        self._ends: list[tuple[float, int, int]] = []
        self._awake: set[int] = set()
        self._live: dict[str, _Live] = {}
        self._seen: set[str] = set()
        self._queried: set[str] = set()
        self._collector = FactsCollector()
        self._events: list[FleetEvent] = []

    def run(self, specs: Iterable[RequestSpec]) -> FleetTrace:
        """Serve all requests, which come in order of arrival."""
        coming = _Coming(iter(specs))
        while (time := self._next_time(coming)) is not None:
            self.now = time
            self._end_ticks(time)
            while self._turns and self._turns[0].time == time:
                self._change(self._turns.pop(0))
            for spec in coming.due(time):
                self._arrive(spec)
            self._start_ticks(time)
        if self._store is not None:
            self._store.close()
        assert not self._live, "every request ends"
        result = self._result()
        if self._check:
            check_fleet(result)
        return result

    def _next_time(self, coming: _Coming) -> float | None:
        """The next instant at which something happens; None when all is done (changes after that are left out)."""
        times = [] if coming.next_time is None else [coming.next_time]
        if self._ends:
            times.append(self._ends[0][0])
        if not times:
            return None
        return min(*times, self._turns[0].time) if self._turns else min(times)

    # Ticks

    def _end_ticks(self, time: float) -> None:
        while self._ends and self._ends[0][0] == time:
            _, number, life = heapq.heappop(self._ends)
            replica = self._replicas[number]
            if replica.is_alive and replica.num_lives == life:
                self._deliver(replica.end_tick())
                self._awake.add(number)

    def _deliver(self, record: TickRecord) -> None:
        self._collector.read(self._first_queries(record))
        for event in record.events:
            if isinstance(event, TokenSampled):
                self._live[event.request_id].tokens.append(event.token_id)
                self.loads.got_token(event.request_id)
            elif isinstance(event, RequestFinished):
                self.loads.end(event.request_id)
                del self._live[event.request_id]

    def _first_queries(self, record: TickRecord) -> TickRecord:
        """The record without what a request asks a second cache: only its first admission counts."""
        asked = {e.request_id for e in record.events if isinstance(e, PrefixCacheQueried) and not e.self_hit}
        again = asked & self._queried
        self._queried |= asked
        if not again:
            return record
        return replace(record, events=tuple(event for event in record.events if not _is_query_of(event, again)))

    def _start_ticks(self, time: float) -> None:
        for number in sorted(self._awake):
            replica = self._replicas[number]
            if replica.in_progress is None and (record := replica.start_tick(time)):
                heapq.heappush(self._ends, (record.end, number, replica.num_lives))
        self._awake.clear()

    # Requests

    def _arrive(self, spec: RequestSpec) -> None:
        if spec.id in self._seen:
            raise RequestError(f"there is a request {spec.id!r} already; give the new one another id")
        self._seen.add(spec.id)
        self._live[spec.id] = _Live(spec)
        self._collector.meet(spec)
        self._route(spec.id)

    def _route(self, request_id: str) -> None:
        live = self._live[request_id]
        spec, done = live.spec, len(live.tokens)
        prompt, output = len(spec.prompt_token_ids) + done, spec.sampling.max_tokens - done
        choice = self._router.choose(spec, prompt + output, self.loads)
        live.attempts += 1
        self._events.append(
            RequestRouted(self.now, request_id, choice.replica, live.attempts, choice.reason, choice.numbers)
        )
        self.loads.add(request_id, choice.replica, prompt, output)
        self._replicas[choice.replica].add(spec, live.tokens, self.now, self.loads.tokens[choice.replica])
        self._awake.add(choice.replica)

    # Replicas

    def _change(self, turn: Turn) -> None:
        match turn.change:
            case Change.KILLED:
                self._kill(turn.replica)
            case Change.STARTING:
                assert turn.ready_at is not None
                self._events.append(ReplicaStarting(self.now, turn.replica, turn.ready_at))
            case Change.READY:
                replica = self._replicas[turn.replica]
                assert replica.killed_at is not None
                replica.start(self.now)
                self.loads.revive(turn.replica)
                self._events.append(ReplicaReady(self.now, turn.replica, self.now - replica.killed_at))

    def _kill(self, number: int) -> None:
        moving = self.loads.owed_by(number)
        lost_tick = self._replicas[number].kill(self.now, len(moving))
        self._awake.discard(number)
        self._events.append(ReplicaKilled(self.now, number, len(moving), lost_tick))
        for request_id in moving:
            self.loads.end(request_id)
        self.loads.bury(number)
        for request_id in moving:
            live = self._live[request_id]
            prompt = len(live.spec.prompt_token_ids)
            self._events.append(RequestMoved(self.now, request_id, number, prompt, len(live.tokens)))
            self._route(request_id)

    def _result(self) -> FleetTrace:
        lives = (life for replica in self._replicas for life in replica.lives()) if self._record == "full" else ()
        return FleetTrace(
            self.config,
            self._engine_config,
            tuple(lives),
            tuple(self._events),
            tuple(replica.figures() for replica in self._replicas),
            tuple(self._collector.facts()),
        )


def _is_query_of(event: Event, requests: set[str]) -> bool:
    return isinstance(event, PrefixCacheQueried | LowerTierQueried) and event.request_id in requests


class _Coming:
    """Requests that have not arrived; looks one ahead."""

    def __init__(self, specs: Iterator[RequestSpec]) -> None:
        self._specs = specs
        self._next = next(specs, None)

    @property
    def next_time(self) -> float | None:
        return None if self._next is None else self._next.arrival_time

    def due(self, time: float) -> Iterator[RequestSpec]:
        """Hand over those that arrive at `time`."""
        while self._next is not None and self._next.arrival_time == time:
            spec, self._next = self._next, next(self._specs, None)
            if self._next is not None and self._next.arrival_time < spec.arrival_time:
                raise WorkloadError(
                    f"request {self._next.id!r} arrives at {self._next.arrival_time} s, before the one ahead of it "
                    f"({spec.arrival_time} s); put them in order of arrival"
                )
            yield spec


def in_order(specs: Sequence[RequestSpec]) -> list[RequestSpec]:
    """By arrival; those of the same time as they were."""
    return sorted(specs, key=lambda spec: spec.arrival_time)

"""The blame ledger: where the latency of each request went, and which other request it was spent on.

A tick is shared out for every request that is there, as follows.

In the batch: its own part is what the tick would have lasted with this request alone in it, by the cost model of the
run (copies from the host are "restoring", blocks from a store below memory "loading", tokens computed for the second
time "recomputing"). What the tick lasted longer is "others' work", laid on the others in the batch, or copied, in
proportion to what each would have added to an empty tick. On a machine where all ticks last alike, nobody slows down
anybody in this way.

In the queue ("queued"): laid on those in the batch, each the same part. Out of its lane again ("preempted"): laid on
the request that it had to leave for while that is in the batch, else as in the queue. In a lane but left out of the
batch ("left out"): laid on those in the batch in proportion to their tokens, which used up the budget.

A tick that computes nothing, or a gap in the record, is "idle" and nobody's fault.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from itertools import product

from scheduler_core.config import EngineConfig
from scheduler_core.cost_model import Machine, machine, tick_seconds
from scheduler_core.events import RequestFinished, RequestPreempted
from scheduler_core.lookup import configs, require_full
from scheduler_core.output import ScheduledRequest, SchedulerOutput
from scheduler_core.trace import TickRecord, Trace
from scheduler_core.whereabouts import Place, Stay, end_of, stays


class Cause(Enum):
    """What a part of a latency was spent on; the module's docstring defines each."""

    QUEUED = "queued"
    PREFILL = "prefill"
    DECODE = "decode"
    OTHERS = "others"
    SKIPPED = "skipped"
    PREEMPTED = "preempted"
    RESTORE = "restore"
    LOAD = "load"
    RECOMPUTE = "recompute"
    IDLE = "idle"


@dataclass(frozen=True, slots=True)
class Share:
    """A part of a latency in seconds of virtual time; `blamed` is the other request, "" for nobody but itself."""

    cause: Cause
    blamed: str
    seconds: Fraction


@dataclass(frozen=True, slots=True)
class Blame:
    """The latency of one request in parts that add up to it exactly; until the end of the run if it is not over."""

    request_id: str
    latency: Fraction
    is_over: bool
    shares: tuple[Share, ...]

    def by_cause(self) -> dict[Cause, Fraction]:
        """Seconds for every cause, also where it is none."""
        sums = dict.fromkeys(Cause, Fraction(0))
        for share in self.shares:
            sums[share.cause] += share.seconds
        return sums

    def by_request(self) -> dict[str, Fraction]:
        """Seconds that other requests cost this one."""
        return _summed((share.blamed, share.seconds) for share in self.shares if share.blamed)


def blame(trace: Trace) -> tuple[Blame, ...]:
    """The ledger of every request, in order of sending; raises `TraceError` for a trace of aggregates."""
    require_full(trace)
    grain = _grain(trace)
    books: dict[str, _Book] = {spec.id: {} for spec in trace.requests}
    left_for: dict[str, str] = {}
    settings = configs(trace)
    tick: _Tick | None = None
    for stay in stays(trace):
        if tick is None or tick.record is not stay.record:
            tick = _Tick(stay.record, settings[stay.record.tick], grain)
            left_for |= {e.request_id: e.for_request for e in stay.record.events if isinstance(e, RequestPreempted)}
        book = books[stay.request_id]
        for cause, blamed, amount in tick.shares(stay, left_for.get(stay.request_id, "")):
            if amount:
                book[cause, blamed] = book.get((cause, blamed), 0) + amount
    return _closed(trace, books, grain)


def cost_matrix(ledger: Sequence[Blame]) -> dict[tuple[str, str], Fraction]:
    """(Who, whom) -> the seconds that the one cost the other, in order of sending of the other."""
    return {(who, entry.request_id): cost for entry in ledger for who, cost in entry.by_request().items()}


def total_by_cause(ledger: Sequence[Blame]) -> dict[Cause, Fraction]:
    """Seconds of all requests together for every cause."""
    return {cause: sum((entry.by_cause()[cause] for entry in ledger), Fraction(0)) for cause in Cause}


_Book = dict[tuple[Cause, str], int]


def _grain(trace: Trace) -> int:
    """Into how many grains a second is cut: every time of the run is a whole number of them, a tick some billions."""
    times = [spec.arrival_time for spec in trace.requests]
    times += [time for record in trace.records for time in (record.start, record.end)]
    return max((time.as_integer_ratio()[1] for time in times), default=1) << 32


def _whole(seconds: float, grain: int) -> int:
    """Seconds in grains, rounded down where they are no whole number of them."""
    numerator, denominator = seconds.as_integer_ratio()
    return numerator * grain // denominator


def _closed(trace: Trace, books: Mapping[str, _Book], grain: int) -> tuple[Blame, ...]:
    """The books with their totals; what no tick accounts for is idle."""
    ends = {
        event.request_id: end_of(event, record, trace.request(event.request_id).arrival_time)
        for record in trace.records
        for event in record.events
        if isinstance(event, RequestFinished)
    }
    last = trace.records[-1].end if trace.records else 0.0
    names = ["", *(spec.id for spec in trace.requests)]
    order = {(cause, name): place for place, (cause, name) in enumerate(product(Cause, names))}
    entries = []
    for spec in trace.requests:
        end = ends.get(spec.id, max(last, spec.arrival_time))
        latency = _whole(end, grain) - _whole(spec.arrival_time, grain)
        book = dict(books[spec.id])
        if gap := latency - sum(book.values()):
            book[Cause.IDLE, ""] = book.get((Cause.IDLE, ""), 0) + gap
        shares = tuple(Share(*key, Fraction(book[key], grain)) for key in sorted(book, key=order.__getitem__))
        entries.append(Blame(spec.id, Fraction(latency, grain), spec.id in ends, shares))
    return tuple(entries)


_Part = tuple[Cause, str, int]


class _Tick:
    """One tick in grains: what it would have lasted for one request alone, and what each request adds to it."""

    def __init__(self, record: TickRecord, config: EngineConfig, grain: int) -> None:
        self.record = record
        self._grain = grain
        self._machine: Machine = machine(config.cost)
        self._block_size = config.block_size
        self._tokens = {item.request_id: item.num_tokens for item in record.output.scheduled}
        self._weights = self._added()

    def shares(self, stay: Stay, left_for: str) -> list[_Part]:
        """The stay in parts that add up to it."""
        amount = _whole(stay.end, self._grain) - _whole(stay.start, self._grain)
        if stay.item is not None:
            return self._in_batch(stay.request_id, stay.item, amount)
        others = {who: tokens for who, tokens in self._tokens.items() if who != stay.request_id}
        if not others:
            return [(Cause.IDLE, "", amount)]
        if stay.place is Place.SKIPPED:
            return _split(Cause.SKIPPED, amount, others)
        cause = Cause.PREEMPTED if stay.place is Place.PREEMPTED else Cause.QUEUED
        if cause is Cause.PREEMPTED and left_for in others:
            return [(cause, left_for, amount)]
        return _split(cause, amount, dict.fromkeys(others, 1))

    def _in_batch(self, request_id: str, item: ScheduledRequest, amount: int) -> list[_Part]:
        weights = {who: weight for who, weight in self._weights.items() if who != request_id and weight}
        whole = _whole(self._alone(request_id), self._grain)
        own = min(amount, whole) if weights else amount
        without = _whole(self._alone(request_id, loads=False), self._grain)
        loading = min(own, whole - without)
        bare = _whole(self._alone(request_id, copies=False, loads=False), self._grain)
        restoring = min(own - loading, without - bare)
        computing = own - loading - restoring
        again = computing * item.recomputed_tokens // item.num_tokens
        fresh = Cause.DECODE if item.is_decode else Cause.PREFILL
        parts = [(Cause.LOAD, "", loading), (Cause.RESTORE, "", restoring)]
        parts += [(Cause.RECOMPUTE, "", again), (fresh, "", computing - again)]
        return parts + _split(Cause.OTHERS, amount - own, weights) if weights else parts

    def _alone(self, request_id: str, copies: bool = True, loads: bool = True) -> float:
        """Seconds that the tick would have lasted with this request alone ("" = with nobody)."""
        output = self.record.output
        alone = SchedulerOutput(
            output.tick,
            tuple(item for item in output.scheduled if item.request_id == request_id),
            tuple(copy for copy in output.copies_out if copies and copy.request_id == request_id),
            tuple(copy for copy in output.copies_in if copies and copy.request_id == request_id),
            tuple(load for load in output.loads if loads and load.request_id == request_id),
        )
        return tick_seconds(alone, self._machine, self._block_size)

    def _added(self) -> dict[str, int]:
        """What each request in the batch, or copied, would have added to an empty tick."""
        output, empty = self.record.output, self._alone("")
        copied = [copy.request_id for copy in (*output.copies_out, *output.copies_in)]
        loaded = [load.request_id for load in output.loads]
        everybody = dict.fromkeys([*self._tokens, *copied, *loaded])
        return {who: _whole(self._alone(who) - empty, self._grain) for who in everybody}


def _split(cause: Cause, amount: int, weights: Mapping[str, int]) -> list[_Part]:
    """The amount laid on others in proportion to their weights, of which there are some, without a rest."""
    total, before, parts = sum(weights.values()), 0, []
    for who, weight in weights.items():
        parts.append((cause, who, amount * (before + weight) // total - amount * before // total))
        before += weight
    return parts


def _summed(pairs: Iterable[tuple[str, Fraction]]) -> dict[str, Fraction]:
    sums: dict[str, Fraction] = {}
    for who, seconds in pairs:
        sums[who] = sums.get(who, Fraction(0)) + seconds
    return sums

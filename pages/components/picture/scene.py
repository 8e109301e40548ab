"""What a picture shows of a tick, read from recorded ticks alone: who waits, who runs where, whose blocks are which."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from scheduler_core.config import EngineConfig
from scheduler_core.events import (
    LowerTierQueried,
    RequestAdmitted,
    RequestFinished,
    RequestPreempted,
    RequestRefused,
    TokenSampled,
)
from scheduler_core.instant import longest
from scheduler_core.lookup import configs, require_full
from scheduler_core.output import ScheduledRequest
from scheduler_core.request import FinishReason, RequestStatus
from scheduler_core.trace import RequestSnapshot, TickRecord, Trace


class Activity(Enum):
    """What a request does in a tick, as the timeline draws it."""

    WAITS = "waits"
    AWAY = "preempted"
    READS = "reads its prompt"
    WRITES = "writes its answer"
    STALLS = "in a lane, nothing scheduled"


@dataclass(frozen=True, slots=True)
class RequestView:
    """A request as of the end of a tick; `limit` is the most tokens that it can get, `hit` those from the cache.

    `text` is what it has written before this tick, `fresh` what this tick added; `again` counts tokens computed for
    the second time. `reason` is set once it has ended.
    """

    id: str
    label: str
    status: RequestStatus
    reason: FinishReason | None
    prompt: int
    limit: int
    tokens: int
    computed: int
    scheduled: int
    decodes: bool
    again: int
    hit: int
    slice_used: int
    saved: int
    waited: int
    level: int
    text: str
    fresh: str

    @property
    def generated(self) -> int:
        return self.tokens - self.prompt

    @property
    def is_reading(self) -> bool:
        return self.generated == 0 or self.computed < self.tokens - 1


@dataclass(frozen=True, slots=True)
class BlockView:
    """A KV block: who holds it, how full it is (0 to 1), up to where it is prompt, and whether it can be found.

    `kind` is "free", "kept", "cached", "computed" or "generated".
    """

    kind: str
    label: str
    fill: float
    split: float
    published: bool


class Mark(NamedTuple):
    """Something that happened to a request in a tick: "hit", "preempted", "refused" or "finished"."""

    tick: int
    request_id: str
    kind: str


@dataclass(frozen=True, slots=True)
class Scene:
    """Everything that is drawn of one tick."""

    tick: int
    record: TickRecord
    config: EngineConfig
    waiting: tuple[RequestView, ...]
    num_waiting: int
    lanes: tuple[RequestView | None, ...]
    batch: tuple[RequestView, ...]
    finished: tuple[RequestView, ...]
    saved: tuple[RequestView, ...]
    blocks: tuple[BlockView, ...]
    to_come: int


class Scenes:
    """The scenes of a run, each worked out when it is asked for; raises `TraceError` for a trace of aggregates."""

    def __init__(self, trace: Trace) -> None:
        require_full(trace)
        self.trace = trace
        self.specs = {spec.id: spec for spec in trace.requests}
        self.limits = {spec.id: longest(spec, trace.config) for spec in trace.requests}
        self.labels = short_labels(list(self.specs))
        self.marks: list[Mark] = []
        self._pieces: dict[str, list[str]] = {name: [] for name in self.specs}
        self._piece_ticks: dict[str, list[int]] = {name: [] for name in self.specs}
        self._hits: dict[str, list[tuple[int, int]]] = {name: [] for name in self.specs}
        self._ends: list[tuple[int, str, FinishReason]] = []
        self._last: dict[str, tuple[RequestSnapshot, ScheduledRequest | None]] = {}
        self._lanes: list[dict[str, int]] = []
        self.config_by_tick = configs(trace)
        for record in trace.records:
            self._read(record)
        self._assign_lanes()
        self.most_lanes = max(
            [1, *(config.max_num_seqs for config in self.config_by_tick)]
            + [lane + 1 for lanes in self._lanes for lane in lanes.values()]
        )
        self.most_saved = max((r.snapshot.host_blocks_used for r in trace.records if r.snapshot), default=0)

    def __len__(self) -> int:
        return len(self.trace.records)

    def activity(self, record: TickRecord) -> dict[str, Activity]:
        """What each request that is there does in a tick."""
        assert record.snapshot is not None
        found = {item.request_id: _working(item) for item in record.output.scheduled}
        states = {
            RequestStatus.WAITING: Activity.WAITS,
            RequestStatus.PREEMPTED: Activity.AWAY,
            RequestStatus.RUNNING: Activity.STALLS,
        }
        for row in record.snapshot.requests:
            if row.id not in found and row.status in states:
                found[row.id] = states[row.status]
        return found

    def at(self, tick: int) -> Scene:
        """The scene at the end of a tick."""
        record = self.trace.records[tick]
        snapshot = record.snapshot
        assert snapshot is not None
        items = {item.request_id: item for item in record.output.scheduled}
        rows = {row.id: row for row in snapshot.requests}
        views = {name: self._view(row, items.get(name), tick) for name, row in rows.items()}
        lanes: list[RequestView | None] = [None] * max(self.config_by_tick[tick].max_num_seqs, 1)
        for name, lane in self._lanes[tick].items():
            lanes += [None] * (lane + 1 - len(lanes))
            lanes[lane] = views.get(name)
        waiting = tuple(views[name] for name in snapshot.waiting if name in views)
        return Scene(
            tick,
            record,
            self.config_by_tick[tick],
            waiting,
            len(snapshot.waiting),
            tuple(lanes),
            tuple(views[name] for name in items if name in views),
            self._finished(tick),
            tuple(view for view in views.values() if view.saved),
            self._blocks(tick, rows, views),
            sum(spec.arrival_time > record.start for spec in self.trace.requests),
        )

    def _read(self, record: TickRecord) -> None:
        assert record.snapshot is not None
        items = {item.request_id: item for item in record.output.scheduled}
        for row in record.snapshot.requests:
            if row.status is RequestStatus.FINISHED:
                self._last[row.id] = (row, items.get(row.id))
        for event in record.events:
            match event:
                case TokenSampled():
                    self._pieces[event.request_id].append(event.text)
                    self._piece_ticks[event.request_id].append(record.tick)
                case RequestAdmitted():
                    self._hits[event.request_id].append((record.tick, event.hit_tokens))
                    if event.hit_tokens:
                        self.marks.append(Mark(record.tick, event.request_id, "hit"))
                case LowerTierQueried() if event.hit_tokens:
                    known = event.first_block * self.trace.config.block_size + event.hit_tokens
                    self._hits[event.request_id].append((record.tick, known))
                    self.marks.append(Mark(record.tick, event.request_id, "hit"))
                case RequestPreempted():
                    self._hits[event.request_id].append((record.tick, 0))
                    self.marks.append(Mark(record.tick, event.request_id, "preempted"))
                case RequestRefused():
                    self._ends.append((record.tick, event.request_id, FinishReason.REJECTED))
                    self.marks.append(Mark(record.tick, event.request_id, "refused"))
                case RequestFinished() if event.reason is not FinishReason.REJECTED:
                    self._ends.append((record.tick, event.request_id, event.reason))
                    self.marks.append(Mark(record.tick, event.request_id, "finished"))

    def _assign_lanes(self) -> None:
        """Those that run, and those that ran in a tick to their end; a request keeps its lane while it runs."""
        before: dict[str, int] = {}
        for record in self.trace.records:
            assert record.snapshot is not None
            out = {event.request_id for event in record.events if isinstance(event, RequestPreempted)}
            present = dict.fromkeys([*record.snapshot.running, *(item.request_id for item in record.output.scheduled)])
            lanes = {name: lane for name, lane in before.items() if name in present and name not in out}
            for name in present:
                if name not in lanes:
                    taken = set(lanes.values())
                    lanes[name] = next(lane for lane in range(len(present) + len(taken)) if lane not in taken)
            self._lanes.append(lanes)
            running = set(record.snapshot.running)
            before = {name: lane for name, lane in lanes.items() if name in running}

    def _view(self, row: RequestSnapshot, item: ScheduledRequest | None, tick: int) -> RequestView:
        text, fresh = self._text(row.id, tick)
        computed = row.num_computed_tokens if item is None else item.end
        return RequestView(
            row.id,
            self.labels[row.id],
            row.status,
            row.finish_reason,
            row.num_prompt_tokens,
            self.limits[row.id],
            row.num_tokens,
            computed,
            0 if item is None else item.num_tokens,
            item is not None and item.is_decode,
            0 if item is None else item.recomputed_tokens,
            min(_latest(self._hits[row.id], tick), computed),
            row.slice_used,
            row.saved_tokens,
            row.waited_ticks,
            row.key_class,
            text,
            fresh,
        )

    def _text(self, request_id: str, tick: int) -> tuple[str, str]:
        ticks, pieces = self._piece_ticks[request_id], self._pieces[request_id]
        old, now = bisect_right(ticks, tick - 1), bisect_right(ticks, tick)
        return "".join(pieces[:old]), "".join(pieces[old:now])

    def _finished(self, tick: int) -> tuple[RequestView, ...]:
        """Those that have ended, the latest first."""
        ended = []
        for at, name, reason in reversed(self._ends):
            if at <= tick:
                ended.append(self._ended(name, reason, at))
        return tuple(ended)

    def _ended(self, request_id: str, reason: FinishReason, tick: int) -> RequestView:
        if request_id in self._last:
            row, item = self._last[request_id]
            return self._view(row, item, tick)
        size = len(self.specs[request_id].prompt_token_ids)
        limit = self.limits[request_id]
        label = self.labels[request_id]
        return RequestView(
            request_id, label, RequestStatus.FINISHED, reason, size, limit, size, 0, 0, False, 0, 0, 0, 0, 0, 0, "", ""
        )

    def _blocks(
        self, tick: int, rows: dict[str, RequestSnapshot], views: dict[str, RequestView]
    ) -> tuple[BlockView, ...]:
        snapshot, size = self.trace.records[tick].snapshot, self.trace.config.block_size
        assert snapshot is not None
        published = set(snapshot.published_blocks)
        owners = Counter(block for row in rows.values() for block in row.block_ids)
        held: dict[int, BlockView] = {}
        for name, row in rows.items():
            view = views[name]
            for index, block in enumerate(row.block_ids):
                start = index * size
                fill = min(max(view.computed - start, 0), size) / size
                kind = "cached" if start < view.hit else "computed" if start < view.prompt else "generated"
                split = min((view.prompt - start) / size, 1) if kind == "computed" else 1
                shared = owners[block] > 1
                if shared:
                    fill = max(fill, held[block].fill if block in held else 0)
                label = f"×{owners[block]}" if shared else view.label
                held[block] = BlockView("cached" if shared else kind, label, fill, split, block in published)
        kept, free = BlockView("kept", "", 1, 1, True), BlockView("free", "", 0, 1, False)
        return tuple(
            held.get(block, kept if block in published else free) for block in range(self.trace.config.num_blocks)
        )


def short_labels(ids: list[str]) -> dict[str, str]:
    """What fits into a square: the number of "R7", or the place in the list where names are words."""
    digits = [found.group(1) if (found := re.fullmatch(r"\D*(\d{1,3})", name)) else "" for name in ids]
    if all(digits) and len(set(digits)) == len(ids):
        return dict(zip(ids, digits, strict=True))
    return {name: str(place) for place, name in enumerate(ids, 1)}


def _working(item: ScheduledRequest) -> Activity:
    return Activity.WRITES if item.is_decode else Activity.READS


def _latest(history: list[tuple[int, int]], tick: int) -> int:
    found = 0
    for at, value in history:
        if at <= tick:
            found = value
    return found

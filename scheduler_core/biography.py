"""The biography of a KV block: who took it, what it held, who found it, and who asked for it when it was too late."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from scheduler_core.errors import TraceError
from scheduler_core.events import (
    BlockEvicted,
    BlockPublished,
    BlocksAllocated,
    BlocksFreed,
    Event,
    PrefixCacheQueried,
    RequestAdmitted,
    TokenSampled,
)
from scheduler_core.lookup import require_full
from scheduler_core.trace import Trace
from scheduler_core.words import count, names, quoted


class FactKind(Enum):
    """A block is born when it is taken, and again each time it is taken anew."""

    BORN = "born"
    PUBLISHED = "published"
    HIT = "hit"
    FREED = "freed"
    EVICTED = "evicted"
    MISSED = "missed"


@dataclass(frozen=True, slots=True)
class Fact:
    """What happened to a block in a tick, and through whom; `key` is that of its content, "" if it has none."""

    tick: int
    kind: FactKind
    request_id: str
    key: str
    text: str


def biography(trace: Trace, block_id: int) -> tuple[Fact, ...]:
    """The facts of a block in their order, empty if it was never taken; raises `TraceError` for an unknown block.

    MISSED tells that a lookup wanted what the block had held, after its eviction and before any block held it anew.
    """
    require_full(trace)
    if not 0 <= block_id < trace.config.num_blocks:
        raise TraceError(f"there is no block {block_id}; this run has blocks 0 to {trace.config.num_blocks - 1}")
    life = _Life(trace, block_id)
    for record in trace.records:
        for event in record.events:
            life.read(event, record.tick)
    return tuple(life.facts)


@dataclass(slots=True)
class _Life:
    """What the walk over the events knows of one block, and of all sequences, as contents are equal by their tokens.

    `children` leads from a key and the tokens after it, in a namespace, to the next key; `lost` has the keys that this
    block held, with the tick of the eviction.
    """

    trace: Trace
    block_id: int
    facts: list[Fact] = field(default_factory=list)
    key: str = ""
    holders: dict[str, None] = field(default_factory=dict)
    lost: dict[str, int] = field(default_factory=dict)
    sequences: dict[str, list[int]] = field(default_factory=dict)
    table_sizes: dict[str, int] = field(default_factory=dict)
    children: dict[tuple[str, tuple[int, ...], str, str], str] = field(default_factory=dict)

    def read(self, event: Event, tick: int) -> None:
        match event:
            case PrefixCacheQueried():
                self._looked_up(event, tick)
            case RequestAdmitted():
                self.table_sizes[event.request_id] = event.hit_tokens // self._size
            case BlocksAllocated():
                self._allocated(event, tick)
            case BlockPublished():
                self._published(event, tick)
            case BlockEvicted() if event.block_id == self.block_id:
                self.lost[event.key] = tick
                text = f"{event.for_request} needed room. What the block held can no longer be found in it."
                self._tell(tick, FactKind.EVICTED, event.for_request, text)
                self.key = ""
            case BlocksFreed() if self.block_id in event.block_ids:
                self.holders.pop(event.request_id, None)
                self._tell(tick, FactKind.FREED, event.request_id, f"{event.request_id} let go of it. {self._rest()}")
            case TokenSampled():
                self._sequence(event.request_id).append(event.token_id)
            case _:
                pass

    @property
    def _size(self) -> int:
        return self.trace.config.block_size

    def _tell(self, tick: int, kind: FactKind, request_id: str, text: str) -> None:
        self.facts.append(Fact(tick, kind, request_id, self.key, text))

    def _sequence(self, request_id: str) -> list[int]:
        if request_id not in self.sequences:
            self.sequences[request_id] = [*self.trace.request(request_id).prompt_token_ids]
        return self.sequences[request_id]

    def _step(self, request_id: str, parent: str, index: int) -> tuple[str, tuple[int, ...], str, str]:
        """The way from a parent to block number `index` of a request."""
        spec = self.trace.request(request_id)
        tokens = self._sequence(request_id)[index * self._size : (index + 1) * self._size]
        return parent, tuple(tokens), spec.salt, spec.adapter

    def _allocated(self, event: BlocksAllocated, tick: int) -> None:
        before = self.table_sizes.get(event.request_id, 0)
        self.table_sizes[event.request_id] = before + len(event.block_ids)
        if self.block_id in event.block_ids:
            self.holders[event.request_id] = None
            span = self._span(before + event.block_ids.index(self.block_id))
            self._tell(tick, FactKind.BORN, event.request_id, f"{event.request_id} took it for {span} of its sequence.")

    def _published(self, event: BlockPublished, tick: int) -> None:
        step = self._step(event.request_id, event.parent_key, event.index)
        self.children[step] = event.key
        self.lost.pop(event.key, None)
        if event.block_id == self.block_id:
            self.key = event.key
            said = quoted("".join(self.trace.token_texts.get(token_id, "") for token_id in step[1]), limit=60)
            text = f"It is full: {self._span(event.index)} of {event.request_id}, {said}. It can be found from now on."
            self._tell(tick, FactKind.PUBLISHED, event.request_id, text)

    def _looked_up(self, event: PrefixCacheQueried, tick: int) -> None:
        who = event.request_id
        if self.block_id in event.hit_block_ids:
            others = f"; it shares it with {names(list(self.holders))}" if self.holders else ""
            again = "came back and found it" if event.self_hit else "found it in the cache"
            self.holders[who] = None
            self._tell(tick, FactKind.HIT, who, f"{who} {again}{others}.")
        parent = ""
        for index in range((event.query_tokens - 1) // self._size):
            key = self.children.get(self._step(who, parent, index))
            if key is None:
                return
            if key in self.lost and index >= len(event.hit_block_ids):
                self._missed(who, tick, key, is_first=index == len(event.hit_block_ids))
            parent = key

    def _missed(self, who: str, tick: int, key: str, is_first: bool) -> None:
        late = f"{count(tick - self.lost[key], 'tick')} after it was gone" if tick > self.lost[key] else "just too late"
        why = "" if is_first else " A block before it was gone as well."
        text = f"{who} asked for what it had held, {late}.{why}"
        self.facts.append(Fact(tick, FactKind.MISSED, who, key, text))

    def _span(self, index: int) -> str:
        return f"positions {index * self._size:,} to {(index + 1) * self._size - 1:,}"

    def _rest(self) -> str:
        if self.holders:
            return f"{names(list(self.holders))} still {'holds' if len(self.holders) == 1 else 'hold'} it."
        if self.key:
            return "Nobody holds it now, but what is in it can still be found."
        return "Nobody holds it now, and nothing in it can be found."

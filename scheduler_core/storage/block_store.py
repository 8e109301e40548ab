"""A tier below the block pool: reads chains and verifies them, writes behind the run, counts whatever goes wrong."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from scheduler_core.backends.kv_bytes import KVBytes
from scheduler_core.storage.backing import Backing, NotAsked, StoreFault
from scheduler_core.storage.block import BlockAddress, FoundBlock
from scheduler_core.storage.value import Unusable, decode, encode

MAX_PENDING_BYTES = 256 << 20
#: Bytes of one write, so that what waits does not wait for all.
_BATCH_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class TierStats:
    """A tier's contents and counters, in blocks unless named otherwise; hits and misses since it was opened.

    `unusable` values were found but damaged or of another block, `errors` are operations that failed, `not_asked` those
    left out after such; what they were for counts as missed. `drops` are blocks that were not written, because too many
    waited or the write failed; `last_error` says what went wrong last. `is_paused`: the circuit breaker is open.
    """

    tier: str
    entries: int
    num_bytes: int
    limit_bytes: int
    queries: int
    hits: int
    query_tokens: int
    hit_tokens: int
    unusable: int
    errors: int
    not_asked: int
    writes: int
    drops: int
    evictions: int
    pending: int
    last_error: str
    is_paused: bool = False


class BlockStore(Protocol):
    """What a run asks of the tiers below its block pool. Nothing here ever raises because of what is stored."""

    def get(self, chain: Sequence[BlockAddress]) -> list[FoundBlock]:
        """The longest run of the chain's blocks that is there, from its first on, all verified."""
        ...

    def missing(self, chain: Sequence[BlockAddress]) -> list[BlockAddress]:
        """Those that would be worth a `put`."""
        ...

    def put(self, blocks: Sequence[tuple[BlockAddress, KVBytes]]) -> None:
        """Write them when there is time; never waits for the disk or the network."""
        ...

    def stats(self) -> tuple[TierStats, ...]:
        """One entry for each tier, the nearest first."""
        ...

    def flush(self) -> None:
        """Wait until everything that was put is written or given up."""
        ...

    def clear(self, tier: str = "") -> None:
        """Forget every block, of all tiers or of the one named."""
        ...

    def close(self) -> None:
        """Write what waits, and let go of files and connections."""
        ...


class Tier:
    """A `BlockStore` over one `Backing`; may be shared by several runs of a process."""

    def __init__(self, backing: Backing, max_pending_bytes: int = MAX_PENDING_BYTES) -> None:
        self._backing = backing
        self._max_pending = max_pending_bytes
        self._pending: OrderedDict[str, tuple[BlockAddress, KVBytes]] = OrderedDict()
        self._pending_bytes = 0
        self._changed = threading.Condition()
        self._io = threading.Lock()
        self._chains: list[list[str]] = []
        self._writer: threading.Thread | None = None
        self._is_closing = False
        self._counts = dict.fromkeys(_COUNTERS, 0)
        self._last_error = ""

    # Reading

    def get(self, chain: Sequence[BlockAddress]) -> list[FoundBlock]:
        """Blocks that wait to be written are found as well, so that an answer does not depend on the disk's pace."""
        found: list[FoundBlock] = []
        for start in range(0, len(chain), _CHAIN_PART):
            part = chain[start : start + _CHAIN_PART]
            usable = self._get_part(part)
            found += usable
            if len(usable) < len(part):
                break
        self._touch([address.name for address in chain[: len(found)]])
        size = len(chain[0].token_ids) if chain else 0
        with self._changed:
            self._counts["queries"] += len(chain)
            self._counts["hits"] += len(found)
            self._counts["query_tokens"] += len(chain) * size
            self._counts["hit_tokens"] += len(found) * size
        return found

    def _get_part(self, chain: Sequence[BlockAddress]) -> list[FoundBlock]:
        with self._changed:
            waiting = {a.name: self._pending[a.name] for a in chain if a.name in self._pending}
        names = [address.name for address in chain if address.name not in waiting]
        values = dict(zip(names, self._read(names), strict=False))
        found: list[FoundBlock] = []
        for address in chain:
            block = self._verified(address, values, waiting)
            if block is None:
                break
            found.append(block)
        return found

    def _read(self, names: Sequence[str]) -> list[bytes]:
        if not names:
            return []
        try:
            return self._backing.read(names)
        except StoreFault as problem:
            self._failed(problem)
            return []

    def _verified(
        self, address: BlockAddress, values: dict[str, bytes], waiting: dict[str, tuple[BlockAddress, KVBytes]]
    ) -> FoundBlock | None:
        if address.name in waiting:
            told, kv = waiting[address.name]
            return FoundBlock(self._backing.tier, kv) if told == address else None
        value = values.get(address.name)
        if value is None:
            return None
        try:
            return FoundBlock(self._backing.tier, decode(address, value))
        except Unusable as problem:
            self._count("unusable", 1, f"{address.name}: {problem}")
            self._discard(address.name)
            return None

    def _touch(self, names: Sequence[str]) -> None:
        try:
            self._backing.touch(names)
        except StoreFault as problem:
            self._failed(problem)

    def _discard(self, name: str) -> None:
        try:
            self._backing.discard(name)
        except StoreFault as problem:
            self._failed(problem)

    # Writing

    def missing(self, chain: Sequence[BlockAddress]) -> list[BlockAddress]:
        with self._changed:
            asked = [address for address in chain if address.name not in self._pending]
        if not asked:
            return []
        try:
            names = self._backing.missing([address.name for address in asked])
        except StoreFault as problem:
            self._failed(problem)
            return []
        return [address for address in asked if address.name in names]

    def put(self, blocks: Sequence[tuple[BlockAddress, KVBytes]]) -> None:
        """A block for which there is no room is dropped with all after it, which nobody could reach."""
        with self._changed:
            for number, (address, kv) in enumerate(blocks):
                if address.name in self._pending:
                    continue
                if self._is_closing or self._pending_bytes + len(kv.data) > self._max_pending:
                    self._counts["drops"] += len(blocks) - number
                    break
                self._pending[address.name] = address, kv
                self._pending_bytes += len(kv.data)
            self._chains.append([address.name for address, _ in blocks])
            if self._pending and self._writer is None:
                self._writer = threading.Thread(target=self._write_all, name="kv-store-writer", daemon=True)
                self._writer.start()

    def _write_all(self) -> None:
        while batch := self._next_batch():
            with self._io:
                self._write([(address, kv) for address, kv in batch if address.name in self._pending])
            with self._changed:
                for address, kv in batch:
                    if self._pending.pop(address.name, None) is not None:
                        self._pending_bytes -= len(kv.data)
                self._changed.notify_all()

    def _write(self, batch: Sequence[tuple[BlockAddress, KVBytes]]) -> None:
        try:
            self._backing.write([(address.name, encode(address, kv)) for address, kv in batch])
            self._count("writes", len(batch))
        except StoreFault as problem:
            self._failed(problem)
            self._count("drops", len(batch))
        except Exception as problem:  # a thread that dies would keep the queue full for ever
            self._count("errors", 1, f"{type(problem).__name__}: {problem}")
            self._count("drops", len(batch))

    def _next_batch(self) -> list[tuple[BlockAddress, KVBytes]]:
        with self._changed:
            batch, size = [], 0
            for address, kv in self._pending.values():
                batch.append((address, kv))
                size += len(kv.data)
                if size >= _BATCH_BYTES:
                    break
            if not batch:
                # Batches were stamped one after the other; parents have to be the last ones to go.
                for names in self._chains:
                    self._touch(names)
                self._chains.clear()
                self._writer = None
            return batch

    # The rest

    def stats(self) -> tuple[TierStats, ...]:
        entries, num_bytes, limit, evictions = -1, 0, 0, 0
        try:
            told = self._backing.contents()
            entries, num_bytes, limit, evictions = told.entries, told.num_bytes, told.limit_bytes, told.evictions
        except StoreFault as problem:
            self._failed(problem)
        with self._changed:
            return (
                TierStats(
                    self._backing.tier,
                    entries,
                    num_bytes,
                    limit,
                    **self._counts,
                    evictions=evictions,
                    pending=len(self._pending),
                    last_error=self._last_error,
                    is_paused=self._backing.is_paused,
                ),
            )

    def flush(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: not self._pending)

    def clear(self, tier: str = "") -> None:
        if tier not in ("", self._backing.tier):
            return
        with self._io:
            with self._changed:
                self._pending.clear()
                self._pending_bytes = 0
                self._changed.notify_all()
            try:
                self._backing.clear()
            except StoreFault as problem:
                self._failed(problem)

    def close(self) -> None:
        with self._changed:
            self._is_closing = True
        self.flush()
        self._backing.close()

    def _failed(self, problem: StoreFault) -> None:
        if isinstance(problem, NotAsked):
            # Why nothing is asked is what went wrong before.
            self._count("not_asked", 1)
        else:
            self._count("errors", 1, str(problem))

    def _count(self, counter: str, amount: int, error: str = "") -> None:
        with self._changed:
            self._counts[counter] += amount
            self._last_error = error or self._last_error


_COUNTERS = ("queries", "hits", "query_tokens", "hit_tokens", "unusable", "errors", "not_asked", "writes", "drops")
#: Blocks that are read at once.
_CHAIN_PART = 16

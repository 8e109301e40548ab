"""Physical KV blocks: who holds them how often, and which free one is taken next. Knows no request and no key."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Protocol

from scheduler_core.laws import BrokenLaw, Law


class PublishedBlocks(Protocol):
    """What the pool asks of the prefix cache."""

    def holds(self, block_id: int) -> bool: ...


class BlockPool:
    """Reference counts and the queue of free blocks, head taken first.

    Freed blocks stay findable until they are taken: unpublished ones go to the head, published ones to the tail.
    """

    def __init__(self, num_blocks: int, published: PublishedBlocks) -> None:
        self.num_blocks = num_blocks
        self._published = published
        self._refs = [0] * num_blocks
        self._free: OrderedDict[int, None] = OrderedDict.fromkeys(range(num_blocks))

    @property
    def num_free(self) -> int:
        return len(self._free)

    def refs(self, block_id: int) -> int:
        return self._refs[block_id]

    def is_free(self, block_id: int) -> bool:
        return block_id in self._free

    def free_blocks(self) -> tuple[int, ...]:
        """Free block ids, the next one to be taken first."""
        return tuple(self._free)

    def can_take(self, count: int) -> bool:
        return count <= len(self._free)

    def take(self, count: int) -> list[int]:
        """`count` blocks from the head of the queue, each with one reference; the caller evicts their content."""
        assert self.can_take(count), f"{count} blocks asked, {len(self._free)} free"
        taken = [self._free.popitem(last=False)[0] for _ in range(count)]
        for block_id in taken:
            self._refs[block_id] = 1
        return taken

    def touch(self, block_ids: Iterable[int]) -> None:
        """One more reference each, so that nothing can take them."""
        for block_id in block_ids:
            if self._refs[block_id] == 0:
                del self._free[block_id]
            self._refs[block_id] += 1

    def release(self, table: Sequence[int]) -> None:
        """Drop one reference of each block, the table's last one first, so that no parent goes before its child."""
        for block_id in reversed(table):
            if self._refs[block_id] <= 0:
                raise BrokenLaw(Law.BLOCKS, f"block {block_id} is released but nobody holds it")
            self._refs[block_id] -= 1
            if self._refs[block_id] == 0:
                self._free[block_id] = None
                if not self._published.holds(block_id):
                    self._free.move_to_end(block_id, last=False)

    def check_integrity(self, tables: Iterable[Sequence[int]]) -> None:
        """References equal the tables' entries; used and free blocks together are all blocks."""
        expected = [0] * self.num_blocks
        for table in tables:
            for block_id in table:
                expected[block_id] += 1
        if expected != self._refs:
            raise BrokenLaw(Law.BLOCKS, "reference counts differ from the block tables")
        used = sum(1 for refs in self._refs if refs)
        if used + len(self._free) != self.num_blocks:
            raise BrokenLaw(Law.BLOCKS, "used and free blocks do not add up")
        if any(self._refs[block_id] for block_id in self._free):
            raise BrokenLaw(Law.BLOCKS, "a block in use is in the free queue")

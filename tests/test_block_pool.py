"""BlockPool: references, and the order in which free blocks are taken."""

from __future__ import annotations

import pytest

from scheduler_core.block_pool import BlockPool


class Published(set[int]):
    def holds(self, block_id: int) -> bool:
        return block_id in self


def test_references_go_up_and_down_with_use() -> None:
    pool = BlockPool(4, Published())
    [block] = pool.take(1)
    seen = [pool.refs(block)]
    pool.release([block])
    seen.append(pool.refs(block))
    pool.touch([block])
    seen.append(pool.refs(block))
    pool.touch([block])
    seen.append(pool.refs(block))
    pool.release([block])
    pool.release([block])
    seen.append(pool.refs(block))
    assert seen == [1, 0, 1, 2, 0]


def test_releasing_a_block_that_nobody_holds_is_an_error() -> None:
    pool = BlockPool(2, Published())
    with pytest.raises(AssertionError, match="nobody holds it"):
        pool.release([0])


def test_unpublished_blocks_are_taken_before_published_ones_and_children_before_parents() -> None:
    published = Published()
    pool = BlockPool(6, published)
    table = pool.take(4)
    published.update(table[:3])
    pool.release(table)
    assert pool.free_blocks() == (3, 4, 5, 2, 1, 0)


def test_a_touched_block_is_not_taken() -> None:
    pool = BlockPool(2, Published())
    pool.release(pool.take(2))
    pool.touch([1])
    assert pool.take(1) == [0]
    assert not pool.can_take(1)


def test_integrity_notices_a_table_that_does_not_match() -> None:
    pool = BlockPool(3, Published())
    table = pool.take(2)
    pool.check_integrity([table])
    with pytest.raises(AssertionError, match="reference counts"):
        pool.check_integrity([table, table[:1]])

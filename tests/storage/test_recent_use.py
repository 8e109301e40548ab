"""The order in which a store's entries were used, kept until the next write."""

from __future__ import annotations

from scheduler_core.storage.recent_use import RecentUse


def test_a_chain_s_first_counts_as_used_last_so_that_no_parent_goes_before_its_child() -> None:
    recent = RecentUse()
    recent.note(["parent", "child", "grandchild"])
    assert recent.take() == ["grandchild", "child", "parent"]


def test_who_is_used_again_moves_to_the_end_and_stands_there_once() -> None:
    recent = RecentUse()
    recent.note(["a", "b"])
    recent.note(["c"])
    recent.note(["b"])
    assert recent.take() == ["a", "c", "b"]


def test_what_was_taken_is_forgotten() -> None:
    recent = RecentUse()
    assert not recent
    recent.note(["a"])
    assert recent
    recent.take()
    assert not recent
    assert recent.take() == []


def test_handed_on_as_one_chain_the_order_stays() -> None:
    mine, theirs = RecentUse(), RecentUse()
    mine.note(["a", "b"])
    mine.note(["c", "a"])
    order = mine.take()
    theirs.note(order[::-1])
    assert theirs.take() == order

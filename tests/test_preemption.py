"""fewest: as few as needed, worst first, none if it does not help."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from scheduler_core.preemption import fewest


def test_nobody_leaves_if_it_would_not_fit_even_then() -> None:
    assert fewest([1, 2, 3], lambda leaving: sum(leaving) >= 10) == []


def test_the_worst_leave_first() -> None:
    assert fewest([4, 3, 9], lambda leaving: sum(leaving) >= 7) == [4, 3]


def test_who_turns_out_not_to_be_needed_stays() -> None:
    assert fewest([1, 2, 9], lambda leaving: sum(leaving) >= 9) == [9]


@given(st.lists(st.integers(0, 9), max_size=8), st.integers(1, 30))
def test_each_of_those_who_leave_is_needed(sizes: list[int], need: int) -> None:
    candidates = list(enumerate(sizes))

    def fits(leaving: list[tuple[int, int]]) -> bool:
        return sum(size for _, size in leaving) >= need

    leaving = fewest(candidates, fits)
    assert bool(leaving) == (sum(sizes) >= need)
    if leaving:
        assert fits(leaving)
        assert not any(fits([other for other in leaving if other is not one]) for one in leaving)

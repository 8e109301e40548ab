from __future__ import annotations

from scheduler_core.big_run.checkpoints import FIRST_INTERVAL, Checkpoints


def test_states_stay_few_and_evenly_spread() -> None:
    kept = Checkpoints(most=4)
    for tick in range(0, 40 * FIRST_INTERVAL, 64):
        kept.offer(tick, lambda: b"state")
    gaps = {after - before for before, after in zip(kept.ticks, kept.ticks[1:], strict=False)}
    assert 2 <= len(kept.ticks) <= 4
    assert gaps == {kept.interval}


def test_their_memory_is_bounded() -> None:
    kept = Checkpoints(most=100, max_bytes=1_000)
    for tick in range(0, 40 * FIRST_INTERVAL, FIRST_INTERVAL):
        kept.offer(tick, lambda: bytes(300))
    assert 0 < kept.num_bytes <= 1_000


def test_the_nearest_state_before_a_tick_is_given() -> None:
    kept = Checkpoints()
    for tick in (FIRST_INTERVAL, 2 * FIRST_INTERVAL):
        kept.offer(tick, str(tick).encode)
    assert kept.before(FIRST_INTERVAL - 1) is None
    assert kept.before(FIRST_INTERVAL) == (FIRST_INTERVAL, str(FIRST_INTERVAL).encode())
    assert kept.before(2 * FIRST_INTERVAL - 1) == (FIRST_INTERVAL, str(FIRST_INTERVAL).encode())


def test_none_are_kept_where_none_are_wanted() -> None:
    kept = Checkpoints(most=0)
    kept.offer(FIRST_INTERVAL, lambda: b"state")
    assert kept.ticks == []

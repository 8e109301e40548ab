"""The asyncio front: equal texts, aborts, deadlines, refusals, retries, drain, and nothing lost in a storm."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from scheduler_core.backends.synthetic import SyntheticRunner
from scheduler_core.engine import fork, replay_to
from scheduler_core.request import FinishReason
from scheduler_core.serving.ask import Ask
from scheduler_core.serving.async_engine import AsyncEngine
from scheduler_core.serving.attempt import FailedAttempt
from scheduler_core.serving.dead_letters import DeadLetters
from scheduler_core.serving.errors import (
    Aborted,
    DeadlineExceeded,
    GaveUp,
    NeverFits,
    QueueFull,
    ServingError,
    ShuttingDown,
)
from scheduler_core.serving.fault_plan import FaultPlan, FaultyRunner, PlannedFault
from scheduler_core.serving.splitting_runner import SplittingRunner
from scheduler_core.trace import Trace
from tests.serving.helpers import Poisoned, create_ask, engine, planned, quick, read, run, slow, solo, until


def assert_sums(made: AsyncEngine) -> None:
    counts = made.counters
    ended = counts.finished + counts.refused + counts.aborted + counts.dead
    assert counts.submitted == ended + made.num_in_flight


def test_thirty_two_concurrent_streams_each_equal_their_solo_text() -> None:
    asks = [create_ask(4 + i % 7, 3 + i % 11, start=1_000 + 5 * (i % 4), priority=i % 3) for i in range(32)]

    async def work() -> tuple[list[list[int]], int]:
        async with engine(num_blocks=24, quantum=2) as made:
            texts = await asyncio.gather(*(read(made.submit(ask)) for ask in asks))
            return texts, made.counters.preemptions

    texts, preemptions = run(work())
    assert texts == [solo(ask) for ask in asks]
    assert preemptions > 0


def test_drawn_tokens_do_not_depend_on_the_company() -> None:
    ask = create_ask(temperature=1.0, seed=7, max_tokens=12)

    async def work() -> list[list[int]]:
        async with engine() as made:
            return await asyncio.gather(*(read(made.submit(ask)) for _ in range(6)))

    assert run(work()) == [solo(ask)] * 6


def test_requests_without_a_seed_draw_differently() -> None:
    async def work() -> list[list[int]]:
        async with engine() as made:
            return await asyncio.gather(*(read(made.submit(create_ask(temperature=1.0))) for _ in range(2)))

    first, second = run(work())
    assert first != second


def test_a_stream_tells_why_it_ended_and_what_was_cached() -> None:
    async def work() -> list[Any]:
        async with engine() as made:
            told = []
            for _ in range(2):
                stream = made.submit(create_ask(9))
                await read(stream)
                told.append((stream.reason, stream.num_cached_tokens))
            return told

    assert run(work()) == [(FinishReason.LENGTH, 0), (FinishReason.LENGTH, 8)]


def test_the_last_token_is_known_to_be_the_last() -> None:
    async def work() -> list[bool]:
        async with engine() as made, made.submit(create_ask(max_tokens=4)) as stream:
            return [stream.is_at_end async for _ in stream]

    assert run(work()) == [False, False, False, True]


@pytest.mark.parametrize("tokens_before", [0, 1, 5])
def test_leaving_a_stream_frees_its_blocks_and_no_token_comes_after(tokens_before: int) -> None:
    async def work() -> None:
        async with engine(slow()) as made:
            async with made.submit(create_ask(30, 100)) as stream:
                for _ in range(tokens_before):
                    await anext(stream)
            seen = len(stream.token_ids)
            await until(lambda: made.num_in_flight == 0 and not made.has_work and made.free_blocks == 64)
            assert len(stream.token_ids) == seen
            assert made.counters.aborted == 1
            assert_sums(made)

    run(work())


def test_an_aborted_stream_says_so_to_whoever_still_reads() -> None:
    async def work() -> None:
        async with engine(slow()) as made:
            stream = made.submit(create_ask(max_tokens=50))
            stream.abort()
            with pytest.raises(Aborted):
                await read(stream)

    run(work())


def test_a_request_past_its_deadline_is_ended() -> None:
    async def work() -> None:
        async with engine(slow(0.02)) as made:
            with pytest.raises(DeadlineExceeded, match=r"longer than 0\.1 s"):
                await read(made.submit(create_ask(max_tokens=200, timeout_s=0.1)))
            await until(lambda: made.free_blocks == 64)
            assert made.counters.aborted == 1

    run(work())


def test_a_full_queue_refuses_and_says_when_to_come_back() -> None:
    async def work() -> None:
        async with engine(slow(), quick(max_waiting=2), max_num_seqs=1) as made:
            streams = [made.submit(create_ask(max_tokens=20)) for _ in range(3)]
            with pytest.raises(QueueFull, match="3 requests run or wait and at most 3 may") as refused:
                made.submit(create_ask())
            assert 1 <= (refused.value.retry_after_s or 0) <= 60
            await asyncio.gather(*map(read, streams))
            await read(made.submit(create_ask()))
            assert (made.counters.refused, made.counters.finished) == (1, 4)

    run(work())


def test_what_can_never_run_is_refused_at_once_and_not_tried() -> None:
    async def work() -> None:
        async with engine(num_blocks=8) as made:
            with pytest.raises(NeverFits, match="10 blocks"):
                made.submit(create_ask(30, 10))
            assert (made.counters.refused, made.counters.retries) == (1, 0)

    run(work())


def test_draining_finishes_what_runs_and_takes_nothing_new() -> None:
    async def work() -> None:
        async with engine(slow()) as made:
            streams = [made.submit(create_ask(max_tokens=10 + i)) for i in range(6)]
            reading = [asyncio.create_task(read(stream)) for stream in streams]
            draining = asyncio.create_task(made.drain(30))
            await asyncio.sleep(0)
            with pytest.raises(ShuttingDown):
                made.submit(create_ask())
            await draining
            assert [len(await task) for task in reading] == [10, 11, 12, 13, 14, 15]
            assert (made.counters.finished, made.counters.refused) == (6, 1)

    run(work())


def test_what_takes_too_long_to_drain_is_told_why() -> None:
    async def work() -> None:
        async with engine(slow(0.02)) as made:
            reading = asyncio.create_task(read(made.submit(create_ask(max_tokens=200))))
            await asyncio.sleep(0.05)
            await made.drain(0.05)
            with pytest.raises(ShuttingDown, match="send the request again"):
                await reading
            assert_sums(made)

    run(work())


# Retries


@pytest.mark.parametrize("kind", ["raise", "nan"])
@pytest.mark.parametrize("first", [1, 3])
def test_a_failed_call_is_made_again_and_the_text_is_the_same(kind: str, first: int) -> None:
    ask = create_ask(max_tokens=8)

    async def work() -> None:
        async with engine(planned(PlannedFault(kind, first=first))) as made:
            assert await read(made.submit(ask)) == solo(ask)
            assert (made.counters.retries, made.counters.finished, made.counters.dead) == (1, 1, 0)

    run(work())


def test_a_drawn_text_goes_on_where_the_failed_attempt_had_come_to() -> None:
    ask = create_ask(max_tokens=8, temperature=1.0, seed=3)

    async def work() -> list[int]:
        async with engine(planned(PlannedFault("raise", first=4))) as made:
            return await read(made.submit(ask))

    assert run(work()) == solo(ask)


def test_a_drawn_text_without_a_seed_goes_on_as_well() -> None:
    async def work(*faults: PlannedFault) -> list[int]:
        async with engine(planned(*faults)) as made:
            return await read(made.submit(create_ask(max_tokens=8, temperature=1.0)))

    assert run(work(PlannedFault("raise", first=4))) == run(work())


def test_after_the_last_attempt_the_request_is_a_dead_letter(tmp_path: Path) -> None:
    box = DeadLetters(tmp_path)

    async def work() -> None:
        async with engine(planned(PlannedFault("raise", count=1_000)), quick(attempts=3), letters=box) as made:
            ask = create_ask(endpoint="/v1/completions", body={"prompt": "hello"})
            with pytest.raises(GaveUp, match=r"failed 3 times.*planned for call 3.*dead letter 1"):
                await read(made.submit(ask))
            assert (made.counters.retries, made.counters.dead) == (2, 1)
            assert made.num_letters() == 1
            assert_sums(made)

    run(work())
    (letter,) = box.letters()
    assert [attempt.number for attempt in letter.attempts] == [1, 2, 3]
    assert letter.reason == "the model failed: PlannedFailure: planned for call 3"
    assert letter.body == {"prompt": "hello"}
    times = [time for attempt in letter.attempts for time in (attempt.began, attempt.ended)]
    assert times == sorted(times)
    box.close()


def test_one_bad_request_does_not_take_its_company_with_it(tmp_path: Path) -> None:
    box = DeadLetters(tmp_path)

    async def work() -> list[Any]:
        runner = SplittingRunner(Poisoned(9_999))
        async with engine(runner, letters=box) as made:
            asks = [create_ask([*range(50 + i, 60 + i)]) for i in range(3)]
            bad = create_ask([1, 2, 9_999])
            results = await asyncio.gather(*(read(made.submit(ask)) for ask in (*asks, bad)), return_exceptions=True)
            assert results[:3] == [solo(ask) for ask in asks]
            return results

    assert isinstance(run(work())[3], GaveUp)
    assert len(box) == 1
    box.close()


def test_a_stalled_tick_fails_the_attempt_and_its_late_result_is_dropped(tmp_path: Path) -> None:
    ask = create_ask(max_tokens=4)

    async def work() -> None:
        hang = PlannedFault("slow", first=2, seconds=1.2)
        async with engine(planned(hang), quick(stall_s=0.4)) as made:
            assert await read(made.submit(ask)) == solo(ask)
            assert made.counters.retries == 1
            assert made.counters.late_tokens == 1

    run(work())


def test_a_model_that_hangs_leaves_a_dead_letter_at_the_deadline(tmp_path: Path) -> None:
    box = DeadLetters(tmp_path)

    async def work() -> None:
        hang = PlannedFault("slow", first=2, seconds=2.0)
        async with engine(planned(hang), quick(stall_s=0.1), letters=box) as made:
            with pytest.raises(GaveUp, match=r"failed 2 times, the last time with: .* deadline of 0\.6 s"):
                await read(made.submit(create_ask(timeout_s=0.6)))
            assert made.counters.dead == 1
            assert_sums(made)

    run(work())
    (letter,) = box.letters()
    assert "gave no answer within" in letter.attempts[0].reason
    box.close()


def test_who_leaves_while_a_dead_letter_is_written_is_counted_as_dead_alone(tmp_path: Path) -> None:
    box = DeadLetters(tmp_path)
    may_write, is_writing = threading.Event(), threading.Event()
    put = box.put

    def slow_put(ask: Ask, attempts: Sequence[FailedAttempt]) -> str:
        is_writing.set()
        assert may_write.wait(10)
        return put(ask, attempts)

    box.put = slow_put  # type: ignore[method-assign]

    async def work() -> None:
        async with engine(planned(PlannedFault("raise", every=1)), letters=box) as made:
            stream = made.submit(create_ask())
            await until(is_writing.is_set)
            stream.abort()
            ending = asyncio.create_task(made.drain(0))
            await asyncio.sleep(0.05)
            assert not ending.done()
            may_write.set()
            await ending
            with pytest.raises(GaveUp):
                await read(stream)
            assert (made.counters.dead, made.counters.aborted, made.num_letters()) == (1, 0, 1)
            assert_sums(made)

    run(work())
    box.close()


def test_a_server_that_stays_slow_makes_no_more_attempts_than_allowed(tmp_path: Path) -> None:
    box = DeadLetters(tmp_path)

    async def work() -> None:
        hang = PlannedFault("slow", every=1, seconds=0.3)
        limits = quick(stall_s=0.1, attempts=3)
        async with engine(planned(hang), limits, letters=box) as made:
            with pytest.raises(GaveUp, match="gave no answer within"):
                await read(made.submit(create_ask()))
            assert made.counters.retries == 2

    run(work())
    assert len(box.letters()[0].attempts) == 3
    box.close()


def test_an_engine_that_breaks_is_replaced_and_its_requests_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    from scheduler_core.scheduler import Scheduler

    schedule, calls = Scheduler.schedule, []

    def broken(self: Scheduler, tick: int) -> Any:
        calls.append(tick)
        if len(calls) == 4:
            raise AssertionError("a law is broken")
        return schedule(self, tick)

    monkeypatch.setattr(Scheduler, "schedule", broken)
    ask = create_ask(max_tokens=8)

    async def work() -> None:
        async with engine() as made:
            first, second = await asyncio.gather(read(made.submit(ask)), read(made.submit(create_ask(start=5_000))))
            assert first == solo(ask)
            assert second == solo(create_ask(start=5_000))
            assert (made.counters.engine_restarts, made.counters.retries) == (1, 2)

    run(work())


def test_an_engine_that_was_replaced_holds_nothing_of_the_one_before(tmp_path: Path) -> None:
    box = DeadLetters(tmp_path)

    async def work() -> None:
        killed = PlannedFault("worker_killed", first=3)
        async with engine(planned(killed), quick(attempts=1), letters=box) as made:
            with pytest.raises(GaveUp):
                await read(made.submit(create_ask()))
            assert (made.num_running, made.free_blocks) == (0, made.config.num_blocks)

    run(work())
    box.close()


def test_an_engine_that_cannot_be_replaced_fails_its_requests_and_is_told_as_broken(tmp_path: Path) -> None:
    class Lost(SyntheticRunner):
        """On a device that gives memory once."""

        num_allocated = 0

        def allocate(self, num_blocks: int, block_size: int) -> None:
            self.num_allocated += 1
            if self.num_allocated > 1:
                raise RuntimeError("the device is lost")
            super().allocate(num_blocks, block_size)

    box = DeadLetters(tmp_path)

    async def work() -> None:
        runner = SplittingRunner(FaultyRunner(Lost(), FaultPlan([PlannedFault("worker_killed", first=3)])))
        async with engine(runner, quick(stall_s=0.2), letters=box) as made:
            assert (await made.health())[0] == "ok"
            with pytest.raises(GaveUp, match="cannot be started anew"):
                await read(made.submit(create_ask()))
            assert (await made.health())[0] == "broken"
            assert made.counters.dead == 1
            assert_sums(made)

    run(work())
    box.close()


def test_copies_that_fail_are_recomputed_and_nobody_notices() -> None:
    asks = [create_ask(12, 12, start=100 * i) for i in range(1, 9)]

    async def work() -> None:
        faults = PlannedFault("copy_out", first=2, every=2), PlannedFault("copy_in", first=1, every=2)
        async with engine(planned(*faults), num_blocks=12, quantum=2) as made:
            assert await asyncio.gather(*(read(made.submit(ask)) for ask in asks)) == [solo(ask) for ask in asks]
            assert made.counters.preemptions > 0
            assert made.counters.retries == 0

    run(work())


# Everything at once


@pytest.mark.parametrize("seed", range(3))
def test_after_a_random_storm_every_request_has_ended_once_and_no_block_is_held(seed: int, tmp_path: Path) -> None:
    draw = random.Random(seed)
    faults = (
        PlannedFault("raise", first=5, every=17),
        PlannedFault("nan", first=3, every=11),
        PlannedFault("slow", first=1, every=3, seconds=0.002),
    )
    box = DeadLetters(tmp_path)
    ends = dict.fromkeys(("whole", "left", "refused", "dead"), 0)

    async def client(made: AsyncEngine) -> None:
        await asyncio.sleep(draw.random() * 0.2)
        ask = create_ask(draw.randint(1, 90), draw.randint(1, 20), start=100 * draw.randint(1, 8))
        try:
            stream = made.submit(ask)
        except (QueueFull, NeverFits):
            ends["refused"] += 1
            return
        leaves_after = draw.choice([None, None, 0, 3])
        got: list[int] = []
        try:
            async with stream:
                async for token_id in stream:
                    got.append(token_id)
                    if leaves_after is not None and len(got) > leaves_after:
                        ends["left"] += not stream.is_closed
                        ends["whole"] += stream.is_closed
                        return
        except GaveUp:
            ends["dead"] += 1
        else:
            assert got == solo(ask)
            ends["whole"] += 1

    async def work() -> None:
        limits = quick(max_waiting=40, attempts=2)
        async with engine(planned(*faults), limits, letters=box, num_blocks=20, quantum=3) as made:
            await asyncio.gather(*(client(made) for _ in range(80)))
            await until(lambda: not made.has_work)
            counts = made.counters
            assert counts.submitted == 80
            assert {
                "whole": counts.finished,
                "left": counts.aborted,
                "refused": counts.refused,
                "dead": counts.dead,
            } == ends
            assert sum(ends.values()) == 80
            assert made.free_blocks == 20
            assert counts.retries > 0
            assert all(ends.values())

    run(work())
    assert len(box) == ends["dead"]
    box.close()


def test_nothing_of_requests_that_ended_is_kept() -> None:
    async def work() -> None:
        async with engine() as made:
            for _ in range(3):
                await asyncio.gather(*(read(made.submit(create_ask(start=10 * i))) for i in range(1, 9)))
                made.submit(create_ask()).abort()
            await until(lambda: not made.has_work)
            assert made.num_kept == 0

    run(work())


# Recording


def test_the_first_ticks_can_be_recorded_and_opened(tmp_path: Path) -> None:
    file = tmp_path / "run.json.gz"

    async def work() -> None:
        async with engine(record_ticks=6, record_file=file) as made:
            await asyncio.gather(*(read(made.submit(create_ask(start=100, max_tokens=8))) for _ in range(4)))
            await until(file.exists)
            await read(made.submit(create_ask()))
            await until(lambda: not made.has_work)
            assert made.num_kept == 0

    run(work())
    trace = Trace.load(file)
    assert len(trace.records) == 6
    # How many had come by then depends on the machine.
    assert [spec.id for spec in trace.requests] == ["R1", "R2", "R3", "R4"][: len(trace.requests)]
    assert trace.records[-1].snapshot is not None


def test_a_recorded_run_with_aborts_can_be_repeated_and_forked(tmp_path: Path) -> None:
    file = tmp_path / "run.json.gz"

    async def work() -> None:
        async with engine(slow(0.002), record_ticks=1_000, record_file=file, quantum=2, num_blocks=20) as made:
            for _ in range(2):
                streams = [made.submit(create_ask(10, 12, start=100 * i)) for i in range(1, 7)]
                reading = [asyncio.create_task(read(stream)) for stream in streams[1:]]
                await anext(streams[0])
                streams[0].abort()
                await asyncio.gather(*reading)

    run(work())
    trace = Trace.load(file)
    again = replay_to(trace, len(trace.records), SyntheticRunner())
    assert again.trace().records == trace.records
    assert len(fork(trace, 5, trace.config.replace(quantum=None)).records) >= 5


def test_a_recording_is_written_at_the_end_of_a_short_run(tmp_path: Path) -> None:
    file = tmp_path / "run.json.gz"
    ask = create_ask(max_tokens=5)

    async def work() -> None:
        async with engine(planned(PlannedFault("raise", first=2)), record_ticks=1_000, record_file=file) as made:
            await read(made.submit(ask))

    run(work())
    trace = Trace.load(file)
    assert [spec.id for spec in trace.requests] == ["R1", "R1#2"]


def test_errors_are_told_in_the_words_of_openai() -> None:
    codes = {kind.__name__: (kind.status, kind.code) for kind in ServingError.__subclasses__()}
    assert codes["QueueFull"] == (429, "queue_full")
    assert codes["NeverFits"] == (400, "context_length_exceeded")
    assert codes["ShuttingDown"] == (503, "shutting_down")

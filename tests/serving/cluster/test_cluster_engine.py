"""The front of the cluster with replicas in this process: what their failures, refusals and ends become."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from ray.exceptions import ActorDiedError
from ray.serve.exceptions import RayServeException

from scheduler_core.request import SamplingParams
from scheduler_core.serving.ask import ServingLimits
from scheduler_core.serving.cluster import engine as cluster_engine
from scheduler_core.serving.cluster.args import ClusterArgs
from scheduler_core.serving.cluster.engine import ClusterEngine
from scheduler_core.serving.cluster.messages import Part, ReplicaStatus, Work
from scheduler_core.serving.cluster.replica import EngineReplica
from scheduler_core.serving.dead_letters import DeadLetters
from scheduler_core.serving.errors import Aborted, DeadlineExceeded, GaveUp, NeverFits, QueueFull
from tests.serving.helpers import create_ask, create_config, quick, read, run, solo, until

SETTINGS = ["block_size=4", "num_blocks=64", "max_model_len=256", "quantum=none"]


class Parts:
    """A streamed answer as Ray's handle gives it."""

    def __init__(self, parts: AsyncGenerator[Part]) -> None:
        self._parts = parts

    def __aiter__(self) -> AsyncIterator[Part]:
        return self._parts

    def cancel(self) -> None:
        self._closing = asyncio.ensure_future(self._parts.aclose())


class Handle:
    """Sends each call to the next of several replicas, as a router would that knows no prefixes."""

    def __init__(self, *replicas: Callable[[Work], AsyncGenerator[Part]]) -> None:
        self._replicas = replicas
        self.sent: list[tuple[str, Work]] = []
        self.generate = self
        self._key = ""

    def options(self, *, stream: bool, session_id: str) -> Handle:
        self._key = session_id
        return self

    def remote(self, work: Work) -> Parts:
        self.sent.append((self._key, work))
        return Parts(self._replicas[(len(self.sent) - 1) % len(self._replicas)](work))

    def broadcast(self, method: str, *_: str) -> Any:
        class Told:
            async def results_async(self, **_: Any) -> list[object]:
                return [ReplicaStatus(0, 1, 0, 0, 0, 64, False)]

        return Told()


@asynccontextmanager
async def front(handle: Any, limits: ServingLimits | None = None, **extra: Any) -> AsyncIterator[ClusterEngine]:
    made = ClusterEngine(create_config(), handle, 2, 1, limits or quick(), **extra)
    await made.start()
    try:
        yield made
    finally:
        await made.close()


@asynccontextmanager
async def replica(**extra: Any) -> AsyncIterator[EngineReplica]:
    made = EngineReplica(ClusterArgs(backend="synthetic", settings=SETTINGS, check=True, **extra), 0)
    await made.start()
    try:
        yield made
    finally:
        await made.close()


async def dies_after(replica: EngineReplica, num_tokens: int, work: Work) -> AsyncGenerator[Part]:
    """What a replica says that is killed when it has told of so many tokens."""
    async for part in replica.generate(work):
        told = part.token_ids[:num_tokens]
        num_tokens -= len(told)
        if told:
            yield dataclasses.replace(part, token_ids=told, reason=None)
        if not num_tokens:
            raise ActorDiedError


async def says(part: Part) -> AsyncGenerator[Part]:
    yield part


def sums(made: ClusterEngine) -> tuple[int, ...]:
    counted = made.counters
    assert counted.submitted == counted.finished + counted.refused + counted.aborted + counted.dead
    return counted.finished, counted.refused, counted.aborted, counted.dead


def test_a_replica_that_dies_in_mid_text_is_not_noticed_by_the_client() -> None:
    ask = create_ask(9, 12, temperature=1.0)

    async def work() -> None:
        async with replica() as one:
            handle = Handle(lambda work: dies_after(one, 5, work), one.generate)
            async with front(handle) as made:
                texts = [await read(made.submit(ask)) for _ in range(2)]
                assert made.counters.retries == 2
                assert sums(made) == (2, 0, 0, 0)
        works = [work for _, work in handle.sent]
        assert [work.attempt for work in works] == [1, 2, 1, 2]
        assert works[0].sampling.seed == works[1].sampling.seed != works[2].sampling.seed
        assert [len(tokens) for tokens in texts] == [12, 12]
        assert texts[0] != texts[1]

    run(work())


def test_what_replicas_say_equals_the_solo_text() -> None:
    asks = [create_ask(9 + i, 12, start=1_000 * (i + 1)) for i in range(8)]

    def at_first_dies(replica: EngineReplica, work: Work) -> AsyncGenerator[Part]:
        return dies_after(replica, 3, work) if work.attempt == 1 else replica.generate(work)

    async def work() -> list[list[int]]:
        async with (
            replica() as one,
            replica() as two,
            front(Handle(one.generate, lambda work: at_first_dies(two, work))) as made,
        ):
            return await asyncio.gather(*(read(made.submit(ask)) for ask in asks))

    assert run(work()) == [solo(ask) for ask in asks]


def test_when_every_attempt_fails_the_request_is_a_dead_letter_with_each_reason(tmp_path: Path) -> None:
    async def work() -> None:
        box = DeadLetters(tmp_path)
        async with replica() as one:
            handle = Handle(
                lambda work: dies_after(one, 0, work),
                lambda work: says(Part(kind="failed", problem="the disk is gone")),
            )
            async with front(handle, letters=box) as made:
                with pytest.raises(GaveUp, match="failed 3 times"):
                    await read(made.submit(create_ask(body={"prompt": "x"})))
                assert sums(made) == (0, 0, 0, 1)
        [letter] = box.letters()
        reasons = [attempt.reason for attempt in letter.attempts]
        assert reasons == [
            "the replica failed: ActorDiedError",
            "the disk is gone",
            "the replica failed: ActorDiedError",
        ]
        box.close()

    run(work())


def test_refusals_of_a_replica_are_refusals_and_are_not_tried_again() -> None:
    full = Part(kind="queue_full", problem="no room", retry_after_s=7)
    never = Part(kind="never_fits", problem="too long")

    async def work() -> None:
        handle = Handle(lambda work: says(full), lambda work: says(never))
        async with front(handle) as made:
            with pytest.raises(QueueFull, match="no room") as problem:
                await read(made.submit(create_ask()))
            assert problem.value.retry_after_s == 7
            with pytest.raises(NeverFits, match="too long"):
                await read(made.submit(create_ask()))
            with pytest.raises(NeverFits, match="must be below max_model_len"):
                made.submit(create_ask(300))
            assert sums(made) == (0, 3, 0, 0)
        assert len(handle.sent) == 2

    run(work())


def test_who_leaves_or_is_out_of_time_frees_the_blocks_of_the_replica() -> None:
    async def work() -> None:
        async with (
            replica(faults=[{"kind": "slow", "every": 1, "seconds": 0.01}]) as one,
            front(Handle(one.generate)) as made,
        ):
            stream = made.submit(create_ask(9, 200))
            await anext(stream)
            assert one.status(0, "test").free_blocks < 64
            stream.abort()
            await until(lambda: one.status(0, "test").free_blocks == 64 and not one.status(0, "test").in_flight)
            with pytest.raises(Aborted):
                await read(stream)
            with pytest.raises(DeadlineExceeded):
                await read(made.submit(create_ask(9, 200, timeout_s=0.1)))
            await until(lambda: one.status(0, "test").free_blocks == 64 and not one.status(0, "test").in_flight)
            assert sums(made) == (0, 0, 2, 0)

    run(work())


def test_a_poisoned_request_is_found_although_each_attempt_is_another_replica_s_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from scheduler_core.serving.cluster import replica as module
    from tests.serving.helpers import Poisoned

    monkeypatch.setattr(module, "make_runner", lambda _: Poisoned(666))

    async def work() -> None:
        async with replica() as one, front(Handle(one.generate)) as made:
            good = [made.submit(create_ask(8, 6, start=2_000 + 100 * i)) for i in range(4)]
            bad = made.submit(create_ask([1, 2, 666]))
            for stream in good:
                assert await read(stream) == solo(stream.ask)
            with pytest.raises(GaveUp, match="illegal memory access"):
                await read(bad)
            assert sums(made) == (4, 0, 0, 1)

    run(work())


def test_the_key_of_a_prefix_has_the_salt_in_it_and_the_router_s_text_too() -> None:
    async def work() -> list[tuple[str, Work]]:
        async with replica() as one:
            handle = Handle(one.generate)
            async with front(handle) as made:
                for tail, salt in ((1, "a"), (2, "a"), (1, "b")):
                    await read(made.submit(create_ask([1, 2, 3, 4, tail], 1, salt=salt)))
            return handle.sent

    (one, first), (other, second), (foreign, third) = run(work())
    assert one == other != foreign
    assert first.prompt[:-1] == second.prompt[:-1]
    assert first.prompt[0] != third.prompt[0]
    assert Work((0xD800, 0x20_0000), first.sampling, 0, "", 1, 1.0, "g").prompt.encode()


def test_what_a_gateway_wanted_that_died_is_aborted_and_what_others_want_goes_on() -> None:
    async def work() -> None:
        made = EngineReplica(
            ClusterArgs(backend="synthetic", settings=SETTINGS, faults=[{"kind": "slow", "every": 1, "seconds": 0.01}]),
            0,
            silence_s=0.2,
        )
        await made.start()
        wanted = [
            Work(create_ask(9, start=1_000 * i).prompt_token_ids, SamplingParams(100), 0, "", 1, 60.0, gateway)
            for i, gateway in enumerate(("dead", "alive"), 1)
        ]

        async def last(work: Work) -> Part:
            return [part async for part in made.generate(work)][-1]

        both = [asyncio.create_task(last(work)) for work in wanted]
        while not both[1].done():
            made.status(0, "alive")
            await asyncio.sleep(0.02)
        assert [(part.kind, part.reason) for part in await asyncio.gather(*both)] == [
            ("failed", None),
            (None, "LENGTH"),
        ]
        assert made.status(0, "alive").free_blocks == 64
        await made.close()

    run(work())


def test_a_call_that_cannot_even_be_made_is_a_failed_attempt() -> None:
    class Gone(Handle):
        def remote(self, work: Work) -> Parts:
            raise RayServeException("Serve was shut down")

    async def work() -> None:
        async with front(Gone()) as made:
            with pytest.raises(GaveUp, match="failed 3 times, the last time with: the replica failed"):
                await read(made.submit(create_ask()))

    run(work())


def test_replicas_that_are_too_full_to_answer_are_still_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_engine, "_WATCH_S", 0.01)

    class Silent:
        async def results_async(self, **_: Any) -> list[object]:
            raise TimeoutError

    class Full(Handle):
        asked = 0

        def broadcast(self, method: str, *_: str) -> Any:
            self.asked += 1
            return super().broadcast(method) if self.asked == 1 else Silent()

    async def work() -> None:
        handle = Full()
        async with front(handle) as made:
            await until(lambda: handle.asked > 3)
            status, facts = await made.health()
            assert (status, facts["replicas"]) == ("ok", 1)

    run(work())


def slow_work(number: int, num_tokens: int) -> Work:
    return Work(
        create_ask(9, start=1_000 * number).prompt_token_ids, SamplingParams(num_tokens), 0, "", 1, 60.0, "gateway"
    )


def test_a_replica_that_is_full_does_not_take_silence_for_death() -> None:
    async def work() -> None:
        made = EngineReplica(
            ClusterArgs(
                backend="synthetic",
                settings=[*SETTINGS, "max_num_seqs=1"],
                faults=[{"kind": "slow", "every": 1, "seconds": 0.02}],
            ),
            0,
            silence_s=0.2,
        )
        await made.start()

        async def last(number: int) -> Part:
            return [part async for part in made.generate(slow_work(number, 30))][-1]

        both = [asyncio.create_task(last(number)) for number in (1, 2)]
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        while not all(task.done() for task in both):
            made.status(0, "gateway")  # there is room for a question again
            await asyncio.sleep(0.02)
        assert [(part.kind, part.reason) for part in await asyncio.gather(*both)] == [(None, "LENGTH")] * 2
        await made.close()

    run(work())


def test_a_replica_refuses_nothing_that_serve_lets_in() -> None:
    async def work() -> list[str | None]:
        made = EngineReplica(
            ClusterArgs(backend="synthetic", settings=[*SETTINGS, "max_num_seqs=2"], gateway={"max_waiting": 0}),
            0,
        )
        await made.start()

        async def last(number: int) -> Part:
            return [part async for part in made.generate(slow_work(number, 3))][-1]

        parts = await asyncio.gather(*(last(number) for number in range(1, 5)))
        await made.close()
        return [part.reason for part in parts]

    assert run(work()) == ["LENGTH"] * 4

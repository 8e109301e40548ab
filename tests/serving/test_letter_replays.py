"""Dead letters sent again: each once, several at a time, whenever they are asked for."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from scheduler_core.serving.attempt import FailedAttempt
from scheduler_core.serving.dead_letters import DeadLetters
from scheduler_core.serving.letter_replays import AT_ONCE, LetterReplays
from tests.serving.helpers import create_ask, run


@pytest.fixture
def box(tmp_path: Path) -> DeadLetters:
    """With letters 1 to 9."""
    made = DeadLetters(tmp_path)
    for number in range(9):
        made.put(create_ask(body={"prompt": f"{number}"}), [FailedAttempt(1, 0.0, 1.0, "it failed")])
    return made


async def answer(endpoint: str, body: Mapping[str, Any]) -> str:
    return str(body["prompt"])


def test_a_letter_asked_for_in_the_moment_when_the_last_one_is_done_is_sent_too(box: DeadLetters) -> None:
    async def work() -> None:
        replays = LetterReplays(box, answer)
        for letter_id in "123456789":
            assert replays.begin([letter_id]) == 1
            while replays.num_left:
                await asyncio.sleep(0)

    run(work())
    assert len(box) == 0
    box.close()


def test_one_that_is_asked_for_later_does_not_wait_for_those_under_way_and_few_are_sent_at_once(
    box: DeadLetters,
) -> None:
    sent: list[str] = []

    async def work() -> None:
        may_end = asyncio.Event()

        async def slow(endpoint: str, body: Mapping[str, Any]) -> str:
            sent.append(body["prompt"])
            await may_end.wait()
            return "done"

        replays = LetterReplays(box, slow)
        for letter_id in "12":
            replays.begin([letter_id])
        while len(sent) < 2:
            await asyncio.sleep(0.001)
        replays.begin(box.ids())
        await asyncio.sleep(0.1)
        assert len(sent) == AT_ONCE
        may_end.set()
        while replays.num_left:
            await asyncio.sleep(0.001)
        assert (replays.answered, replays.failed) == (9, 0)

    run(work())
    assert len(sent) == 9
    box.close()

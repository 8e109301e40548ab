from __future__ import annotations

import asyncio

import pytest

from scheduler_core.errors import ConfigError
from scheduler_core.load.config import LoadConfig
from scheduler_core.load.generator import GeneratedLoad
from scheduler_core.load.request import LoadRequest, Sendable
from scheduler_core.load.sender import Sent, send_open_loop
from scheduler_core.request import FinishReason
from scheduler_core.request_facts import RequestFacts
from scheduler_core.scratch.virtual_loop import run_virtually
from scheduler_core.summary import summarise


def load(*times: float) -> list[LoadRequest]:
    return [LoadRequest(f"r{number}", time, 4, 2, 0, number) for number, time in enumerate(times)]


class Server:
    """Answers every request after `seconds`, and notes when each came in."""

    def __init__(self, seconds: float = 10.0) -> None:
        self.seconds = seconds
        self.came: list[float] = []

    async def __call__(self, request: Sendable, planned: float) -> RequestFacts:
        clock = asyncio.get_running_loop().time
        self.came.append(clock())
        await asyncio.sleep(self.seconds)
        return RequestFacts(request.id, planned, 4, (clock(),), clock(), FinishReason.LENGTH)


def ends(sent: list[Sent]) -> list[str]:
    return [each.facts.reason.value for each in sent if each.facts.reason]


def test_requests_go_out_on_schedule_however_many_are_outstanding() -> None:
    server = Server(seconds=100.0)
    sent = run_virtually(lambda: send_open_loop(load(0.0, 1.5, 1.5, 4.0), server))
    assert server.came == [0.0, 1.5, 1.5, 4.0]
    assert ends(sent) == ["length"] * 4
    assert [each.late_s for each in sent] == [0.0] * 4


def test_a_load_can_be_sent_faster() -> None:
    server = Server()
    run_virtually(lambda: send_open_loop(load(0.0, 2.0, 8.0), server, speed=2.0))
    assert server.came == [0.0, 1.0, 4.0]


def test_a_sender_that_was_late_does_not_make_the_server_look_fast() -> None:
    async def busy() -> list[Sent]:
        # What else runs in the loop holds it up for three seconds: simulated by moving the clock on.
        asyncio.get_running_loop().call_at(1.0, lambda: setattr(asyncio.get_running_loop()._leap, "now", 4.0))  # type: ignore[attr-defined]
        return await send_open_loop(load(0.0, 2.0), Server(seconds=1.0))

    late = run_virtually(busy)[1]
    assert late.late_s == 2.0
    assert late.facts.ttft_s == 3.0


def test_a_request_that_fails_is_told_with_its_error_and_stops_nobody_else() -> None:
    async def send(request: Sendable, planned: float) -> RequestFacts:
        if request.id == "r1":
            raise ConnectionError("refused")
        return await Server()(request, planned)

    sent = run_virtually(lambda: send_open_loop(load(0.0, 1.0, 2.0), send))
    assert ends(sent) == ["length", "error", "length"]
    assert sent[1].error == "ConnectionError: refused"
    assert summarise([each.facts for each in sent])["failed"] == 1


def test_a_stopped_load_sends_nothing_more_and_tells_what_was_under_way() -> None:
    async def stop_early() -> list[Sent]:
        stop = asyncio.Event()
        asyncio.get_running_loop().call_at(5.0, stop.set)
        return await send_open_loop(load(0.0, 4.0, 6.0, 600.0), Server(seconds=3.0), stop=stop)

    sent = run_virtually(stop_early)
    assert ends(sent) == ["length", "abort"]
    assert sent[1].facts.finish == 5.0


@pytest.mark.parametrize("last", [0.0, 900.0], ids=["all sent", "one to come"])
def test_whoever_gives_up_the_load_leaves_no_request_running(last: float) -> None:
    async def give_up() -> int:
        server = Server(seconds=1_000.0)
        sending = asyncio.create_task(send_open_loop(load(0.0, 0.0, last), server))
        await asyncio.sleep(5.0)
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        return len(asyncio.all_tasks())

    assert run_virtually(give_up) == 1


def test_many_at_once_all_go_out() -> None:
    server = Server()
    sent = run_virtually(
        lambda: send_open_loop(GeneratedLoad(LoadConfig(num_requests=500, arrivals="at_once")), server)
    )
    assert len(sent) == 500
    assert set(server.came) == {0.0}


def test_an_empty_load_is_over_at_once() -> None:
    assert run_virtually(lambda: send_open_loop([], Server())) == []


@pytest.mark.parametrize("speed", [0.0, -1.0, float("inf")])
def test_an_impossible_speed_is_refused(speed: float) -> None:
    with pytest.raises(ConfigError, match="speed is"):
        run_virtually(lambda: send_open_loop(load(0.0), Server(), speed=speed))

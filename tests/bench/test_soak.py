"""`bench soak`: a short one of a real gateway, and that each of its checks can fail."""

from __future__ import annotations

import asyncio
import dataclasses
import io
import json
import math
import random
import urllib.error
from collections import Counter
from email.message import Message
from pathlib import Path
from typing import Any

import httpx
import pytest

from scheduler_core.backends.synthetic import SyntheticRunner
from scheduler_core.bench.served.client import Client, LostAnswer, WireRequest
from scheduler_core.bench.served.exposition import parse
from scheduler_core.bench.served.process import ServedProcess, served
from scheduler_core.bench.soak.capacity import Capacity
from scheduler_core.bench.soak.checks import checks
from scheduler_core.bench.soak.clients import Ledger
from scheduler_core.bench.soak.memory import MemorySample, judge
from scheduler_core.bench.soak.plan import SoakPlan
from scheduler_core.bench.soak.report import failures, passed
from scheduler_core.bench.soak.soak import Idle, Run, Soaked
from scheduler_core.bench.soak.texts import TextsVerdict, compare
from scheduler_core.bench.soak.watch import Watched
from scheduler_core.config import EngineConfig
from scheduler_core.errors import BenchError, ConfigError
from scheduler_core.events import TokenSampled
from scheduler_core.request import FinishReason
from scheduler_core.request_facts import RequestFacts
from scheduler_core.serving.fault_plan import KINDS
from scheduler_core.solo import solo_run
from tests.serving.helpers import in_a_loop_of_its_own
from tests.test_cli import tickscope


def test_a_short_soak_of_a_real_gateway_loses_leaks_and_changes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "soak.json"
    done = tickscope("bench", "soak", "--backend", "synthetic", "--minutes", "0.12", "--json", file)
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(file.read_text())
    assert told["passed"]
    assert [check["name"] for check in told["checks"] if check["passed"] is None] == ["memory is flat"]
    clients = told["clients"]
    assert clients.pop("submitted") == sum(clients.values()) == told["metrics"]["requests_submitted_total"]
    assert min(clients.values()) > 0
    assert told["load"]["rate"] == pytest.approx(0.8 * told["capacity"]["requests_per_s"])
    assert told["texts"]["compared"] > 0
    assert "failed" not in done.stderr


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--minutes", "0"), "minutes is 0.0; it must be a number from 0.05"),
        (("--load", "9"), "load is 9.0; it must be a number from 0.05 to 2"),
    ],
)
def test_an_impossible_soak_is_refused_with_value_and_bound(words: tuple[str, str], says: str) -> None:
    done = tickscope("bench", "soak", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert says in done.stderr


def test_a_gateway_that_does_not_start_is_told_with_its_last_words(tmp_path: Path) -> None:
    with (
        pytest.raises(BenchError, match=r"ended with status 2: error: .*must be one of"),
        served(tmp_path, "--backend", "synthetic", "--set", "policy=none"),
    ):
        pass


def test_what_is_in_flight_is_told_while_a_call_stalls_too_and_other_troubles_are_errors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(url: str, timeout: float) -> Any:
        body = io.BytesIO(b'{"status": "stalled", "in_flight": 2}')
        raise urllib.error.HTTPError(url, 503, "Service Unavailable", Message(), body)

    monkeypatch.setattr("urllib.request.urlopen", refuse)
    server = ServedProcess(None, tmp_path / "log", "toy", "http://127.0.0.1:9")  # type: ignore[arg-type]
    assert server.in_flight() == 2
    with pytest.raises(BenchError, match="answers at /metrics with status 503"):
        server.metrics()


# What is sent


def test_the_same_seed_draws_the_same_soak() -> None:
    one, again, other = (SoakPlan(minutes=1, seed=seed).requests(4.0) for seed in (3, 3, 4))
    assert one == again != other
    assert len(one) == 240


def test_every_kind_of_client_is_among_the_requests_and_leavers_ask_for_more_than_they_read() -> None:
    requests = SoakPlan(minutes=5).requests(10.0)
    leavers = [each for each in requests if each.leave_after is not None]
    assert len(leavers) / len(requests) == pytest.approx(0.1, abs=0.02)
    assert {each.leave_after for each in leavers} == {0, 1, 2, 5, 20}
    assert min(each.sent.max_tokens for each in leavers) >= 300
    assert any(each.is_whole for each in requests)
    assert any(each.sent.max_tokens > 160 * 16 for each in requests)
    assert len({each.sent.salt for each in requests}) == 2


def test_ids_of_the_warm_up_are_never_used_twice() -> None:
    endless = SoakPlan().warm_up()
    ids = [next(endless).id for _ in range(2_500)]
    assert len({*ids}) == len(ids)


# What a client makes of an answer


def answer_of(*events: dict[str, Any], status: int = 200, done: bool = True) -> httpx.Response:
    if status != 200:
        return httpx.Response(status, json=events[0])
    text = "".join(f"data: {json.dumps(event)}\n\n" for event in events)
    return httpx.Response(200, text=text + ("data: [DONE]\n\n" if done else ""))


def said(text: str, reason: str | None = None) -> dict[str, Any]:
    return {"choices": [{"text": text, "finish_reason": reason}]}


def facts_of(answer: httpx.Response, leave_after: int | None = None) -> RequestFacts:
    async def work() -> RequestFacts:
        transport = httpx.MockTransport(lambda _: answer)
        async with httpx.AsyncClient(transport=transport, base_url="http://testserver") as http:
            now = asyncio.get_running_loop().time()
            return await Client(http, "toy").stream(WireRequest("r", (1, 2), 2), now, leave_after=leave_after)

    return in_a_loop_of_its_own(work())


def error(code: str) -> dict[str, Any]:
    return {"error": {"message": "no", "code": code}}


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (answer_of(said("a"), said("b", "length")), FinishReason.LENGTH),
        (answer_of(said("a", "stop")), FinishReason.STOP),
        (answer_of(error("queue_full"), status=429), FinishReason.REJECTED),
        (answer_of(error("context_length_exceeded"), status=400), FinishReason.REJECTED),
        (answer_of(said("a"), error("model_failed")), FinishReason.ERROR),
        (answer_of(error("model_failed"), status=500), FinishReason.ERROR),
    ],
)
def test_each_end_of_an_answer_is_known(answer: httpx.Response, reason: FinishReason) -> None:
    assert facts_of(answer).reason is reason


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (answer_of(said("a"), done=False), "ended after 1 tokens without a reason"),
        (answer_of(said("a", "length")), "1 tokens came of 2"),
        (answer_of(error("unheard_of"), status=500), "status 500.*unheard_of"),
        (httpx.Response(502, text="<html>"), "status 502 with a body that is not JSON"),
    ],
)
def test_an_answer_that_ends_in_no_proper_way_is_lost(answer: httpx.Response, says: str) -> None:
    with pytest.raises(LostAnswer, match=says):
        facts_of(answer)


@pytest.mark.parametrize("leave_after", [0, 1])
def test_a_client_that_leaves_has_read_no_more_than_it_wanted(leave_after: int) -> None:
    facts = facts_of(answer_of(said("a"), said("b", "length")), leave_after)
    assert (facts.reason, facts.num_output_tokens) == (FinishReason.ABORT, leave_after)


# Memory


def memory(mib_at: Any, minutes: float = 10.0) -> list[MemorySample]:
    draw = random.Random(1)
    return [MemorySample(float(s), mib_at(s) + draw.uniform(-3, 3), 100.0 + s) for s in range(int(minutes * 60))]


@pytest.mark.parametrize(
    ("mib_at", "is_flat"),
    [
        (lambda _: 400.0, True),
        (lambda s: 400.0 + min(s, 120) / 2, True),
        (lambda s: 400.0 + (200.0 if s % 30 > 10 else 0.0), True),
        (lambda s: 400.0 + 2.0 * s / 60, False),
        (lambda s: 400.0 + (12.0 if s > 450 else 0.0), False),
    ],
    ids=["noise", "a warm-up", "what comes and goes", "a leak", "a step"],
)
def test_flat_memory_is_told_from_growing_memory(mib_at: Any, is_flat: bool) -> None:
    assert judge(memory(mib_at)).is_flat is is_flat


def test_a_short_run_says_nothing_of_memory() -> None:
    verdict = judge(memory(lambda s: 400.0 + s, minutes=0.5))
    assert verdict.is_flat is None
    assert verdict.by_slope > 10


# Texts


def test_a_changed_text_is_named_and_a_missing_one_is_not_compared() -> None:
    runner, requests = SyntheticRunner(), SoakPlan(minutes=0.5).requests(1.0)[:3]
    config = EngineConfig(max_model_len=2_048)
    texts = {each.id: runner.decode(tokens_of(each, config, runner)) for each in requests[:2]}
    texts[requests[1].id] += "x"
    found = compare(requests, texts, runner, lambda _: None)
    assert (found.compared, found.equal, found.ties, found.wrong) == (2, 1, 0, (requests[1].id,))


def tokens_of(request: Any, config: EngineConfig, runner: SyntheticRunner) -> list[int]:
    records = solo_run(request.spec(), config, runner).records
    return [event.token_id for record in records for event in record.events if isinstance(event, TokenSampled)]


# Checks

CLEAN = {
    "requests_submitted_total": 10.0,
    "requests_finished_total": 6.0,
    "requests_refused_total": 1.0,
    "requests_aborted_total": 2.0,
    "requests_dead_total": 1.0,
    "dead_letters": 1.0,
    "tick_seconds_count": 100.0,
    "engine_restarts_total": 2.0,
    "model_call_retries_total": 3.0,
    "preemption_count_total": 4.0,
}

HAPPENED = dict.fromkeys(KINDS, 2)


def soaked(metrics: dict[str, float] | None = None, run: dict[str, Any] | None = None, **changes: Any) -> Soaked:
    """One that passes, but for what is changed."""
    ledger = Ledger(10, Counter(finished=6, refused=1, aborted=2, dead=1))
    watched = Watched(memory(lambda _: 400.0))
    base = Run(
        Capacity(24, 1.0, 10, 10.0, 100.0),
        8.0,
        ledger,
        [],
        watched,
        Idle(0, 0, 0, 0.0),
        CLEAN | (metrics or {}),
        HAPPENED,
        [],
        {},
    )
    made = Soaked(SoakPlan(), base, judge(watched.memory), TextsVerdict(3, 3, 0, ()), "", 0)
    return dataclasses.replace(made, run=dataclasses.replace(base, **(run or {})), **changes)


def test_a_clean_soak_passes() -> None:
    assert passed(checks(soaked()))


BROKEN = "scheduler_core.laws.BrokenLaw: blocks: R1 has computed more tokens than its blocks hold"


@pytest.mark.parametrize(
    ("changed", "failed"),
    [
        (
            soaked(run={"ledger": Ledger(11, Counter(finished=6, refused=1, aborted=2, dead=1), ["r9: LostAnswer"])}),
            ["no answer is lost", "the clients count the same"],
        ),
        (
            soaked({"requests_submitted_total": 11.0}),
            ["submitted = finished + refused + aborted + dead, at /metrics", "the clients count the same"],
        ),
        (soaked({"requests_finished_total": 7.0, "requests_aborted_total": 1.0}), ["the clients count the same"]),
        (soaked({"dead_letters": 0.0}), ["every dead request is a dead letter"]),
        (soaked(run={"idle": Idle(0, 0, 0, 1 / 160)}), ["idle, the server holds no request and no block"]),
        (soaked(run={"idle": Idle(1, 0, 0, 0.0)}), ["idle, the server holds no request and no block"]),
        (soaked({"engine_restarts_total": 3.0}, log=f"Traceback\n{BROKEN}\n"), ["the laws hold after every tick"]),
        (soaked(memory=judge(memory(lambda s: 400.0 + s / 10))), ["memory is flat"]),
        (soaked(texts=TextsVerdict(3, 2, 0, ("r1",))), ["sampled answers are those given alone"]),
        (soaked(texts=TextsVerdict(0, 0, 0, ())), ["sampled answers are those given alone"]),
        (soaked({"engine_restarts_total": 3.0}), ["the laws hold after every tick"]),
        (soaked({"model_call_retries_total": 0.0}), ["every kind of fault and of end happened"]),
        (soaked(run={"happened": {**HAPPENED, "nan": 0}}), ["every kind of fault and of end happened"]),
        (soaked(status=-9), ["the server ends well when told to"]),
    ],
)
def test_whatever_goes_wrong_is_named(changed: Soaked, failed: list[str]) -> None:
    found = checks(changed)
    assert [check.name for check in found if check.passed is False] == failed
    assert len(failures(found)) == len(failed)
    assert not passed(found)


def test_metrics_are_read_summed_over_labels_and_without_buckets() -> None:
    text = '# HELP a_total A.\na_total{model="m",tier="disk"} 2.0\na_total{model="m",tier="memory"} 3.0\nb 1e-3\n'
    assert parse(text + 'c_bucket{le="+Inf"} 4\nd NaN\n') == {
        "a_total": 5.0,
        "b": 0.001,
        "d": pytest.approx(math.nan, nan_ok=True),
    }


def test_shares_outside_their_bounds_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"leavers is 0\.9; it must be a number from 0 to 0\.3"):
        SoakPlan(leavers=0.9)

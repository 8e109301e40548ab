"""The operations of a gateway: off unless asked for, closed to foreign pages, bounded; and what each of them does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from scheduler_core.backends.replay import ReplayRunner
from scheduler_core.backends.synthetic import SyntheticRunner
from scheduler_core.engine import Engine, fork, replay_to
from scheduler_core.events import FaultInjected
from scheduler_core.narration import narrate_tick
from scheduler_core.request import RequestSpec, SamplingParams
from scheduler_core.serving.app import build
from scheduler_core.serving.fault_plan import FaultPlan, FaultyRunner, PlannedFault
from scheduler_core.serving.settings import ServeSettings
from scheduler_core.storage.backing import Backing
from scheduler_core.storage.block_store import BlockStore, Tier
from scheduler_core.storage.memory_backing import MemoryBacking
from scheduler_core.storage.open_store import open_store
from scheduler_core.storage.stack import Stack
from scheduler_core.trace import Trace
from tests.serving.helpers import MODEL, Served, create_config, run, until

JSON = {"content-type": "application/json"}
PROMPT = [*range(100, 120)]


def tiers(plan: FaultPlan, *names: str) -> BlockStore:
    """Caches below memory, which fail as planned."""
    return Stack([Tier(plan.around(MemoryBacking(1 << 20, name))) for name in names])


@asynccontextmanager
async def operated(
    tmp_path: Path,
    *faults: PlannedFault,
    operations: bool = True,
    keys: str = "",
    caches: tuple[str, ...] = (),
    record: Path | None = None,
    **knobs: Any,
) -> AsyncIterator[Served]:
    """A gateway as `serve` makes it, with a client on this machine."""
    plan = FaultPlan(faults)
    settings = ServeSettings(
        state=tmp_path, operations=operations, api_keys=keys, backoff_s=0.0, attempts=knobs.pop("attempts", 3)
    )
    store = tiers(plan, *caches) if caches else None
    config = create_config(num_blocks=knobs.pop("num_blocks", 64))
    gateway = build(settings, config, SyntheticRunner(), MODEL, record, 1_000, True, plan, store)
    await gateway.engine.start()
    try:
        transport = httpx.ASGITransport(gateway.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", timeout=60) as client:
            yield Served(gateway, client)
    finally:
        await gateway.engine.close()
        if store is not None:
            store.close()


async def get(what: Served, path: str, **options: Any) -> Any:
    answer = await what.client.get(f"/operations/{path}", **options)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def switch(what: Served, *faults: dict[str, Any]) -> Any:
    answer = await what.client.post("/operations/faults", json={"faults": faults})
    assert answer.status_code == 200, answer.text
    return answer.json()


def sums(what: Served) -> None:
    counts = what.engine.counters
    assert counts.submitted == counts.finished + counts.refused + counts.aborted + counts.dead


ROUTES = (
    ("GET", "status"),
    ("GET", "dead-letters"),
    ("DELETE", "dead-letters"),
    ("DELETE", "dead-letters/1"),
    ("POST", "dead-letters/replay"),
    ("POST", "dead-letters/1/replay"),
    ("DELETE", "cache/disk"),
    ("GET", "faults"),
    ("POST", "faults"),
)


def answers(tmp_path: Path, calls: Any, **options: Any) -> list[tuple[int, str]]:
    """Status and text of calls, each of a method, a path below /operations and headers."""

    async def work() -> list[tuple[int, str]]:
        async with operated(tmp_path, **options) as what:
            told = [
                await what.client.request(method, f"/operations/{path}", headers=headers)
                for method, path, headers in calls
            ]
            return [(answer.status_code, answer.text) for answer in told]

    return run(work())


def test_nothing_is_there_unless_asked_for(tmp_path: Path) -> None:
    calls = [(method, path, JSON) for method, path in ROUTES]
    assert {status for status, _ in answers(tmp_path, calls, operations=False)} == {404}


def test_with_keys_everything_needs_one(tmp_path: Path) -> None:
    calls = [(method, path, JSON) for method, path in ROUTES]
    assert {status for status, _ in answers(tmp_path, calls, keys="secret")} == {401}
    right = {**JSON, "authorization": "Bearer secret"}
    assert answers(tmp_path, [("GET", "status", right)], keys="secret")[0][0] == 200


def test_what_a_foreign_page_may_send_is_refused(tmp_path: Path) -> None:
    writes = [(method, path) for method, path in ROUTES if method != "GET"]
    forms = [(method, path, {"content-type": "text/plain"}) for method, path in writes]
    told = answers(tmp_path, forms)
    assert {status for status, _ in told} == {415}
    assert "it must be application/json" in told[0][1]
    rebound = [(method, path, {**JSON, "host": "evil.example:8000"}) for method, path in ROUTES]
    told = answers(tmp_path, rebound)
    assert {status for status, _ in told} == {403}
    assert "call it by localhost, 127.0.0.1 or [::1]" in told[0][1]
    names = ("localhost:8000", "127.0.0.1", "[::1]:8000", "LOCALHOST")
    assert {s for s, _ in answers(tmp_path, [("GET", "status", {"host": name}) for name in names])} == {200}


def test_nothing_is_changed_by_reading(tmp_path: Path) -> None:
    calls = [("GET", path, JSON) for method, path in ROUTES if ("GET", path) not in ROUTES]
    assert {status for status, _ in answers(tmp_path, calls)} == {405}


@pytest.mark.parametrize(
    ("method", "path", "status", "says"),
    [
        ("GET", "dead-letters?limit=0", 400, "limit"),
        ("GET", "dead-letters?limit=51", 400, "limit"),
        ("GET", "dead-letters?limit=x", 400, "limit"),
        ("GET", f"dead-letters?before={10**30}", 400, "before"),
        ("DELETE", "dead-letters/7", 404, "no dead letter '7'"),
        ("DELETE", f"dead-letters/{'9' * 3000}", 404, "no dead letter"),
        ("POST", "dead-letters/..%2F..%2Fetc/replay", 404, ""),
        ("DELETE", "cache/disk", 404, "start the gateway with --store or --redis"),
        ("POST", "faults", 400, "body"),
    ],
)
def test_a_wrong_call_is_refused_with_a_reason(tmp_path: Path, method: str, path: str, status: int, says: str) -> None:
    ((code, text),) = answers(tmp_path, [(method, path, JSON)])
    assert code == status
    assert says in text


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"faults": [{"kind": "melt"}]}, "kind is 'melt'; it must be one of raise, nan"),
        ({"faults": [{}]}, "a fault has no kind"),
        ({"faults": [{"kind": "raise", "first": 0}]}, "first is 0; it must be a whole number"),
        ({"faults": [{"kind": "raise", "every": 10**12}]}, "every is 1000000000000"),
        ({"faults": [{"kind": "slow", "seconds": 1e9}]}, "at most 3600"),
        ({"faults": [{"kind": "slow", "seconds": None}]}, "seconds is None"),
        ({"faults": [{"kind": "raise", "x" * 99: 1}]}, "a fault has no 'xxx"),
        ({"faults": [{"kind": "raise"}] * 33}, "at most 32"),
        ({"faults": [{"kind": "store_gone", "tier": "tape"}]}, "there are disk, shared"),
        ({"faults": [{"kind": ["raise"]}]}, "kind is"),
        ({"faults": "raise"}, "list"),
        ({"plan": []}, "faults"),
        ([], "dictionary"),
    ],
)
def test_a_wrong_plan_is_refused_and_the_old_one_stays(tmp_path: Path, body: Any, says: str) -> None:
    async def work() -> None:
        async with operated(tmp_path, PlannedFault("nan", first=9), caches=("disk", "shared")) as what:
            answer = await what.client.post("/operations/faults", json=body)
            assert answer.status_code == 400, answer.text
            assert says in answer.json()["error"]["message"]
            assert [fault["kind"] for fault in (await get(what, "faults"))["faults"]] == ["nan"]

    run(work())


def test_status_tells_the_engine_its_counters_and_its_caches_but_no_secret(tmp_path: Path) -> None:
    async def work() -> None:
        async with operated(tmp_path, caches=("disk",), keys="secret") as what:
            key = {"authorization": "Bearer secret"}
            body = {"model": MODEL, "prompt": PROMPT, "max_tokens": 3}
            assert (await what.client.post("/v1/completions", json=body, headers=key)).status_code == 200
            told = await get(what, "status", headers=key)
            assert (told["state"], told["in_flight"], told["counters"]["finished"]) == ("ok", 0, 1)
            assert (told["model"], told["num_blocks"], told["ticks"]["count"]) == (MODEL, 64, 3)
            assert [(tier["tier"], tier["is_paused"]) for tier in told["tiers"]] == [("disk", False)]
            assert "seed" not in told["config"]
            assert "secret" not in str(told)

    run(work())


# Dead letters


def test_dead_letters_are_shown_page_by_page_replayed_and_purged(tmp_path: Path) -> None:
    async def work() -> None:
        async with operated(tmp_path, PlannedFault("raise", count=10**6), attempts=2) as what:
            for word in "abcde":
                assert (await what.complete(word, max_tokens=2)).status_code == 500
            assert (await what.chat("<b>hello</b>")).status_code == 500
            page = await get(what, "dead-letters", params={"limit": 4})
            assert [letter["id"] for letter in page["letters"]] == ["6", "5", "4", "3"]
            assert page["total"] == 6
            first = page["letters"][0]
            assert (first["prompt"], first["endpoint"]) == ("user: <b>hello</b>", "/v1/chat/completions")
            assert [attempt["number"] for attempt in first["attempts"]] == [1, 2]
            assert "planned for call" in first["attempts"][1]["reason"]
            page = await get(what, "dead-letters", params={"limit": 4, "before": 3})
            assert [letter["prompt"] for letter in page["letters"]] == ["b", "a"]
            # Fails again: kept anew, under another id, and not doubled.
            assert (await what.client.post("/operations/dead-letters/1/replay", json={})).json() == {"accepted": 1}
            await until(lambda: what.engine.counters.dead == 7)
            while (page := await get(what, "dead-letters"))["replays"]["left"]:
                await asyncio.sleep(0.01)
            assert [letter["id"] for letter in page["letters"]] == ["7", "6", "5", "4", "3", "2"]
            assert "kept as dead letter 7" in page["replays"]["last"][0]["problem"]
            assert (await what.client.delete("/operations/dead-letters/7", headers=JSON)).json() == {"purged": 1}
            await switch(what)
            answer = await what.client.post("/operations/dead-letters/replay", json={})
            assert (answer.status_code, answer.json()) == (202, {"accepted": 5})
            while (page := await get(what, "dead-letters"))["replays"]["left"]:
                await asyncio.sleep(0.01)
            assert (page["total"], page["replays"]["answered"], page["replays"]["failed"]) == (0, 5, 1)
            assert (await what.client.delete("/operations/dead-letters", headers=JSON)).json() == {"purged": 0}
            sums(what)

    run(work())


def test_a_letter_sent_again_twice_at_once_is_answered_once(tmp_path: Path) -> None:
    async def work() -> None:
        async with operated(tmp_path, PlannedFault("raise"), attempts=1) as what:
            await what.complete(max_tokens=2)
            await switch(what, {"kind": "slow", "every": 1, "seconds": 0.05})
            names = ("1", "1", "1.0", "%201")
            told = [await what.client.post(f"/operations/dead-letters/{name}/replay", json={}) for name in names]
            assert [answer.json()["accepted"] for answer in told] == [1, 0, 0, 0]
            await until(lambda: what.engine.num_letters() == 0)
            assert what.engine.counters.finished == 1

    run(work())


# Caches


def test_a_cache_is_cleared_alone(tmp_path: Path) -> None:
    async def work() -> None:
        async with operated(tmp_path, caches=("disk", "shared")) as what:
            await what.complete(PROMPT, max_tokens=2)
            store = what.engine._store
            store.flush()
            answer = await what.client.delete("/operations/cache/disk", headers=JSON)
            assert answer.json() == {"cleared": 5}
            told = {tier["tier"]: tier["entries"] for tier in (await get(what, "status"))["tiers"]}
            assert told == {"disk": 0, "shared": 5}

    run(work())


def test_a_cache_that_is_gone_cannot_be_cleared_and_says_so(tmp_path: Path) -> None:
    async def work() -> None:
        async with operated(tmp_path, PlannedFault("store_gone", every=1), caches=("disk",)) as what:
            answer = await what.client.delete("/operations/cache/disk", headers=JSON)
            assert answer.status_code == 503
            assert "does not answer (the connection is lost, as planned)" in answer.json()["error"]["message"]

    run(work())


# Faults under load


LOAD = 30


async def load(what: Served) -> list[int]:
    """The statuses of several requests at once, of which some share their beginning."""
    told = await asyncio.gather(
        *(what.complete([*PROMPT[: 8 + i % 9], i], max_tokens=4 + i % 5, temperature=0) for i in range(LOAD))
    )
    return [answer.status_code for answer in told]


@pytest.mark.parametrize("kind", ["store_full", "store_gone"])
def test_a_cache_that_fails_costs_computing_but_no_answer(kind: str, tmp_path: Path) -> None:
    async def work() -> None:
        async with operated(tmp_path, caches=("disk", "shared"), num_blocks=24) as what:
            await switch(what, {"kind": kind, "every": 1, "tier": "shared"})
            assert await load(what) == [200] * LOAD
            what.engine._store.flush()
            told = await get(what, "status")
            near, far = told["tiers"]
            assert (near["errors"], near["is_paused"]) == (0, False)
            assert (far["writes"], far["drops"] > 0 or far["not_asked"] > 0) == (0, True)
            assert far["is_paused"] == (kind == "store_gone")
            assert told["faults"]["happened"][kind] >= 1
            assert what.engine.counters.dead == 0
            sums(what)

    run(work())


def test_a_worker_that_is_killed_loses_nobody_and_the_recording_tells_it(tmp_path: Path) -> None:
    file = tmp_path / "run.json.gz"

    async def work() -> None:
        async with operated(
            tmp_path, PlannedFault("worker_killed", first=6, every=9), attempts=20, record=file
        ) as what:
            assert await load(what) == [200] * LOAD
            assert what.engine.counters.engine_restarts >= 2
            assert what.engine.counters.retries > 0
            assert what.engine.num_letters() == 0
            sums(what)
            await until(lambda: not what.engine.has_work)
            assert what.engine.free_blocks == 64

    run(work())
    trace = Trace.load(file)
    (fault,) = [event for event in trace.records[-1].events if isinstance(event, FaultInjected)]
    assert fault == FaultInjected("planned_worker_killed", "", "the engine's thread was killed")
    headline = narrate_tick(trace, len(trace.records) - 1)[0]
    assert headline.lead == "Planned fault: the engine's thread was killed."
    assert "tries" in headline.text
    assert headline.text.endswith("the recording ends here.")


def test_a_model_that_raises_and_computes_no_numbers_is_told_with_who_is_tried_again(tmp_path: Path) -> None:
    file = tmp_path / "run.json.gz"
    faults = PlannedFault("raise", first=3), PlannedFault("nan", first=7), PlannedFault("slow", first=2, seconds=0.001)

    async def work() -> None:
        async with operated(tmp_path, *faults, record=file) as what:
            assert (await what.complete(PROMPT, max_tokens=6)).status_code == 200

    run(work())
    trace = Trace.load(file)
    told = [
        sentence.whole
        for record in trace.records
        for sentence in narrate_tick(trace, record.tick)
        if sentence.lead.startswith("Planned")
    ]
    assert told == [
        "Planned fault: the model was slow. The call took longer, and nothing is lost.",
        "Planned fault: the model raised. R1 is tried again as R1#2.",
        "Planned fault: the model computed no number. R1#2 is tried again as R1#3.",
    ]
    # And the run goes on otherwise from any tick, failures and all.
    again = replay_to(trace, len(trace.records), ReplayRunner(trace)).trace()
    assert again.records == trace.records
    assert len(fork(trace, 8, trace.config.replace(chunk_size=4)).records) > 8
    arrived = next(r for r in trace.records if any(getattr(e, "request_id", "") == "R1#2" for e in r.events))
    assert any(s.whole.startswith("R1#2 arrived. It is attempt 2 at R1.") for s in narrate_tick(trace, arrived.tick))


def test_a_plan_is_switched_while_requests_run(tmp_path: Path) -> None:
    async def work() -> None:
        async with operated(tmp_path, attempts=2) as what:
            await switch(what, {"kind": "raise", "every": 1})
            assert set(await load(what)) == {500}
            await switch(what, {"kind": "copy_in", "every": 1})
            assert set(await load(what)) == {200}
            told = await switch(what)
            assert told["faults"] == []
            assert told["happened"]["raise"] >= 2
            assert what.engine.num_letters() == what.engine.counters.dead == LOAD
            sums(what)

    run(work())


def test_a_fault_counts_from_its_switch_and_goes_on_counting_when_others_are_switched() -> None:
    plan = FaultPlan([PlannedFault("raise", first=3)])
    assert [bool(plan.due(("raise",))) for _ in range(2)] == [False, False]
    plan.switch([PlannedFault("slow"), PlannedFault("raise", first=3)])
    assert [due.call for due in plan.due(("raise", "slow"))] == [1, 3]
    plan.switch([])
    assert plan.due(("raise",)) == []


def test_planned_failures_of_a_place_open_a_breaker_and_pass_by_when_they_are_over(tmp_path: Path) -> None:
    plan = FaultPlan([PlannedFault("store_gone", count=3)])
    places: list[Backing] = []

    def wrap(backing: Backing) -> Backing:
        places.append(plan.around(backing))
        return places[-1]

    store = open_store(tmp_path / "cache", wrap=wrap)
    told = [store.stats()[0] for _ in range(4)]
    assert [tier.errors for tier in told] == [1, 2, 3, 3]
    assert [tier.not_asked for tier in told] == [0, 0, 0, 1]
    assert [tier.is_paused for tier in told] == [False, False, True, True]
    store.close()


@pytest.mark.parametrize("kind", ["raise", "nan"])
def test_a_recorded_failure_in_the_middle_of_a_prompt_is_repeated(kind: str) -> None:
    engine = Engine(create_config(chunk_size=4), FaultyRunner(SyntheticRunner(), FaultPlan([PlannedFault(kind, 2)])))
    for name, start in (("a", 100), ("b", 200)):
        engine.add_request(RequestSpec(name, tuple(range(start, start + 12)), SamplingParams(max_tokens=3)))
    trace = engine.run()
    assert replay_to(trace, len(trace.records), ReplayRunner(trace)).trace().records == trace.records

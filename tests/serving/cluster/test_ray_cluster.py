"""The command with replicas, as processes of their own, with the real client of OpenAI; in the order of the file.

The first tests use three replicas, later ones kill some of them, the last one ends them all.
"""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import time
from typing import Any

import openai
import psutil
import pytest

from scheduler_core.backends.synthetic import SyntheticRunner
from scheduler_core.engine import Engine
from scheduler_core.request import RequestSpec, SamplingParams
from scheduler_core.serving.served_backend import ServedBackend, served_config
from tests.figures import tell
from tests.helpers import outputs
from tests.serving.cluster.conftest import REPLICAS, Cluster
from tests.serving.helpers import in_a_loop_of_its_own

pytestmark = pytest.mark.alone

MESSAGES: Any = [{"role": "user", "content": "Say hello."}]
PREFIX = " ".join(f"word{i}" for i in range(40))


#: The synthetic model reads a token as the word that it has met; the gateway has met all that was sent.
SPOKEN = SyntheticRunner()

Prompt = str | list[int]


def solo(prompt: Prompt, max_tokens: int) -> str:
    """What the model says to one who is alone."""
    engine = Engine(served_config(ServedBackend.SYNTHETIC, "sarathi", [], None), SyntheticRunner())
    engine.add_request(RequestSpec("R1", tokens(prompt), SamplingParams(max_tokens)))
    return SPOKEN.decode(outputs(engine.run())["R1"])


def tokens(prompt: Prompt) -> tuple[int, ...]:
    return SPOKEN.encode(prompt) if isinstance(prompt, str) else tuple(prompt)


def complete(cluster: Cluster, prompt: str, max_tokens: int = 3, **extra: Any) -> Any:
    tokens(prompt)
    with cluster.client() as client:
        return client.completions.create(
            model="synthetic", prompt=prompt, max_tokens=max_tokens, temperature=0, extra_body=extra
        )


async def stream_one(client: openai.AsyncOpenAI, prompt: Prompt, max_tokens: int) -> str:
    tokens(prompt)
    stream = await client.completions.create(
        model="synthetic", prompt=prompt, max_tokens=max_tokens, temperature=0, stream=True
    )
    return "".join([part.choices[0].text async for part in stream])


def served_by(cluster: Cluster, before: dict[tuple[str, str], float]) -> str:
    """The replica that looked up more tokens than before."""
    now = cluster.values("cache_query_tokens_total", tier="memory")
    [rank] = [key[0] for key, value in now.items() if value > before.get(key, 0.0)]
    return rank


def test_everything_listens_on_this_machine_only(cluster: Cluster) -> None:
    names = {
        each.pid: " ".join(each.cmdline())[:80] for each in [cluster.processes()[0].parent(), *cluster.processes()]
    }
    listening = [c for c in psutil.net_connections("tcp") if c.pid in names and c.status == psutil.CONN_LISTEN]
    assert len(listening) > 5
    open_to_others = [c for c in listening if c.laddr.ip not in ("127.0.0.1", "::1", "::ffff:127.0.0.1")]
    assert [(c.laddr, names[c.pid]) for c in open_to_others] == []


def test_the_client_of_openai_gets_answers_whole_and_in_parts(cluster: Cluster) -> None:
    SPOKEN.encode(MESSAGES[0]["content"])
    with cluster.client() as client:
        assert [card.id for card in client.models.list()] == ["synthetic"]
        fields: Any = {"model": "synthetic", "messages": MESSAGES, "max_tokens": 9, "temperature": 0}
        whole = client.chat.completions.create(**fields)
        parts = [*client.chat.completions.create(**fields, stream=True, stream_options={"include_usage": True})]
    text = complete(cluster, "one two", 4)
    assert "".join(part.choices[0].delta.content or "" for part in parts[:-1]) == whole.choices[0].message.content
    assert len(parts) == 10
    assert parts[-1].usage is not None
    assert whole.usage is not None
    assert parts[-1].usage.completion_tokens == whole.usage.completion_tokens == 9
    assert text.choices[0].text == solo("one two", 4)


def test_errors_are_those_that_the_client_knows(cluster: Cluster) -> None:
    with cluster.client() as client:
        with pytest.raises(openai.NotFoundError, match="there is no model 'gpt'"):
            client.completions.create(model="gpt", prompt="x")
        with pytest.raises(openai.BadRequestError, match="n is not supported"):
            client.completions.create(model="synthetic", prompt="x", n=2)
        with pytest.raises(openai.BadRequestError, match="at most 4096 are possible"):
            client.completions.create(model="synthetic", prompt="x", max_tokens=100_000)
        with pytest.raises(openai.APIStatusError) as problem:
            client.completions.create(model="synthetic", prompt="x" * 2_000_000)
    assert problem.value.status_code == 413
    with (
        cluster.client(api_key="another") as client,
        pytest.raises(openai.AuthenticationError, match="missing or wrong"),
    ):
        client.models.list()


def test_one_prefix_has_one_home_and_its_second_request_hits_there(cluster: Cluster) -> None:
    homes = set()
    for tail in ("one", "two", "three"):
        before = cluster.values("cache_query_tokens_total", tier="memory")
        cached = complete(cluster, f"{PREFIX} {tail}").usage.prompt_tokens_details.cached_tokens
        homes.add(served_by(cluster, before))
        assert (cached >= 32) == (tail != "one")
    assert len(homes) == 1


def test_tenants_with_different_salts_never_share_and_those_with_the_same_do(cluster: Cluster) -> None:
    text = "tenants " * 40
    cached = [
        complete(cluster, text, cache_salt=salt).usage.prompt_tokens_details.cached_tokens
        for salt in ("a", "b", "a", "")
    ]
    assert cached[0] == cached[1] == cached[3] == 0
    assert cached[2] > 64


def test_who_leaves_frees_the_blocks_of_the_replica(cluster: Cluster) -> None:
    aborted = cluster.total("requests_aborted_total")
    with cluster.client() as client:
        stream = client.completions.create(model="synthetic", prompt="leave", max_tokens=2_000, stream=True)
        for _ in range(3):
            next(stream)
        cluster.until(lambda: cluster.total("scheduler_running_requests") == 1)
        stream.close()
    cluster.until(lambda: cluster.total("scheduler_running_requests") == 0)
    cluster.until(lambda: cluster.total("kv_cache_usage_ratio") == 0)
    assert cluster.total("requests_aborted_total") == aborted + 1


def test_metrics_tell_of_each_replica_once_and_promtool_accepts_them(cluster: Cluster) -> None:
    text = cluster.get("/metrics")
    names = [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")]
    assert len(names) == len(set(names)) > 25
    assert {key[0] for key in cluster.values("tick_seconds_count")} == {str(rank) for rank in range(REPLICAS)}
    for name in ("requests_finished_total", "time_to_first_token_seconds_count", "dead_letters"):
        assert {key[0] for key in cluster.values(name)} == {"gateway-0"}
    if (promtool := shutil.which("promtool")) is not None:
        told = subprocess.run([promtool, "check", "metrics"], input=text.encode(), capture_output=True, timeout=30)
        assert told.returncode == 0, told.stderr


def test_a_replica_killed_under_load_loses_no_request_and_is_replaced(cluster: Cluster) -> None:
    names = ("submitted", "finished", "refused", "aborted", "dead")
    before = {name: cluster.total(f"requests_{name}_total") for name in names}
    retries = cluster.total("model_call_retries_total")
    drawn = cluster.total("generation_tokens_total")
    prompts = [[1_000 + i, *range(2_000, 2_010)] for i in range(24)]
    ticks = cluster.values("tick_seconds_count")
    victim = cluster.engines()[0]
    killed = 0.0

    async def work() -> list[str]:
        async with cluster.async_client() as client:
            asked = [asyncio.create_task(stream_one(client, prompt, 100)) for prompt in prompts]
            await asyncio.to_thread(cluster.until, lambda: cluster.total("generation_tokens_total") > drawn + 24 * 5)
            nonlocal killed
            killed = time.monotonic()
            victim.kill()
            return await asyncio.gather(*asked)

    texts = in_a_loop_of_its_own(work())
    assert texts == [solo(prompt, 100) for prompt in prompts]
    made = {name: cluster.total(f"requests_{name}_total") - before[name] for name in names}
    assert made == {"submitted": 24, "finished": 24, "refused": 0, "aborted": 0, "dead": 0}
    retried = cluster.total("model_call_retries_total") - retries
    assert 0 < retried <= 24
    cluster.until(lambda: victim.pid not in [each.pid for each in cluster.engines()] and len(cluster.engines()) == 3)
    cluster.until_all_live()
    back = time.monotonic() - killed
    tell(
        f"Ray: one of 3 replicas killed under 24 streams: {retried:g} tried again, 0 lost; replaced after {back:.1f} s"
    )
    # The new one takes the rank, and its home on the ring brings it requests.
    [rank] = [key for key, value in cluster.values("tick_seconds_count").items() if value < ticks.get(key, 0.0)]
    for i in range(24):
        complete(cluster, f"{i} after the kill", 1)
    assert cluster.values("tick_seconds_count")[rank] > 0


def test_what_killed_replicas_have_computed_is_found_in_redis_by_others(cluster: Cluster) -> None:
    text = "survivors " * 60
    prompts = [[3_000 + i, *range(4_000, 4_010)] for i in range(4)]
    said = complete(cluster, text)
    cluster.until(lambda: cluster.total("cache_store_writes_total", tier="shared") > 0)

    async def work() -> list[str]:
        async with cluster.async_client() as client:
            asked = [asyncio.create_task(stream_one(client, prompt, 60)) for prompt in prompts]
            await asyncio.sleep(0.5)
            for victim in cluster.engines():
                victim.kill()
            return await asyncio.gather(*asked)

    # With nobody left they wait for the successors.
    assert in_a_loop_of_its_own(work()) == [solo(prompt, 60) for prompt in prompts]
    again = complete(cluster, text)
    assert again.choices[0].text == said.choices[0].text
    assert again.usage.prompt_tokens_details.cached_tokens >= 96
    assert cluster.total("cache_hit_tokens_total", tier="shared") >= 96
    cluster.until_all_live()


def test_told_to_end_it_finishes_what_is_under_way_and_leaves_no_process(cluster: Cluster) -> None:
    family = cluster.processes()
    assert len(family) > REPLICAS

    async def work() -> str:
        async with cluster.async_client() as client:
            asked = asyncio.create_task(stream_one(client, "the last one", 60))
            await asyncio.sleep(0.4)
            cluster.process.terminate()
            return await asked

    assert in_a_loop_of_its_own(work()) == solo("the last one", 60)
    assert cluster.process.wait(60) == 0
    gone, alive = psutil.wait_procs(family, timeout=10)
    assert [each.cmdline() for each in alive] == []
    assert len(gone) == len(family)
    assert not [line for line in cluster.said if "Traceback" in line]

"""The wire format: bodies, streams, usage, errors, limits, keys; and no body whatever makes the server fail."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler_core.serving.body_limit import BodyLimit
from scheduler_core.serving.dead_letters import DeadLetters
from scheduler_core.serving.fault_plan import PlannedFault
from scheduler_core.serving.gateway import GatewayLimits
from scheduler_core.trace import Trace
from tests.serving.helpers import MODEL, Served, create_ask, events_of, planned, quick, run, served, slow, solo, until


def error(answer: httpx.Response) -> dict[str, Any]:
    """The error of an answer, which has the fields that OpenAI's have."""
    told: dict[str, Any] = answer.json()["error"]
    assert {"message", "type", "param", "code"} <= set(told)
    return told


def ask(*calls: Any, **options: Any) -> list[httpx.Response]:
    """The answers to calls made one after the other: each takes what is served."""

    async def work() -> list[httpx.Response]:
        async with served(**options) as what:
            return [await call(what) for call in calls]

    return run(work())


# Answers


def test_a_completion_has_text_usage_and_a_reason() -> None:
    (answer,) = ask(lambda s: s.complete(max_tokens=5, temperature=0))
    body = answer.json()
    assert answer.status_code == 200
    assert (body["object"], body["model"], body["id"][:5]) == ("text_completion", MODEL, "cmpl-")
    assert body["id"] == answer.headers["x-request-id"]
    (choice,) = body["choices"]
    assert choice["finish_reason"] == "length"
    assert len(choice["text"].split()) == 5
    assert body["usage"] == {
        "prompt_tokens": 2,
        "completion_tokens": 5,
        "total_tokens": 7,
        "prompt_tokens_details": {"cached_tokens": 0},
    }


def test_a_chat_has_a_message() -> None:
    (answer,) = ask(lambda s: s.chat(max_completion_tokens=3))
    body = answer.json()
    assert (body["object"], body["id"][:9]) == ("chat.completion", "chatcmpl-")
    assert body["choices"][0]["message"]["role"] == "assistant"
    assert body["usage"]["completion_tokens"] == 3


def test_a_stream_has_one_chunk_for_each_token_and_the_same_text() -> None:
    whole, stream = ask(
        lambda s: s.complete(max_tokens=6, temperature=0),
        lambda s: s.complete(max_tokens=6, temperature=0, stream=True),
    )
    chunks = events_of(stream)
    assert stream.headers["content-type"].startswith("text/event-stream")
    assert len(chunks) == 6
    assert "".join(chunk["choices"][0]["text"] for chunk in chunks) == whole.json()["choices"][0]["text"]
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks] == [None] * 5 + ["length"]
    assert all("usage" not in chunk for chunk in chunks)


def test_a_streamed_chat_begins_with_the_role_and_ends_with_usage_where_asked_for() -> None:
    (stream,) = ask(lambda s: s.chat(max_tokens=3, stream=True, stream_options={"include_usage": True}))
    *chunks, last = events_of(stream)
    assert [chunk["choices"][0]["delta"].get("role") for chunk in chunks] == ["assistant", None, None]
    assert [chunk["usage"] for chunk in chunks] == [None] * 3
    assert (last["choices"], last["usage"]["completion_tokens"]) == ([], 3)
    assert len({chunk["id"] for chunk in (*chunks, last)}) == 1


def test_cached_tokens_are_told() -> None:
    prompt = list(range(100, 120))
    first, second = ask(*[lambda s: s.complete(prompt, max_tokens=2)] * 2)
    cached = [answer.json()["usage"]["prompt_tokens_details"]["cached_tokens"] for answer in (first, second)]
    assert cached == [0, 16]


def test_tenants_with_different_salts_share_nothing() -> None:
    prompt = list(range(100, 120))
    answers = ask(*[lambda s, salt=salt: s.complete(prompt, max_tokens=2, cache_salt=salt) for salt in "aba"])
    cached = [answer.json()["usage"]["prompt_tokens_details"]["cached_tokens"] for answer in answers]
    assert cached == [0, 0, 16]


def test_the_same_seed_draws_the_same_text_and_another_one_another() -> None:
    answers = ask(*[lambda s, seed=seed: s.complete(seed=seed, max_tokens=8) for seed in (1, 1, 2)])
    first, second, other = (answer.json()["choices"][0]["text"] for answer in answers)
    assert first == second != other


@pytest.mark.parametrize("stream", [False, True])
def test_a_stop_string_ends_the_text_and_is_not_shown(stream: bool) -> None:
    async def work() -> None:
        async with served() as what:
            plain = (await what.complete(max_tokens=12, temperature=0)).json()["choices"][0]["text"]
            words = plain.split(" ")
            stop = f"{words[3][-2:]} {words[4][:2]}"
            answer = await what.complete(max_tokens=12, temperature=0, stop=[stop, "never"], stream=stream)
            choices = [body["choices"][0] for body in (events_of(answer) if stream else [answer.json()])]
            assert "".join(choice["text"] for choice in choices) == plain[: plain.index(stop)]
            assert choices[-1]["finish_reason"] == "stop"
            await until(lambda: not what.engine.has_work)
            assert what.engine.counters.finished == 2

    run(work())


def test_min_tokens_come_before_any_end() -> None:
    (answer,) = ask(lambda s: s.complete(max_tokens=9, min_tokens=4, temperature=0), runner=planned(eos_every=1))
    body = answer.json()
    assert body["choices"][0]["finish_reason"] == "stop"
    assert body["usage"]["completion_tokens"] == 5


def test_a_token_may_end_the_text() -> None:
    prompt = list(range(100, 108))
    third = solo(create_ask(prompt))[2]
    (answer,) = ask(lambda s: s.complete(prompt, max_tokens=6, temperature=0, stop_token_ids=[third]))
    assert answer.json()["choices"][0]["finish_reason"] == "stop"
    assert answer.json()["usage"]["completion_tokens"] == 3


def test_a_chat_without_a_length_takes_what_fits() -> None:
    (answer,) = ask(lambda s: s.chat(), num_blocks=8)
    assert answer.json()["usage"]["total_tokens"] == 8 * 4 + 1


def test_a_chat_of_several_turns_is_one_prompt() -> None:
    messages = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "one "}, {"type": "text", "text": "two"}]},
        {"role": "assistant", "content": "three"},
        {"role": "user", "content": "four"},
    ]
    (answer,) = ask(
        lambda s: s.client.post("/v1/chat/completions", json={"model": MODEL, "messages": messages, "max_tokens": 1})
    )
    assert answer.json()["usage"]["prompt_tokens"] == 12


def test_priority_lets_a_late_request_go_first() -> None:
    async def work() -> list[str]:
        done: list[str] = []

        async def one(what: Served, name: str, priority: int) -> None:
            await what.complete(name, max_tokens=6, priority=priority)
            done.append(name)

        async with served(slow(), max_num_seqs=1) as what:
            tasks = [asyncio.create_task(one(what, name, 9)) for name in ("first", "second", "third")]
            await until(lambda: what.engine.num_in_flight == 3)
            tasks.append(asyncio.create_task(one(what, "urgent", 0)))
            await asyncio.gather(*tasks)
        return done

    assert run(work())[0] == "urgent"


def test_models_are_listed_and_looked_up() -> None:
    listed, one, none = ask(
        lambda s: s.client.get("/v1/models"),
        lambda s: s.client.get(f"/v1/models/{MODEL}"),
        lambda s: s.client.get("/v1/models/../../etc/passwd"),
    )
    assert [card["id"] for card in listed.json()["data"]] == [MODEL]
    assert one.json()["max_model_len"] == 256
    assert none.status_code == 404


# Refusals


@pytest.mark.parametrize(
    ("fields", "status", "param", "says"),
    [
        ({"model": "other"}, 404, "model", "there is no model 'other'"),
        ({"prompt": ""}, 400, "prompt", "the prompt is empty"),
        ({"prompt": []}, 400, "prompt", "the prompt is empty"),
        ({"prompt": [40_000]}, 400, "prompt", "token id 40000; the model has ids below 40000"),
        ({"prompt": [-1]}, 400, "prompt", "greater than or equal to 0"),
        ({"prompt": ["a", "b"]}, 400, "prompt", "send one request for each"),
        ({"prompt": "x\ud800"}, 400, "prompt", "half of a character"),
        ({"prompt": list(range(61))}, 400, "prompt", "61 tokens; at most 60"),
        ({"max_tokens": 0}, 400, "max_tokens", "greater than or equal to 1"),
        ({"max_tokens": 101}, 400, "max_tokens", "max_tokens is 101; at most 100"),
        ({"max_tokens": "5"}, 400, "max_tokens", "valid integer"),
        ({"min_tokens": 17}, 400, "min_tokens", "min_tokens is 17; it must be at most max_tokens"),
        ({"temperature": -0.1}, 400, "temperature", "greater than or equal to 0"),
        ({"top_p": 0}, 400, "top_p", "greater than 0"),
        ({"n": 2}, 400, "n", "n is not supported"),
        ({"best_of": 3}, 400, "best_of", "not supported"),
        ({"logprobs": 5}, 400, "logprobs", "not supported"),
        ({"echo": True}, 400, "echo", "not supported"),
        ({"logit_bias": {"5": 1}}, 400, "logit_bias", "not supported"),
        ({"frequency_penalty": 0.5}, 400, "frequency_penalty", "not supported"),
        ({"response_format": {"type": "json_object"}}, 400, "response_format", "not supported"),
        ({"stop": list("abcde")}, 400, "stop", "5 strings; at most 4"),
        ({"stream_options": {"include_usage": True}}, 400, "stream_options", "stream: true"),
        ({"top_k": 5}, 400, "top_k", "not supported"),
        ({"priority": -1}, 400, "priority", "greater than or equal to 0"),
    ],
)
def test_a_wrong_field_is_named_with_its_bound(fields: dict[str, Any], status: int, param: str, says: str) -> None:
    sizes = GatewayLimits(max_prompt_tokens=60, max_output_tokens=100)
    body = json.dumps({"model": MODEL, "prompt": "hello", **fields})
    headers = {"content-type": "application/json"}
    (answer,) = ask(lambda s: s.client.post("/v1/completions", content=body, headers=headers), sizes=sizes)
    told = error(answer)
    assert (answer.status_code, told["type"]) == (status, "invalid_request_error")
    assert told["param"].startswith(param)
    assert says in told["message"]


def test_an_unknown_role_or_part_of_a_chat_is_refused() -> None:
    async def post(what: Served, message: dict[str, Any]) -> httpx.Response:
        body = {"model": MODEL, "messages": [message]}
        return await what.client.post("/v1/chat/completions", json=body)

    image = [{"type": "image_url", "image_url": {"url": "http://example.com"}}]
    answers = ask(
        lambda s: post(s, {"role": "robot", "content": "hi"}),
        lambda s: post(s, {"role": "user", "content": image}),
        lambda s: post(s, {"role": "user"}),
        lambda s: s.chat(tools=[{"type": "function", "function": {"name": "f"}}]),
        lambda s: s.client.post("/v1/chat/completions", json={"model": MODEL, "messages": []}),
    )
    assert [answer.status_code for answer in answers] == [400] * 5


def test_fields_that_change_nothing_are_let_through() -> None:
    harmless = {"n": 1, "logit_bias": {}, "user": "me", "metadata": {"a": "b"}, "brand_new_field": [1, 2]}
    (answer,) = ask(lambda s: s.complete(max_tokens=2, **harmless))
    assert answer.status_code == 200


@pytest.mark.parametrize("stream", [False, True])
def test_a_request_too_long_for_the_model_is_refused_with_a_status(stream: bool) -> None:
    (answer,) = ask(lambda s: s.complete(list(range(200)), max_tokens=60, stream=stream))
    assert answer.status_code == 400
    assert error(answer)["code"] == "context_length_exceeded"


def test_a_request_too_big_for_memory_is_refused_with_a_status() -> None:
    (answer,) = ask(lambda s: s.complete(list(range(60)), max_tokens=10, stream=True), num_blocks=16)
    assert answer.status_code == 400
    assert "18 blocks of KV; there are 16" in error(answer)["message"]


@pytest.mark.parametrize(
    "body", [b"", b"{", b"null", b"[]", b'"x"', b"\xff\xfe", b"[" * 100_000, b'{"model":' + b"9" * 5_000 + b"}"]
)
def test_a_body_that_is_no_request_is_refused(body: bytes) -> None:
    headers = {"content-type": "application/json"}
    (answer,) = ask(lambda s: s.client.post("/v1/completions", content=body, headers=headers))
    assert answer.status_code == 400
    assert error(answer)["type"] == "invalid_request_error"


def test_a_body_that_is_not_announced_as_json_is_told_so() -> None:
    body = json.dumps({"model": MODEL, "prompt": "hello"}).encode()
    headers = {"content-type": "application/x-www-form-urlencoded"}
    (answer,) = ask(lambda s: s.client.post("/v1/completions", content=body, headers=headers))
    assert answer.status_code == 400
    assert "content-type: application/json" in error(answer)["message"]


def test_a_body_that_never_ends_is_given_up() -> None:
    async def endless() -> Any:
        yield b"{"
        await asyncio.sleep(30)
        yield b"}"

    async def work() -> httpx.Response:
        async with served() as what:
            app = BodyLimit(what.gateway.api, 1_000, max_seconds=0.05)
            async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://testserver") as client:
                headers = {"content-type": "application/json"}
                return await client.post("/v1/completions", content=endless(), headers=headers)

    answer = run(work())
    assert (answer.status_code, error(answer)["code"]) == (408, "body_too_slow")


def test_a_recorded_request_shows_what_its_client_wrote(tmp_path: Path) -> None:
    file = tmp_path / "run.json.gz"
    ask(
        lambda s: s.complete("once upon", max_tokens=2),
        lambda s: s.chat("a time", max_tokens=2, priority=3, cache_salt="us"),
        record_ticks=100,
        record_file=file,
    )
    first, second = Trace.load(file).requests
    assert (first.prompt, second.prompt) == ("once upon", "a time")
    assert (second.priority, second.salt) == (3, "us")


@pytest.mark.parametrize("announced", [True, False])
def test_a_body_that_is_too_large_is_refused(announced: bool) -> None:
    async def parts() -> Any:
        for _ in range(40):
            yield b"x" * 100

    content: Any = b"x" * 4_000 if announced else parts()
    headers = {"content-type": "application/json"}
    (answer,) = ask(
        lambda s: s.client.post("/v1/completions", content=content, headers=headers),
        sizes=GatewayLimits(max_body_bytes=2_000),
    )
    assert answer.status_code == 413
    assert error(answer)["code"] == "body_too_large"


def test_a_full_queue_says_when_to_come_back() -> None:
    async def work() -> None:
        async with served(slow(), quick(max_waiting=0), max_num_seqs=1) as what:
            first = asyncio.create_task(what.complete(max_tokens=16))
            await until(lambda: what.engine.num_in_flight == 1)
            answer = await what.complete(stream=True)
            assert answer.status_code == 429
            assert 1 <= int(answer.headers["retry-after"]) <= 60
            assert error(answer)["code"] == "queue_full"
            assert (await first).status_code == 200

    run(work())


def test_a_draining_server_says_so() -> None:
    async def work() -> None:
        async with served() as what:
            assert (await what.client.get("/health")).json() == {"status": "ok", "in_flight": 0}
            await what.engine.drain()
            assert (await what.client.get("/health")).status_code == 503
            answer = await what.complete()
            assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")

    run(work())


def test_health_says_when_the_model_does_not_answer() -> None:
    async def work() -> None:
        async with served(planned(PlannedFault("slow", seconds=1.2)), quick(stall_s=0.4)) as what:
            asking = asyncio.create_task(what.complete(max_tokens=2))
            await until(lambda: what.engine.is_stalled)
            answer = await what.client.get("/health")
            assert (answer.status_code, answer.json()["status"]) == (503, "stalled")
            assert (await asking).status_code == 200
            assert (await what.client.get("/health")).json() == {"status": "ok", "in_flight": 0}

    run(work())


def test_a_failed_model_is_a_500_that_names_the_dead_letter(tmp_path: Path) -> None:
    box = DeadLetters(tmp_path)
    whole, stream = ask(
        lambda s: s.complete("hello", max_tokens=3, user="me"),
        lambda s: s.complete("hello", max_tokens=3, stream=True),
        runner=planned(PlannedFault("raise", every=1)),
        letters=box,
    )
    assert whole.status_code == 500
    assert error(whole)["dead_letter"] == "1"
    assert box.letter("1").body == {"model": MODEL, "prompt": "hello", "max_tokens": 3, "user": "me"}
    last = stream.text.split("\n\n")[0]
    assert json.loads(last.removeprefix("data: "))["error"]["dead_letter"] == "2"
    box.close()


def test_an_unexpected_failure_tells_nothing_of_the_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> httpx.Response:
        async with served() as what:

            def broken(*_: Any) -> None:
                raise RuntimeError("secret")

            monkeypatch.setattr(what.engine, "submit", broken)
            transport = httpx.ASGITransport(what.gateway.app, raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url="http://testserver") as client:
                return await client.post("/v1/completions", json={"model": MODEL, "prompt": "x"})

    answer = run(work())
    assert answer.status_code == 500
    assert "secret" not in answer.text


# Keys


def test_with_keys_nothing_but_health_and_metrics_is_open() -> None:
    async def work() -> None:
        async with served(keys=["sesame", "other"]) as what:
            client, paths = what.client, ("/v1/models", "/openapi.json", "/v1/completions", "/nothing", "//v1/models")
            for value in ("", "Bearer", "Bearer wrong", "Basic sesame", "sesame", "Bearer sesame2", "Bearer \u00e9"):
                for path in paths:
                    answer = await client.get(path, headers={"authorization": value.encode()})
                    assert (answer.status_code, error(answer)["code"]) == (401, "invalid_api_key")
            for value in ("Bearer sesame", "bearer other"):
                assert (await client.get("/v1/models", headers={"authorization": value})).status_code == 200
            for path in ("/health", "/metrics"):
                assert (await client.get(path)).status_code == 200

    run(work())


# Clients that leave


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize("seconds", [0.0, 0.03])
def test_a_client_that_leaves_frees_its_blocks(stream: bool, waits: bool, seconds: float) -> None:
    async def work() -> None:
        async with served(slow(), max_num_seqs=1) as what:
            before = asyncio.create_task(what.complete(max_tokens=30)) if waits else None
            if waits:
                await until(lambda: what.engine.num_in_flight == 1)
            gone = asyncio.Event()
            body = json.dumps({"model": MODEL, "prompt": "hello", "max_tokens": 200, "stream": stream}).encode()
            messages = iter([{"type": "http.request", "body": body, "more_body": False}])

            async def receive() -> Any:
                for message in messages:
                    return message
                await gone.wait()
                return {"type": "http.disconnect"}

            async def send(message: Any) -> None:
                pass

            headers = [(b"content-type", b"application/json")]
            scope = {
                "type": "http",
                "asgi": {"version": "3.0", "spec_version": "2.4"},
                "method": "POST",
                "path": "/v1/completions",
                "raw_path": b"/v1/completions",
                "root_path": "",
                "scheme": "http",
                "query_string": b"",
                "headers": headers,
                "server": ("testserver", 80),
                "client": ("testclient", 1),
                "http_version": "1.1",
            }
            calling = asyncio.create_task(what.gateway.app(scope, receive, send))
            await until(lambda: what.engine.num_in_flight == 1 + waits)
            await asyncio.sleep(seconds)
            gone.set()
            await calling
            assert what.engine.counters.aborted == 1
            if before is not None:
                assert (await before).status_code == 200
            await until(lambda: not what.engine.has_work)
            assert what.engine.free_blocks == 64

    run(work())


# Anything at all

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
_FIELDS = (
    *("model", "prompt", "messages", "max_tokens", "max_completion_tokens", "min_tokens", "temperature", "top_p"),
    *("seed", "stop", "stream", "stream_options", "ignore_eos", "priority", "cache_salt", "n", "logprobs", "tools"),
)
_USUAL: dict[str, Any] = {
    "model": MODEL,
    "prompt": "hello",
    "messages": [{"role": "user", "content": "hi"}],
    "max_tokens": 2,
}
_BODIES = st.dictionaries(st.sampled_from(_FIELDS), _JSON, max_size=4).map(lambda odd: {**_USUAL, **odd})


@settings(max_examples=80)
@given(st.sampled_from(["/v1/completions", "/v1/chat/completions"]), _BODIES | _JSON)
def test_no_body_makes_the_server_fail(path: str, body: Any) -> None:
    (answer,) = ask(
        lambda s: s.client.post(path, content=json.dumps(body), headers={"content-type": "application/json"}),
        sizes=GatewayLimits(max_output_tokens=20),
    )
    assert answer.status_code in (200, 400, 404)
    if answer.status_code != 200:
        error(answer)


@settings(max_examples=40)
@given(st.binary(max_size=60), st.sampled_from([None, "application/json", "text/plain", "multipart/form-data"]))
def test_no_bytes_make_the_server_fail(body: bytes, content_type: str | None) -> None:
    headers = {} if content_type is None else {"content-type": content_type}
    (answer,) = ask(lambda s: s.client.post("/v1/completions", content=body, headers=headers))
    assert answer.status_code == 400
    error(answer)

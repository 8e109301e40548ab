"""The command, as a process of its own, with the real client of OpenAI."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import openai
import pytest

from scheduler_core.__main__ import main
from scheduler_core.trace import Trace
from tests.serving.helpers import in_a_loop_of_its_own

MESSAGES: Any = [{"role": "user", "content": "Say hello."}]


class Server:
    """A running `serve`."""

    def __init__(self, process: subprocess.Popen[str], url: str) -> None:
        self.process = process
        self.url = url

    def client(self, **options: Any) -> openai.OpenAI:
        return openai.OpenAI(base_url=f"{self.url}/v1", **{"api_key": "none", "max_retries": 0, **options})

    def async_client(self) -> openai.AsyncOpenAI:
        return openai.AsyncOpenAI(base_url=f"{self.url}/v1", api_key="none", max_retries=0)

    def metrics(self) -> str:
        with urllib.request.urlopen(f"{self.url}/metrics", timeout=10) as answer:
            return str(answer.read().decode())

    def value(self, name: str) -> float:
        found = re.search(rf"^{name}\{{.*\}} (\S+)$", self.metrics(), re.MULTILINE)
        assert found, name
        return float(found[1])

    def end(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(30)


@contextmanager
def serve(
    state: Path, *options: str, backend: str = "synthetic", env: dict[str, str] | None = None
) -> Iterator[Server]:
    command = [sys.executable, "-m", "scheduler_core", "serve", "--backend", backend, "--port", "0"]
    process = subprocess.Popen(
        [*command, "--state", str(state), "--check", *options],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **(env or {})},
    )
    assert process.stderr is not None
    lines = process.stderr
    try:
        address = None
        for line in lines:
            if address := re.search(r"on (http://127\.0\.0\.1:\d+)", line):
                break
        assert address, "the server did not start"
        drain = threading.Thread(target=lines.read, daemon=True)
        drain.start()
        yield Server(process, address[1])
        process.terminate()
        process.wait(30)
        drain.join(10)
    finally:
        process.kill()
        process.wait()
        lines.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serve(tmp_path_factory.mktemp("state")) as running:
        yield running


def test_the_client_of_openai_lists_models_and_gets_answers_whole_and_in_parts(server: Server) -> None:
    with server.client() as client:
        assert [card.id for card in client.models.list()] == ["synthetic"]
        whole = client.chat.completions.create(model="synthetic", messages=MESSAGES, max_tokens=9, temperature=0)
        parts = [
            *client.chat.completions.create(
                model="synthetic",
                messages=MESSAGES,
                max_tokens=9,
                temperature=0,
                stream=True,
                stream_options={"include_usage": True},
            )
        ]
        text = client.completions.create(model="synthetic", prompt="one two", max_tokens=4, stop="zzz")
    assert "".join(part.choices[0].delta.content or "" for part in parts[:-1]) == whole.choices[0].message.content
    assert parts[-1].usage is not None
    assert whole.usage is not None
    assert parts[-1].usage.completion_tokens == whole.usage.completion_tokens == 9
    assert text.usage is not None
    assert (text.choices[0].finish_reason, text.usage.completion_tokens) == ("length", 4)


def test_errors_are_those_that_the_client_knows(server: Server) -> None:
    with server.client() as client:
        with pytest.raises(openai.NotFoundError, match="there is no model 'gpt'"):
            client.completions.create(model="gpt", prompt="x")
        with pytest.raises(openai.BadRequestError, match="n is not supported") as problem:
            client.completions.create(model="synthetic", prompt="x", n=2)
    assert problem.value.param == "n"


def test_thirty_two_streams_at_once_each_say_what_they_say_alone(server: Server) -> None:
    async def stream(client: openai.AsyncOpenAI, prompt: str) -> str:
        parts = await client.completions.create(
            model="synthetic", prompt=prompt, max_tokens=24, temperature=0, stream=True
        )
        return "".join([part.choices[0].text async for part in parts])

    async def work() -> None:
        prompts = [f"{'shared start ' * (i % 4)}number {i}" for i in range(32)]
        async with server.async_client() as client:
            together = await asyncio.gather(*(stream(client, prompt) for prompt in prompts))
            assert together == [await stream(client, prompt) for prompt in prompts]

    in_a_loop_of_its_own(work())


def test_a_client_that_leaves_a_stream_is_noticed(tmp_path: Path) -> None:
    with serve(tmp_path, "--fault-plan", str(slow_plan(tmp_path))) as server:
        with server.client() as client:
            parts = client.completions.create(model="synthetic", prompt="long", max_tokens=4_000, stream=True)
            next(iter(parts))
            parts.close()

        async def wait() -> None:
            async with asyncio.timeout(20):
                while not server.value("requests_aborted_total") or server.value("kv_cache_usage_ratio"):
                    await asyncio.sleep(0.05)

        in_a_loop_of_its_own(wait())
        assert server.value("scheduler_running_requests") == 0


def slow_plan(folder: Path) -> Path:
    """Every tick takes a while, so that something can happen meanwhile."""
    plan = folder / "slow.toml"
    plan.write_text('[[faults]]\nkind = "slow"\nevery = 1\nseconds = 0.02\n')
    return plan


def test_a_server_told_to_end_finishes_what_it_began_records_it_and_ends_well(tmp_path: Path) -> None:
    run = tmp_path / "run.json.gz"
    with serve(tmp_path, "--fault-plan", str(slow_plan(tmp_path)), "--record", str(run)) as server:
        with server.client() as client:
            parts = client.completions.create(model="synthetic", prompt="x", max_tokens=40, stream=True)
            first = next(iter(parts))
            server.process.send_signal(signal.SIGTERM)
            rest = [part.choices[0] for part in parts]
        assert server.process.wait(30) == 0
    assert len(rest) == 39
    assert rest[-1].finish_reason == "length"
    trace = Trace.load(run)
    assert "".join(
        trace.token_texts[e.token_id] for r in trace.records for e in r.events if hasattr(e, "token_id")
    ) == (first.choices[0].text + "".join(choice.text for choice in rest))


def test_keys_come_from_the_environment(tmp_path: Path) -> None:
    with serve(tmp_path, env={"TICKSCOPE_SERVE_API_KEYS": "one, two"}) as server:
        with server.client() as client, pytest.raises(openai.AuthenticationError):
            client.models.list()
        with server.client(api_key="two") as client:
            assert len(client.models.list().data) == 1


Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs a command in this process: status, what it printed, what it remarked."""

    def call(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["scheduler_core", *words])
        status = main()
        printed = capsys.readouterr()
        return status, printed.out, printed.err

    return call


def test_dead_letters_are_listed_replayed_and_purged(tmp_path: Path, command: Command) -> None:
    plan = tmp_path / "raise.toml"
    plan.write_text('[[faults]]\nkind = "raise"\ncount = 6\n')
    box = ("--state", str(tmp_path))
    with serve(tmp_path, "--fault-plan", str(plan)) as server:
        with server.client() as client:
            for prompt in ("one", "two"):
                with pytest.raises(openai.InternalServerError, match="kept as dead letter"):
                    client.completions.create(model="synthetic", prompt=prompt, max_tokens=3)
            said = client.completions.create(model="synthetic", prompt="one", max_tokens=3, temperature=0)
        listed = json.loads(command("dead-letters", "list", *box, "--json", "-")[1])["dead_letters"]
        assert [(letter["id"], len(letter["attempts"]), letter["body"]["prompt"]) for letter in listed] == [
            ("1", 3, "one"),
            ("2", 3, "two"),
        ]
        status, text, _ = command("dead-letters", "replay", "1", *box, "--url", server.url)
        assert (status, text[:3]) == (0, "1: ")
        assert len(text.split()) == 1 + len(said.choices[0].text.split())
    assert "planned for call 6" in command("dead-letters", "list", *box)[1]
    status, _, remark = command("dead-letters", "replay", *box, "--url", server.url)
    assert (status, "no gateway answers" in remark) == (2, True)
    assert command("dead-letters", "purge", *box)[1] == "1 dead letters thrown away\n"


def test_after_a_storm_of_clients_every_request_has_ended_in_one_way(tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(
        '[[faults]]\nkind = "raise"\nfirst = 4\nevery = 5\n[[faults]]\nkind = "nan"\nfirst = 2\nevery = 7\n'
    )
    ends = dict.fromkeys(("whole", "left", "refused", "dead"), 0)

    async def one(client: openai.AsyncOpenAI, number: int) -> None:
        await asyncio.sleep(number % 10 * 0.02)
        try:
            parts = await client.completions.create(
                model="synthetic", prompt=f"number {number}", max_tokens=10 + number % 9, stream=True
            )
            async for _ in parts:
                if number % 4 == 0:
                    await parts.close()
                    ends["left"] += 1
                    return
            ends["whole"] += 1
        except openai.RateLimitError:
            ends["refused"] += 1
        except openai.APIError as problem:
            ends["dead"] += "kept as dead letter" in problem.message

    async def work(server: Server) -> None:
        async with server.async_client() as client:
            await asyncio.gather(*(one(client, number) for number in range(60)))
        async with asyncio.timeout(20):
            while server.value("scheduler_running_requests") or server.value("scheduler_queue_length"):
                await asyncio.sleep(0.05)

    limits = ("--set", "max_num_seqs=4", "--set", "num_blocks=16", "--max-waiting", "20")
    with serve(tmp_path, "--fault-plan", str(plan), *limits) as server:
        in_a_loop_of_its_own(work(server))
        names = ("finished", "refused", "aborted", "dead")
        told = {name: server.value(f"requests_{name}_total") for name in names}
        assert sum(told.values()) == server.value("requests_submitted_total") == 60
        assert told["refused"] == ends["refused"]
        # Some who leave do so when the answer is complete already, or given up.
        assert told["finished"] >= ends["whole"]
        assert told["dead"] >= ends["dead"]
        assert told["aborted"] <= ends["left"]
        assert server.value("dead_letters") == told["dead"]
        assert server.value("kv_cache_usage_ratio") == 0
        assert server.value("model_call_retries_total") > 0


def test_nothing_that_the_description_of_the_interface_allows_makes_the_server_fail(tmp_path: Path) -> None:
    options = ["--phases", "fuzzing", "--checks", "not_a_server_error", "--max-examples", "15"]
    fixed = ["--generation-deterministic", "--no-color"]
    with serve(tmp_path, env={"TICKSCOPE_SERVE_MAX_OUTPUT_TOKENS": "4"}) as server:
        command = [sys.executable, "-m", "schemathesis.cli", "run", f"{server.url}/openapi.json"]
        told = subprocess.run([*command, *options, *fixed], capture_output=True, text=True, timeout=120, cwd=tmp_path)
        assert told.returncode == 0, told.stdout
        assert server.value("requests_finished_total") > 0


def test_a_port_that_is_taken_is_named(server: Server, command: Command) -> None:
    port = server.url.rsplit(":", 1)[1]
    status, _, remark = command("serve", "--backend", "synthetic", "--port", port)
    assert status == 2
    assert remark.startswith(f"error: cannot listen on 127.0.0.1 port {port}: ")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--port", "70000"], "port is 70000"),
        (["--max-waiting", "-1"], "max_waiting is -1"),
        (["--port", "0", "--set", "num_blocks=0"], "num_blocks is 0"),
        (["--port", "0", "--preset", "none"], "there is no preset 'none'"),
        (["--port", "0", "--fault-plan", "none.toml"], "the fault plan none.toml cannot be read"),
        (["--port", "0", "--host", "999.1.1.1"], "cannot listen on 999.1.1.1 port 0"),
    ],
)
def test_a_wrong_option_is_named(options: list[str], says: str, command: Command) -> None:
    status, _, remark = command("serve", "--backend", "synthetic", *options)
    assert status == 2
    assert says in remark


@pytest.mark.model
def test_the_real_model_streams_to_many_what_it_says_to_one(tmp_path: Path) -> None:
    questions = ["Name three colours.", "What is the capital of France?", "Write a short poem 😀"]

    async def ask(client: openai.AsyncOpenAI, model: str, question: str) -> str:
        parts = await client.chat.completions.create(
            model=model,
            messages=[{"role": "user", "content": question}],
            max_tokens=16,
            temperature=0,
            stream=True,
        )
        return "".join([part.choices[0].delta.content or "" async for part in parts])

    async def work(server: Server) -> None:
        async with server.async_client() as client:
            model = (await client.models.list()).data[0].id
            alone = [await ask(client, model, question) for question in questions]
            together = await asyncio.gather(*(ask(client, model, question) for question in questions))
            assert together == alone
            assert "Paris" in together[1]

    with serve(tmp_path, "--set", "num_blocks=256", backend="model") as server:
        in_a_loop_of_its_own(work(server))
        assert server.value("cache_hit_ratio") > 0

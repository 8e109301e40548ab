"""Helpers to serve in process: an engine, a gateway and an HTTP client without a socket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import httpx

from scheduler_core.backends.synthetic import SyntheticRunner
from scheduler_core.config import EngineConfig
from scheduler_core.engine import Engine
from scheduler_core.output import ModelRunnerOutput, SchedulerOutput
from scheduler_core.request import RequestSpec, SamplingParams
from scheduler_core.serving.ask import Ask, ServingLimits
from scheduler_core.serving.async_engine import AsyncEngine
from scheduler_core.serving.fault_plan import FaultPlan, FaultyRunner, PlannedFault
from scheduler_core.serving.gateway import Gateway, GatewayLimits
from scheduler_core.serving.keys import ApiKeys
from scheduler_core.serving.metrics import GatewayMetrics
from scheduler_core.serving.splitting_runner import SplittingRunner
from scheduler_core.serving.stream import Stream
from tests.helpers import outputs

MODEL = "toy"
T = TypeVar("T")


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run to the end; whatever hangs is a failure, not a wait for ever."""

    async def bounded() -> T:
        async with asyncio.timeout(60):
            return await work

    return in_a_loop_of_its_own(bounded())


def in_a_loop_of_its_own(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end, in a thread: the browser's driver may hold a running loop in this one."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()


def create_config(**knobs: Any) -> EngineConfig:
    defaults = {"block_size": 4, "num_blocks": 64, "max_model_len": 256, "quantum": None, "policy": "priority"}
    return EngineConfig(**{**defaults, **knobs})


def quick(**knobs: Any) -> ServingLimits:
    """Limits whose pauses do not make tests wait."""
    return ServingLimits(**{"backoff_s": 0.0, "jitter_s": 0.0, **knobs})


def create_ask(prompt: int | Sequence[int] = 8, max_tokens: int = 6, start: int = 1_000, **extra: Any) -> Ask:
    """An ask with `prompt` tokens; a number stands for as many, from `start` on."""
    token_ids = tuple(range(start, start + prompt)) if isinstance(prompt, int) else tuple(prompt)
    sampling = {k: extra.pop(k) for k in list(extra) if k in SamplingParams.__dataclass_fields__}
    return Ask(token_ids, SamplingParams(max_tokens, **sampling), **extra)


def planned(*faults: PlannedFault, **knobs: Any) -> Any:
    return SplittingRunner(FaultyRunner(SyntheticRunner(**knobs), FaultPlan(faults)))


def slow(seconds: float = 0.005) -> Any:
    """A runner whose every call takes a while, so that something can happen meanwhile."""
    return planned(PlannedFault("slow", count=1, every=1, seconds=seconds))


class Poisoned(SyntheticRunner):
    """Fails whenever a certain token is in the batch."""

    def __init__(self, token_id: int) -> None:
        super().__init__()
        self._poison = token_id

    def execute_model(self, output: SchedulerOutput) -> ModelRunnerOutput:
        if any(self._poison in item.token_ids for item in output.scheduled):
            raise RuntimeError("illegal memory access")
        return super().execute_model(output)


@asynccontextmanager
async def engine(runner: Any = None, limits: ServingLimits | None = None, **extra: Any) -> AsyncIterator[AsyncEngine]:
    """A started engine that checks the laws after each tick; `extra` are its options or fields of the configuration."""
    options = {
        k: extra.pop(k) for k in list(extra) if k in ("letters", "observer", "record_ticks", "record_file", "store")
    }
    made = AsyncEngine(create_config(**extra), runner or SyntheticRunner(), limits or quick(), check=True, **options)
    await made.start()
    try:
        yield made
    finally:
        await made.close()


class Served:
    """A gateway and a client of it."""

    def __init__(self, gateway: Gateway, client: httpx.AsyncClient) -> None:
        self.gateway = gateway
        self.engine = gateway.engine
        self.client = client

    async def complete(self, prompt: Any = "hello world", **fields: Any) -> httpx.Response:
        return await self.client.post("/v1/completions", json={"model": MODEL, "prompt": prompt, **fields})

    async def chat(self, text: str = "hello world", **fields: Any) -> httpx.Response:
        messages = [{"role": "user", "content": text}]
        return await self.client.post("/v1/chat/completions", json={"model": MODEL, "messages": messages, **fields})


@asynccontextmanager
async def served(
    runner: Any = None,
    limits: ServingLimits | None = None,
    sizes: GatewayLimits | None = None,
    keys: Sequence[str] = (),
    **extra: Any,
) -> AsyncIterator[Served]:
    """A gateway in process."""
    runner = runner or SyntheticRunner()
    metrics = GatewayMetrics(MODEL)
    async with engine(runner, limits, observer=metrics, **extra) as made:
        gateway = Gateway(made, runner, MODEL, limits=sizes, keys=ApiKeys(keys), metrics=metrics)
        transport = httpx.ASGITransport(gateway.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://testserver", timeout=60) as client:
            yield Served(gateway, client)


async def read(stream: Stream) -> list[int]:
    async with stream:
        return [token_id async for token_id in stream]


def solo(ask: Ask, **knobs: Any) -> list[int]:
    """The tokens of a request that runs alone in a plain engine."""
    made = Engine(create_config(**knobs), SyntheticRunner())
    made.add_request(RequestSpec("R1", ask.prompt_token_ids, ask.sampling))
    return outputs(made.run())["R1"]


def events_of(answer: httpx.Response) -> list[dict[str, Any]]:
    """The bodies of a stream of events; it has to end as OpenAI's do."""
    lines = [line for line in answer.text.split("\n\n") if line]
    assert all(line.startswith("data: ") for line in lines)
    assert lines[-1] == "data: [DONE]"
    return [json.loads(line.removeprefix("data: ")) for line in lines[:-1]]


async def until(condition: Any, seconds: float = 10.0) -> None:
    """Wait until `condition()` holds."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.002)

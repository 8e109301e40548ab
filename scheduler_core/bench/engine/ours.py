"""Our engine with the real model."""

from __future__ import annotations

import time
from importlib.metadata import version
from typing import Any

from scheduler_core.backends import model_store
from scheduler_core.backends.transformers_runner import TransformersRunner
from scheduler_core.bench.engine.settings import BLOCK_SIZE, MAX_SEQS, TOKEN_BUDGET, blocks_for
from scheduler_core.config import EngineConfig
from scheduler_core.engine import Engine
from scheduler_core.events import TokenSampled
from scheduler_core.output import ScheduledRequest, SchedulerOutput
from scheduler_core.request import RequestSpec, SamplingParams
from scheduler_core.trace import TickRecord


class Contender:
    """Batches as vLLM does, keeps a summary of each tick and does not verify its laws."""

    def __init__(self, folder: str, threads: int) -> None:
        self._loaded = model_store.load(folder, device="cpu")  # which sees to torch's threads before it imports torch
        import torch

        torch.set_num_threads(threads)
        self._runner = TransformersRunner(self._loaded)
        self.versions = {name: version(name) for name in ("torch", "numba")}
        self.notes: dict[str, Any] = {}

    def generate(self, prompts: list[list[int]], max_tokens: int) -> list[list[int]]:
        begin = time.perf_counter()
        engine = self._engine(prompts, max_tokens)
        records = [engine.step() for _ in iter(lambda: engine.has_work, False)]
        seconds = time.perf_counter() - begin
        in_model = sum(record.wall_seconds for record in records)
        self.notes = {"ticks": len(records), "outside_model": 1.0 - in_model / seconds}
        return _texts(records, len(prompts))

    def encode(self, prompts: list[dict[str, Any]]) -> list[list[int]]:
        """Token ids of prompts in the model's chat template, for all contenders."""
        return [list(self._runner.encode_chat(prompt["text"], prompt["system"])) for prompt in prompts]

    def first_tokens(self, prompts: list[list[int]]) -> list[float]:
        """Seconds from a request to its first token, one request after the other on one cache."""
        engine, seconds = self._engine([], 1, room_for=prompts), []
        for number, prompt in enumerate(prompts):
            begin = time.perf_counter()
            engine.add_request(_spec(number, prompt, 1))
            while engine.has_work:
                engine.step()
            seconds.append(time.perf_counter() - begin)
        return seconds

    def tick_floor(self, shapes: list[list[tuple[int, int]]], rounds: int) -> dict[str, Any]:
        """Our tick beside what the machine needs at least; a shape lists (tokens before, tokens now) of requests."""
        from scheduler_core.bench.engine import floor

        machine = floor.measure()
        ticks = [
            floor.compare(self._loaded.model, shape, self._tick_seconds(shape, rounds), machine) for shape in shapes
        ]
        return {"machine": machine, "ticks": ticks}

    def _engine(self, prompts: list[list[int]], max_tokens: int, room_for: list[list[int]] | None = None) -> Engine:
        config = EngineConfig.preset("vllm").replace(
            block_size=BLOCK_SIZE,
            num_blocks=blocks_for(room_for or prompts, max_tokens),
            max_num_seqs=MAX_SEQS,
            max_num_batched_tokens=TOKEN_BUDGET,
            max_model_len=2048,
        )
        engine = Engine(config, self._runner, record="summary", check=False)
        for number, prompt in enumerate(prompts):
            engine.add_request(_spec(number, prompt, max_tokens))
        return engine

    def _tick_seconds(self, shape: list[tuple[int, int]], rounds: int) -> list[float]:
        items, first = [], 0
        for number, (before, now) in enumerate(shape):
            end = first + -(-(before + now) // BLOCK_SIZE)
            tokens, blocks = tuple(range(100, 100 + now)), tuple(range(first, end))
            items.append(ScheduledRequest(str(number), tokens, before, blocks, True, 1, SamplingParams(), 0))
            first = end
        self._runner.allocate(first, BLOCK_SIZE)
        output = SchedulerOutput(0, tuple(items))
        self._runner.execute_model(output)
        return [self._runner.execute_model(output).wall_seconds for _ in range(rounds)]


def _spec(number: int, prompt: list[int], max_tokens: int) -> RequestSpec:
    return RequestSpec(f"r{number}", tuple(prompt), SamplingParams(max_tokens=max_tokens, ignore_eos=True))


def _texts(records: list[TickRecord], num_requests: int) -> list[list[int]]:
    texts: dict[str, list[int]] = {f"r{number}": [] for number in range(num_requests)}
    for record in records:
        for event in record.events:
            if isinstance(event, TokenSampled):
                texts[event.request_id].append(event.token_id)
    return list(texts.values())

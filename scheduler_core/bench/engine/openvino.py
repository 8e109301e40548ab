"""OpenVINO GenAI's continuous batching on the model's own 4-bit file: other arithmetic, so only its speed compares."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import numpy as np
import openvino
import openvino_genai

from scheduler_core.bench.engine.settings import BLOCK_SIZE, MAX_SEQS, TOKEN_BUDGET, blocks_for


class Contender:
    """Its scheduler's blocks are of its own size, and its prefix cache is on."""

    def __init__(self, file: str, threads: int) -> None:
        self._file = file
        self._threads = threads
        self._pipeline: Any = None
        self.versions = {"openvino-genai": version("openvino-genai")}

    def prepare(self, prompts: list[list[int]], max_tokens: int) -> None:
        """A new pipeline, as its prefix cache cannot be emptied; not counted."""
        scheduler = openvino_genai.SchedulerConfig()
        scheduler.max_num_batched_tokens = TOKEN_BUDGET
        scheduler.max_num_seqs = MAX_SEQS
        scheduler.num_kv_blocks = 2 * blocks_for(prompts, max_tokens) * max(1, BLOCK_SIZE // 16)
        scheduler.enable_prefix_caching = True
        self._pipeline = openvino_genai.LLMPipeline(
            self._file,
            "CPU",
            scheduler_config=scheduler,
            INFERENCE_PRECISION_HINT="f32",
            INFERENCE_NUM_THREADS=self._threads,
        )

    def generate(self, prompts: list[list[int]], max_tokens: int) -> list[list[int]]:
        longest = max(map(len, prompts))
        ids = np.array([[0] * (longest - len(prompt)) + prompt for prompt in prompts])
        mask = np.array([[0] * (longest - len(prompt)) + [1] * len(prompt) for prompt in prompts])
        config = openvino_genai.GenerationConfig()
        config.max_new_tokens, config.ignore_eos, config.do_sample = max_tokens, True, False
        inputs = openvino_genai.TokenizedInputs(openvino.Tensor(ids), openvino.Tensor(mask))
        return [list(tokens) for tokens in self._pipeline.generate(inputs, config).tokens]

"""transformers' continuous batching, tuned: its defaults make pages and a cache far too large for a CPU."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import torch
from transformers import ContinuousBatchingConfig, GenerationConfig, LlamaForCausalLM

from scheduler_core.bench.engine.settings import BLOCK_SIZE, TOKEN_BUDGET, blocks_for


class Contender:
    def __init__(self, folder: str, threads: int) -> None:
        torch.set_num_threads(threads)
        self._model: Any = LlamaForCausalLM.from_pretrained(
            folder, dtype=torch.float32, attn_implementation="sdpa"
        ).eval()
        self.versions = {name: version(name) for name in ("torch", "transformers")}

    def generate(self, prompts: list[list[int]], max_tokens: int) -> list[list[int]]:
        outputs = self._model.generate_batch(
            prompts,
            generation_config=GenerationConfig(
                max_new_tokens=max_tokens, do_sample=False, eos_token_id=-1, pad_token_id=0
            ),
            continuous_batching_config=ContinuousBatchingConfig(
                page_size=BLOCK_SIZE, num_blocks=blocks_for(prompts, max_tokens) + 1, max_batch_tokens=TOKEN_BUDGET
            ),
        )
        by_number = sorted(outputs.items(), key=lambda pair: int(pair[0].rpartition("_")[2]))
        return [list(output.generated_tokens) for _, output in by_number]

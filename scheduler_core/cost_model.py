"""How long a tick takes on a given machine: a roofline over arithmetic and memory traffic, plus a fixed overhead."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf
from typing import Self

from scheduler_core.config import EngineConfig
from scheduler_core.errors import ConfigError
from scheduler_core.output import BlockCopy, SchedulerOutput

DEFAULT_BLOCK_SIZE = EngineConfig().block_size


@dataclass(frozen=True, slots=True)
class ModelShape:
    """A Llama-shaped decoder; `bytes_per_value` holds for weights and KV alike."""

    name: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_size: int
    intermediate: int
    vocab: int
    bytes_per_value: int

    @property
    def body_weights(self) -> int:
        """Weights that every token passes: attention and gated MLP of all layers."""
        attention = 2 * self.hidden * self.heads * self.head_size + 2 * self.hidden * self.kv_heads * self.head_size
        return self.layers * (attention + 3 * self.hidden * self.intermediate)

    @property
    def head_weights(self) -> int:
        """Weights of the projection to the vocabulary, passed only where a token is drawn."""
        return self.hidden * self.vocab

    @property
    def weight_bytes(self) -> int:
        """All weights in memory, with a table of embeddings of its own (which a tick hardly reads)."""
        return (self.body_weights + 2 * self.head_weights) * self.bytes_per_value

    @property
    def kv_bytes_per_token(self) -> int:
        return 2 * self.layers * self.kv_heads * self.head_size * self.bytes_per_value

    @property
    def attention_flops_per_pair(self) -> int:
        """For one query attending to one position: a product with its key and one with its value."""
        return 4 * self.layers * self.heads * self.head_size


@dataclass(frozen=True, slots=True)
class Machine:
    """A model on a device: `peak_flops` and the bandwidths are per second, `overhead_s` is spent in every tick.

    `host_bandwidth` is that of copies between device and host, which wait for nothing and for which all wait;
    `memory_bytes` the device's memory, 0 where none is told; `disk_bandwidth` and `network_bandwidth` those of a prefix
    cache on disk and of one shared over the network.
    """

    name: str
    title: str
    model: ModelShape
    peak_flops: float
    memory_bandwidth: float
    host_bandwidth: float
    overhead_s: float
    memory_bytes: int = 0
    disk_bandwidth: float = inf
    network_bandwidth: float = inf

    def load_seconds(self, tier: str, num_tokens: int) -> float:
        """Time to bring the KV of so many tokens back from a tier below the block pool, for which all wait as well."""
        return num_tokens * self.model.kv_bytes_per_token / self._tier_bandwidth(tier)

    def _tier_bandwidth(self, tier: str) -> float:
        return {"disk": self.disk_bandwidth, "shared": self.network_bandwidth}.get(tier, self.host_bandwidth)


@dataclass(frozen=True, slots=True)
class Work:
    """What a batch asks of any model.

    `tokens` to compute, `draws` after them, causal (query, position) `pairs` (the token at position p attends to p + 1
    positions), and `kv_tokens` whose KV is read or written.
    """

    tokens: int
    draws: int
    pairs: int
    kv_tokens: int

    @classmethod
    def of(cls, output: SchedulerOutput) -> Self:
        tokens = draws = pairs = kv_tokens = 0
        for item in output.scheduled:
            count = len(item.token_ids)
            end = item.start + count
            tokens += count
            draws += item.samples
            pairs += (item.start + 1 + end) * count // 2
            kv_tokens += end + count
        return cls(tokens, draws, pairs, kv_tokens)

    def flops(self, model: ModelShape) -> int:
        """Multiplications and additions of one forward pass."""
        weights = model.body_weights * self.tokens + model.head_weights * self.draws
        return 2 * weights + model.attention_flops_per_pair * self.pairs

    def bytes(self, model: ModelShape) -> int:
        """Bytes moved by one forward pass: the weights once, every request's KV once, and the new KV."""
        if not self.tokens:
            return 0
        weights = model.body_weights + (model.head_weights if self.draws else 0)
        return weights * model.bytes_per_value + model.kv_bytes_per_token * self.kv_tokens


def tick_seconds(output: SchedulerOutput, machine: Machine, block_size: int = DEFAULT_BLOCK_SIZE) -> float:
    """Duration of a tick: max(FLOPs / peak, bytes / bandwidth) + copies to and from the host + loads + overhead."""
    copied = _copied_blocks(output.copies_out) + _copied_blocks(output.copies_in)
    copies = copied * block_size * machine.model.kv_bytes_per_token / machine.host_bandwidth
    loads = sum(machine.load_seconds(load.tier, len(load.block_ids) * block_size) for load in output.loads)
    return max(*bounds(Work.of(output), machine)) + copies + loads + machine.overhead_s


def bounds(work: Work, machine: Machine) -> tuple[float, float]:
    """Seconds that the arithmetic of a batch takes, and its memory traffic; the longer of the two bounds it."""
    return work.flops(machine.model) / machine.peak_flops, work.bytes(machine.model) / machine.memory_bandwidth


def _copied_blocks(copies: Iterable[BlockCopy]) -> int:
    return sum(len(copy.block_ids) for copy in copies)


#: No model at all, so that a tick costs its overhead and nothing else.
_NOTHING = ModelShape("", 0, 0, 0, 0, 0, 0, 0, 0)

#: Shape: config.json of HuggingFaceTB/SmolLM2-135M-Instruct (input and output embeddings are tied).
SMOLLM2_135M = ModelShape("SmolLM2-135M", 30, 576, 9, 3, 64, 1_536, 49_152, bytes_per_value=4)

#: Shape: "The Llama 3 Herd of Models" (arXiv 2407.21783), table 3, and config.json of meta-llama/Llama-3.1-8B: 8.03e9
#: weights, as its two tables of embeddings are not tied; 128 KiB of KV a token.
LLAMA_31_8B = ModelShape("Llama-3.1-8B", 32, 4_096, 32, 8, 128, 14_336, 128_256, bytes_per_value=2)

_GB = 10**9

MACHINES: dict[str, Machine] = {
    machine.name: machine
    for machine in (
        Machine("unit", "every tick lasts one second", _NOTHING, inf, inf, inf, overhead_s=1.0),
        # Fitted by `bench calibrate` on two CPU cores, fp32 (assets/benchmarks/calibrate.json): about 21 ms for
        # 8 decodes and 80 ms for 64 tokens of a prompt. The bandwidth and the overhead make up for each other.
        # Blocks come from LMDB with 0.3 to 0.6 GB/s, checked by sha256, and from a Redis on the same machine with less.
        Machine(
            "smollm2-cpu",
            "SmolLM2-135M on two CPU cores",
            SMOLLM2_135M,
            peak_flops=183e9,
            memory_bandwidth=62e9,
            host_bandwidth=7.5e9,
            overhead_s=0.0096,
            disk_bandwidth=0.4e9,
            network_bandwidth=0.3e9,
        ),
        # "NVIDIA A100 Tensor Core GPU" data sheet, 80 GB SXM: 312 TFLOP/s bf16 without sparsity, 2,039 GB/s, PCIe 4.0
        # x16 (64 GB/s, half of it each way). The overhead of the two GPUs, for kernel launches, drawing and scheduling,
        # is our assumption; so is that peaks are reached, which makes these machines faster than any real one.
        # The tiers below are our assumption as well: a fast NVMe drive (7 GB/s), a network of 100 Gbit/s.
        Machine(
            "llama-3.1-8b-a100",
            "Llama-3.1-8B on one A100",
            LLAMA_31_8B,
            peak_flops=312e12,
            memory_bandwidth=2.039e12,
            host_bandwidth=32e9,
            overhead_s=0.003,
            memory_bytes=80 * _GB,
            disk_bandwidth=7e9,
            network_bandwidth=12.5e9,
        ),
        # "NVIDIA H100 Tensor Core GPU" data sheet, 80 GB SXM: 1,979 TFLOP/s bf16 with sparsity, half of it (989)
        # without, 3.35 TB/s, PCIe 5.0 x16 (128 GB/s, half of it each way).
        # A drive and a network of twice and four times the speed.
        Machine(
            "llama-3.1-8b-h100",
            "Llama-3.1-8B on one H100",
            LLAMA_31_8B,
            peak_flops=989e12,
            memory_bandwidth=3.35e12,
            host_bandwidth=64e9,
            overhead_s=0.003,
            memory_bytes=80 * _GB,
            disk_bandwidth=14e9,
            network_bandwidth=50e9,
        ),
    )
}


def machine(name: str) -> Machine:
    """The machine of that name; raises `ConfigError` naming the choices."""
    if name not in MACHINES:
        raise ConfigError(f"cost is {name!r}; it must be one of {', '.join(MACHINES)}")
    return MACHINES[name]

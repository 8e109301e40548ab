"""What a tick costs at least on this machine: its weights read once, and its arithmetic done at full rate."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch

_COPY_BYTES = 256 << 20
_MATRIX = 1536
_ROUNDS = 9


def measure() -> dict[str, float]:
    """Bytes a second that a copy reads (it writes as many), and FLOPs a second of a large float32 product."""
    source = torch.ones(_COPY_BYTES // 4)
    target = torch.empty_like(source)
    one, other = torch.rand(_MATRIX, _MATRIX), torch.rand(_MATRIX, _MATRIX)
    copy = _median_seconds(lambda: target.copy_(source))
    product = _median_seconds(lambda: torch.mm(one, other))
    return {"copy_bytes_per_s": 2 * _COPY_BYTES / copy, "matrix_flops_per_s": 2 * _MATRIX**3 / product}


def compare(
    model: Any, shape: list[tuple[int, int]], seconds: list[float], machine: dict[str, float]
) -> dict[str, Any]:
    """A tick of `shape`, (tokens before, tokens now) of each request, which took `seconds` in several rounds."""
    config = model.config
    matrices = sum(p.numel() for name, p in model.named_parameters() if p.dim() == 2 and "embed_tokens" not in name)
    head = model.lm_head.weight.numel()
    layers = matrices - (head if model.lm_head.weight is not model.model.embed_tokens.weight else 0)
    rows, asked = sum(now for _, now in shape), len(shape)
    attention = config.num_hidden_layers * config.num_attention_heads * config.head_dim
    pairs = sum(now * before + now * (now + 1) // 2 for before, now in shape)
    num_bytes = 4 * (layers + head)
    flops = 2 * (rows * layers + asked * head) + 4 * attention * pairs
    least = max(num_bytes / machine["copy_bytes_per_s"], flops / machine["matrix_flops_per_s"])
    median = statistics.median(seconds)
    return {
        "requests": asked,
        "tokens": rows,
        "weight_bytes": num_bytes,
        "flops": flops,
        "read_s": num_bytes / machine["copy_bytes_per_s"],
        "compute_s": flops / machine["matrix_flops_per_s"],
        "floor_s": least,
        "tick_s": median,
        "ratio": median / least,
    }


def _median_seconds(work: Callable[[], object]) -> float:
    work()
    seconds = []
    for _ in range(_ROUNDS):
        begin = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - begin)
    return statistics.median(seconds)

"""Chunking and mixing, each alone and both together: what Sarathi-Serve (OSDI'24) takes apart, on simulated machines.

The shape of its ablation, not its numbers: other model, other machine, other requests.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from scheduler_core.config import EngineConfig
from scheduler_core.load.config import LoadConfig
from scheduler_core.load.lengths import Lengths
from scheduler_core.serving_config import serving_config


@dataclass(frozen=True, slots=True)
class Corner:
    """One of the four: are prompts cut into chunks, may they share a tick with decodes."""

    key: str
    name: str
    chunked: bool
    mixed: bool


CORNERS = (
    Corner("neither", "Neither", chunked=False, mixed=False),
    Corner("chunking", "Chunking only", chunked=True, mixed=False),
    Corner("mixing", "Mixing only", chunked=False, mixed=True),
    Corner("both", "Both", chunked=True, mixed=True),
)

#: Tokens of a tick, and so of the largest chunk: about where the arithmetic of each machine is busy.
_BUDGETS = {"smollm2-cpu": 64}
_BUDGET = 512
#: Requests a second at which the machine is busy and keeps up.
_RATES = {"llama-3.1-8b-h100": 8.0, "llama-3.1-8b-a100": 3.0, "smollm2-cpu": 1.1}


def corner_config(corner: Corner, cost: str) -> EngineConfig:
    """The four differ in the two switches and in nothing else."""
    base = serving_config(cost, "sarathi")
    return base.replace(
        max_num_batched_tokens=max(_BUDGETS.get(cost, _BUDGET), base.max_num_seqs),
        enable_chunked_prefill=corner.chunked,
        mixed_batches=corner.mixed,
        enable_prefix_caching=False,
    )


def usual_load(cost: str, num_requests: int = 300, seed: int = 0) -> LoadConfig:
    """Prompts of some thousand tokens among answers of a few hundred, as in the paper's chats; shorter on a CPU."""
    factor = 0.1 if cost == "smollm2-cpu" else 1.0
    return LoadConfig(
        seed=seed,
        num_requests=num_requests,
        rate=_RATES[cost],
        prompt=Lengths("lognormal", 16, int(8_000 * factor), 2_400.0 * factor, 0.9),
        output=Lengths("lognormal", 4, int(1_200 * factor), 300.0 * factor, 0.7),
    )


def directions(runs: Mapping[str, Mapping[str, Any]]) -> dict[str, bool]:
    """What the paper says of the four, and whether it holds in these `runs` (corner -> figures)."""
    ttft = {key: run["median_ttft_ms"] for key, run in runs.items()}
    itl = {key: run["p99_itl_ms"] for key, run in runs.items()}
    return {
        "chunking alone has shorter gaps than mixing alone": itl["chunking"] < itl["mixing"],
        "chunking alone has later first tokens than mixing alone": ttft["chunking"] > ttft["mixing"],
        "both together have gaps as short as chunking alone": itl["both"] <= 1.1 * itl["chunking"],
        "both together have earlier first tokens than chunking alone": ttft["both"] < ttft["chunking"],
        "both together have shorter gaps than mixing alone": itl["both"] < itl["mixing"],
    }

"""A server small enough for its run to be drawn: the stage shows every block and every lane."""

from __future__ import annotations

from scheduler_core.config import EngineConfig

#: Setting -> the most that a page takes; see `pages/components/fields.py`.
MOST_ON_STAGE = {
    "num_blocks": 1_024,
    "max_num_seqs": 64,
    "max_num_batched_tokens": 4_096,
    "max_model_len": 8_192,
    "num_swap_blocks": 4_096,
    "chunk_size": 4_096,
}
_LARGEST_SEED = 2**31 - 1


def for_the_stage(config: EngineConfig) -> EngineConfig:
    """The same with sizes that the stage can show, and a seed that a page takes."""
    sizes = {name: value for name in MOST_ON_STAGE if (value := getattr(config, name)) is not None}
    smaller = {name: MOST_ON_STAGE[name] for name, value in sizes.items() if value > MOST_ON_STAGE[name]}
    return config.replace(**smaller, seed=config.seed & _LARGEST_SEED)

"""What of a prompt decides its home among replicas: its first blocks and its salt, nothing else."""

from __future__ import annotations

from functools import lru_cache

from scheduler_core.prefix_cache import ROOT, CacheNamespace, block_key
from scheduler_core.request import RequestSpec


class PrefixKey:
    """Keys of the first `prefix_blocks` full blocks of `block_size` tokens."""

    def __init__(self, block_size: int, prefix_blocks: int) -> None:
        self._block_size = block_size
        self._prefix_blocks = prefix_blocks
        self._digest = lru_cache(maxsize=256)(CacheNamespace.digest)

    def of(self, spec: RequestSpec) -> bytes:
        """The cache's own key of the prefix's last block; of the whole prompt where it fills no block."""
        tokens, size = spec.prompt_token_ids, self._block_size
        namespace = self._digest(CacheNamespace("", "", size, spec.salt, spec.adapter))
        full = min(self._prefix_blocks, len(tokens) // size)
        if not full:
            return block_key(ROOT, tokens, namespace)
        key = ROOT
        for i in range(full):
            key = block_key(key, tokens[i * size : (i + 1) * size], namespace)
        return key

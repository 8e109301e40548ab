"""Requests that could never run are refused when they arrive, with the numbers that say why."""

from __future__ import annotations

from scheduler_core.events import RequestRefused
from scheduler_core.kv_cache_manager import KVCacheManager
from scheduler_core.request import Request


def refusal(request: Request, kv: KVCacheManager) -> RequestRefused | None:
    """Why `request` could never run, even alone; None if it could."""
    return _too_long(request, kv.config.max_model_len) or _too_big(request, kv)


def _too_long(request: Request, limit: int) -> RequestRefused | None:
    if request.num_prompt_tokens < limit:
        return None
    return RequestRefused(
        request.id,
        f"the prompt has {request.num_prompt_tokens} tokens; it must be below max_model_len ({limit}): "
        "shorten the prompt or raise max_model_len",
        (("prompt_tokens", request.num_prompt_tokens), ("max_model_len", limit)),
    )


def _too_big(request: Request, kv: KVCacheManager) -> RequestRefused | None:
    # The last token of an answer is never computed, so it needs no KV.
    kv_tokens = request.max_total_tokens - 1
    if kv.can_ever_fit(kv_tokens):
        return None
    needed, blocks = kv.blocks_for(kv_tokens), kv.config.num_blocks
    return RequestRefused(
        request.id,
        f"prompt and answer may need {needed} blocks of KV; there are {blocks}: "
        "shorten the prompt, lower max_tokens or raise num_blocks",
        (("blocks_needed", needed), ("num_blocks", blocks)),
    )

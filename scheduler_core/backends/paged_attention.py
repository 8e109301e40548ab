"""Attention over a paged KV memory for any model of transformers, on any device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from scheduler_core.backends.ragged_batch import Chunk, RaggedBatch

ATTENTION = "tickscope_paged"


class TransformersForward:
    """transformers' own forward of a model, with its attention over the paged memory."""

    def __init__(self, model: Any) -> None:
        self._model = model
        _use_paged_attention(model)

    def hidden(self, batch: RaggedBatch, kv: Any) -> Any:
        """The last hidden state `[rows, hidden]` of a tick; `kv` `[layer, 2, slots, kv heads, head]`."""
        import torch

        # A mask of four dimensions is handed on as it is: ours is in the batch, this one only keeps
        # transformers from making its own.
        no_mask = torch.empty((1, 1, 1, 1), device=kv.device)
        result = self._model.model(
            input_ids=_on(kv.device, batch.token_ids)[None],
            position_ids=_on(kv.device, batch.positions)[None],
            attention_mask=no_mask,
            use_cache=False,
            paged=PagedAttention.make(batch, kv),
        )
        return result.last_hidden_state[0]

    def logits(self, hidden: Any) -> Any:
        """Scores `[rows, vocabulary]` of some rows of the last hidden state."""
        return self._model.lm_head(hidden)


def _use_paged_attention(model: Any) -> None:
    """Have the model call `paged_attention`; plain `generate` on the same model goes on working."""
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import sdpa_mask

    if model.config._attn_implementation != ATTENTION:
        AttentionInterface.register(ATTENTION, paged_attention)
        AttentionMaskInterface.register(ATTENTION, sdpa_mask)
        model.set_attn_implementation(ATTENTION)


def paged_attention(
    module: Any, query: Any, key: Any, value: Any, attention_mask: Any, *, paged: Any = None, **options: Any
) -> tuple[Any, None]:
    """transformers' attention function: paged when a tick comes along, else the usual one (as in `generate`)."""
    if paged is not None:
        return paged.attend(module.layer_idx, query, key, value, options.get("scaling")), None
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    result: tuple[Any, None] = sdpa_attention_forward(module, query, key, value, attention_mask, **options)
    return result


@dataclass(frozen=True, slots=True)
class PagedAttention:
    """A tick's attention; `seen` and `seen_mask` are the slots that each single token sees, padded to the longest."""

    kv: Any
    written: Any
    seen: Any
    seen_mask: Any
    chunks: Sequence[tuple[Chunk, Any, Any]]

    @classmethod
    def make(cls, batch: RaggedBatch, kv: Any) -> PagedAttention:
        seen, mask = _padded(batch, kv.device)
        chunks = [(chunk, _on(kv.device, chunk.seen), chunk_mask(chunk, kv.device)) for chunk in batch.chunks]
        return cls(kv, _on(kv.device, batch.slots), seen, mask, chunks)

    def attend(self, layer: int, query: Any, key: Any, value: Any, scaling: float | None) -> Any:
        """Keep the new K and V, then the attention of every token; `[1, tokens, heads, dim]`."""
        import torch

        kv = self.kv[layer]
        kv[0].index_copy_(0, self.written, key[0].transpose(0, 1))
        kv[1].index_copy_(0, self.written, value[0].transpose(0, 1))
        parts = [] if self.seen is None else [self._attend_singles(kv, query, scaling)]
        parts += [_attend_chunk(*chunk, kv, query, scaling) for chunk in self.chunks]
        return torch.cat(parts, dim=1) if len(parts) > 1 else parts[0]

    def _attend_singles(self, kv: Any, query: Any, scaling: float | None) -> Any:
        """All single tokens together; the query heads that share a KV head stand where queries in time would."""
        from torch.nn.functional import scaled_dot_product_attention

        num, longest = self.seen.shape
        heads, kv_heads, dim = query.shape[1], kv.shape[2], kv.shape[3]
        keys, values = kv.index_select(1, self.seen.flatten()).view(2, num, longest, kv_heads, dim).transpose(2, 3)
        grouped = query[0, :, :num].transpose(0, 1).reshape(num, kv_heads, heads // kv_heads, dim)
        result = scaled_dot_product_attention(grouped, keys, values, attn_mask=self.seen_mask, scale=scaling)
        return result.reshape(1, num, heads, dim)


def _padded(batch: RaggedBatch, device: Any) -> tuple[Any, Any]:
    """Slots `[singles, longest]` and their mask `[singles, 1, 1, longest]`, None where nothing is padded.

    A row is padded with its own slots, so that what other requests computed, NaN even, cannot reach it.
    """
    import torch

    if not batch.num_singles:
        return None, None
    longest = int(batch.lengths.max())
    slots = batch.tables[:, :, None] * batch.block_size + np.arange(batch.block_size)
    every = slots.reshape(batch.num_singles, -1)[:, :longest]
    within = np.arange(longest) < batch.lengths[:, None]
    seen = _on(device, np.where(within, every, every[:, :1]))
    return seen, None if within.all() else torch.from_numpy(within).to(device)[:, None, None, :]


def chunk_mask(chunk: Chunk, device: Any) -> Any:
    """Which slots each token of a chunk sees, `[tokens, slots]`; None where the kernel's own causal mask does."""
    import torch

    if chunk.start == 0:
        return None
    length = len(chunk.seen)
    return torch.arange(length, device=device) <= torch.arange(chunk.start, length, device=device)[:, None]


def _attend_chunk(chunk: Chunk, seen: Any, mask: Any, kv: Any, query: Any, scaling: float | None) -> Any:
    from torch.nn.functional import scaled_dot_product_attention

    keys, values = kv.index_select(1, seen).transpose(1, 2)
    result = scaled_dot_product_attention(
        query[:, :, chunk.first : chunk.end],
        keys[None],
        values[None],
        attn_mask=mask,
        is_causal=mask is None,
        scale=scaling,
        enable_gqa=query.shape[1] != kv.shape[2],
    )
    return result.transpose(1, 2)


def _on(device: Any, array: Any) -> Any:
    import torch

    return torch.from_numpy(array).to(device)

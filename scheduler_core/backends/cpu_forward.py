"""The forward of a Llama model on the CPU in float32, compiled for this machine, over a paged KV memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numba
import numpy as np

from scheduler_core.backends import llama_kernels
from scheduler_core.backends.paged_attention import chunk_mask
from scheduler_core.backends.panels import TURN, WIDTH, Floats, aligned, pack, product
from scheduler_core.backends.ragged_batch import Chunk, RaggedBatch


def can_run(model: Any) -> bool:
    """Whether this forward computes the model; transformers' own is for the others."""
    config = model.config
    return (
        str(model.device) == "cpu"
        and str(model.dtype) == "torch.float32"
        and config.hidden_act == "silu"
        and not config.attention_bias
        and not config.mlp_bias
    )


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer's weights; the matrices in panels."""

    attention_norm: Floats
    qkv: Floats
    o: Floats
    mlp_norm: Floats
    gate: Floats
    up: Floats
    down: Floats


@dataclass(frozen=True, slots=True)
class Room:
    """What is computed on the way through a layer, `[rows, columns]` each."""

    x: Floats
    normed: Floats
    qkv: Floats
    attended: Floats
    gate: Floats
    up: Floats
    added: Floats

    @classmethod
    def make(cls, rows: int, hidden: int, qkv: int, attended: int, gate: int) -> Room:
        """Room for `rows` rows; products need columns for whole panels."""
        widths = (hidden, hidden, _whole_panels(qkv), attended, _whole_panels(gate), _whole_panels(gate))
        return cls(*(aligned((rows, width)) for width in (*widths, _whole_panels(hidden))))


class CpuForward:
    """The weights of a model as the kernels want them, and room for the rows of a tick.

    Made once per model; who calls it holds the model's lock, as the room is shared.
    """

    def __init__(self, model: Any) -> None:
        config = model.config
        self._heads = int(config.num_attention_heads)
        self._kv_heads = int(config.num_key_value_heads)
        self._head_dim = int(getattr(config, "head_dim", None) or config.hidden_size // self._heads)
        self._hidden = int(config.hidden_size)
        self._vocabulary = int(config.vocab_size)
        self._eps = np.float32(config.rms_norm_eps)
        self._scale = np.float32(self._head_dim**-0.5)
        self._rotary = model.model.rotary_emb
        self._embedding = model.model.embed_tokens.weight.detach()
        self._norm = _array(model.model.norm.weight)
        self._head = pack(_array(model.lm_head.weight))
        self._layers = [_layer(layer) for layer in model.model.layers]
        self._room = self._make_room(0)
        self._attend_singles = llama_kernels.make_attend_singles(self._heads // self._kv_heads, self._head_dim)

    def hidden(self, batch: RaggedBatch, kv: Any) -> Any:
        """The last hidden state `[rows, hidden]` of a tick, a tensor; `kv` `[layer, 2, slots, kv heads, head]`."""
        rows = len(batch.token_ids)
        room = self._room_for(rows)
        cos, sin = self._rope(batch)
        room.x[:rows] = self._embedding[_tensor(batch.token_ids)].numpy()
        with TURN:
            _use_torchs_threads()
            for layer, memory in zip(self._layers, kv.numpy(), strict=True):
                self._run_layer(layer, memory, batch, cos, sin)
            llama_kernels.norm(room.x, rows, self._norm, self._eps, room.normed)
        return _tensor(room.normed[:rows].copy())

    def logits(self, hidden: Any) -> Any:
        """Scores `[rows, vocabulary]` of some rows of the last hidden state."""
        x = hidden.numpy()
        out = aligned((len(x), len(self._head) * WIDTH))
        with TURN:
            _use_torchs_threads()
            product(x, len(x), self._head, out)
        return _tensor(out)[:, : self._vocabulary]

    def _run_layer(self, layer: Layer, memory: Floats, batch: RaggedBatch, cos: Floats, sin: Floats) -> None:
        room, rows = self._room, len(batch.token_ids)
        keys, values = memory
        llama_kernels.attention_input(
            room.x, rows, layer.attention_norm, self._eps, layer.qkv, self._heads,
            cos, sin, keys, values, batch.slots, room.normed, room.qkv,
        )  # fmt: skip
        if batch.num_singles:
            self._attend_singles(
                room.qkv, batch.num_singles, keys, values,
                batch.tables, batch.block_size, batch.lengths, self._scale, room.attended,
            )  # fmt: skip
        for chunk in batch.chunks:
            self._attend_chunk(chunk, keys, values)
        llama_kernels.attention_output(
            room.x, rows, room.attended, layer.o, layer.mlp_norm, self._eps,
            layer.gate, layer.up, layer.down, room.normed, room.gate, room.up, room.added,
        )  # fmt: skip

    def _attend_chunk(self, chunk: Chunk, keys: Floats, values: Floats) -> None:
        """Attention of several tokens of one request."""
        from torch.nn.functional import scaled_dot_product_attention

        room, heads, kv_heads, dim = self._room, self._heads, self._kv_heads, self._head_dim
        num = chunk.end - chunk.first
        query = _tensor(room.qkv[chunk.first : chunk.end, : heads * dim]).view(num, heads, dim).transpose(0, 1)
        seen = _tensor(chunk.seen)
        result = scaled_dot_product_attention(
            query[None],
            _tensor(keys).index_select(0, seen).transpose(0, 1)[None],
            _tensor(values).index_select(0, seen).transpose(0, 1)[None],
            attn_mask=chunk_mask(chunk, "cpu"),
            is_causal=chunk.start == 0,
            scale=float(self._scale),
            enable_gqa=heads != kv_heads,
        )
        room.attended[chunk.first : chunk.end] = result[0].transpose(0, 1).reshape(num, heads * dim).numpy()

    def _rope(self, batch: RaggedBatch) -> tuple[Floats, Floats]:
        """Cosines and sines `[rows, head]` of the rows' positions, as transformers computes them."""
        cos, sin = self._rotary(self._embedding, _tensor(batch.positions)[None])
        return cos[0].numpy(), sin[0].numpy()

    def _make_room(self, rows: int) -> Room:
        queries = self._heads * self._head_dim
        qkv = queries + 2 * self._kv_heads * self._head_dim
        return Room.make(rows, self._hidden, qkv, queries, self._layers[0].down.shape[1])

    def _room_for(self, rows: int) -> Room:
        """The room kept from tick to tick, made larger where it is too small."""
        if len(self._room.x) < rows:
            self._room = self._make_room(2 * rows)
        return self._room


def _whole_panels(columns: int) -> int:
    return -(-columns // WIDTH) * WIDTH


def _layer(layer: Any) -> Layer:
    attention, mlp = layer.self_attn, layer.mlp
    qkv = np.concatenate([_array(part.weight) for part in (attention.q_proj, attention.k_proj, attention.v_proj)])
    return Layer(
        _array(layer.input_layernorm.weight),
        pack(qkv),
        pack(_array(attention.o_proj.weight)),
        _array(layer.post_attention_layernorm.weight),
        pack(_array(mlp.gate_proj.weight)),
        pack(_array(mlp.up_proj.weight)),
        pack(_array(mlp.down_proj.weight)),
    )


def _array(tensor: Any) -> Floats:
    array: Floats = tensor.detach().numpy()
    return array


def _tensor(array: Any) -> Any:
    import torch

    return torch.from_numpy(array)


def _use_torchs_threads() -> None:
    """As many threads as torch was told to use."""
    import torch

    most = int(numba.config.NUMBA_NUM_THREADS)  # type: ignore[attr-defined]
    numba.set_num_threads(min(torch.get_num_threads(), most))

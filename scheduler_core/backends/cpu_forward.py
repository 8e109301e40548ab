"""The forward of a Llama model on the CPU in float32, compiled for this machine, over a paged KV memory."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from typing import Any

import numpy as np

from scheduler_core.backends.crew import Crew
from scheduler_core.backends.llama_kernels import Chunks, Room, Rows, Singles, Weights, forward, num_phases
from scheduler_core.backends.panels import WIDTH, Floats, aligned, num_panels, pack, product
from scheduler_core.backends.ragged_batch import Chunk, RaggedBatch
from scheduler_core.backends.vectors import ROWS
from scheduler_core.output import ScheduledRequest
from scheduler_core.request import SamplingParams


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


class CpuForward:
    """A model's weights as the kernel wants them, room for the rows of a tick, and the threads.

    Made once per model; who calls it holds the model's lock, as the room is shared.
    """

    def __init__(self, model: Any) -> None:
        config = model.config
        self._heads = int(config.num_attention_heads)
        self._kv_heads = int(config.num_key_value_heads)
        self._head_dim = int(getattr(config, "head_dim", None) or config.hidden_size // self._heads)
        self._vocabulary = int(config.vocab_size)
        self._rotary = model.model.rotary_emb
        self._embedding = model.model.embed_tokens.weight.detach()
        self._weights = _weights(model)
        self._head = pack([_array(model.lm_head.weight)])
        self._room = self._make_room(1, 0)
        self._crew = Crew()
        self._compile(int(config.num_hidden_layers))

    def hidden(self, batch: RaggedBatch, kv: Any) -> Any:
        """The last hidden state `[rows, hidden]` of a tick, a tensor; `kv` `[layer, 2, slots, kv heads, head]`."""
        rows = len(batch.token_ids)
        chunks, panels = _chunks(batch.chunks, self._heads, self._kv_heads)
        self._see_to_room(rows, panels)
        self._room.x[:rows] = self._embedding[_tensor(batch.token_ids)].numpy()
        memory = kv.numpy()
        self._run(
            forward,
            num_phases(len(memory)),
            self._weights,
            self._room,
            Rows(*self._rope(batch), batch.slots),
            Singles(batch.tables, batch.lengths, batch.block_size),
            chunks,
            memory,
            self._heads,
            np.float32(self._head_dim**-0.5),
        )
        return _tensor(self._room.normed[:rows].copy())

    def logits(self, hidden: Any) -> Any:
        """Scores `[rows, vocabulary]` of some rows of the last hidden state."""
        x = hidden.numpy()
        out = aligned((len(x), len(self._head) * WIDTH))
        self._run(product, 1, x, len(x), self._head, out)
        return _tensor(out)[:, : self._vocabulary]

    def _compile(self, num_layers: int) -> None:
        """Compute a token and a chunk of nobody, so that no tick has to wait for the compiler."""
        import torch

        items = [
            ScheduledRequest(name, tokens, 0, (block,), False, 0, SamplingParams(), 0)
            for name, tokens, block in (("single", (0,), 0), ("chunk", (0, 0), 1))
        ]
        memory = torch.zeros((num_layers, 2, 2 * ROWS, self._kv_heads, self._head_dim))
        with torch.inference_mode():
            self.logits(self.hidden(RaggedBatch.make(items, ROWS), memory))

    def _run(self, kernel: Any, phases: int, *arguments: Any) -> None:
        """With as many threads as torch was told to use."""
        import torch

        self._crew.run(torch.get_num_threads(), kernel, phases, *arguments)

    def _rope(self, batch: RaggedBatch) -> tuple[Floats, Floats]:
        """Cosines and sines `[rows, head]` of the rows' positions, as transformers computes them."""
        cos, sin = self._rotary(self._embedding, _tensor(batch.positions)[None])
        return cos[0].numpy(), sin[0].numpy()

    def _see_to_room(self, rows: int, panels: int) -> None:
        """The room is kept from tick to tick, and made larger where it is too small."""
        has_rows, has_panels = len(self._room.x), len(self._room.keys)
        if rows > has_rows or panels > has_panels:
            self._room = self._make_room(
                has_rows if rows <= has_rows else 2 * rows, has_panels if panels <= has_panels else 2 * panels
            )

    def _make_room(self, rows: int, panels: int) -> Room:
        """For so many rows, and so many panels of chunks' keys; products need columns for whole panels."""
        hidden, gate = self._weights.final_norm.shape[0], self._weights.down.shape[1]
        queries = self._heads * self._head_dim
        qkv = queries + 2 * self._kv_heads * self._head_dim
        return Room(
            x=aligned((rows, hidden)),
            normed=aligned((rows, hidden)),
            qkv=aligned((rows, num_panels(qkv) * WIDTH)),
            attended=aligned((rows, queries)),
            gate=aligned((rows, num_panels(gate) * WIDTH)),
            up=aligned((rows, num_panels(gate) * WIDTH)),
            added=aligned((rows, num_panels(hidden) * WIDTH)),
            keys=aligned((panels, self._head_dim, WIDTH)),
            values=aligned((num_panels(self._head_dim), panels * WIDTH, WIDTH)),
        )


def _chunks(chunks: tuple[Chunk, ...], heads: int, kv_heads: int) -> tuple[Chunks, int]:
    """The work of the chunks' attention, and the panels that it needs: each chunk's, KV head by KV head."""
    sizes = [num_panels(len(chunk.seen)) for chunk in chunks]
    starts = list(accumulate((kv_heads * size for size in sizes), initial=0))
    first_seen = accumulate((len(chunk.seen) for chunk in chunks), initial=0)
    gathers = [row for args in zip(chunks, starts, first_seen, strict=False) for row in _gathers(*args, kv_heads)]
    tasks = [row for chunk, start in zip(chunks, starts, strict=False) for row in _tasks(chunk, start, heads, kv_heads)]
    seen = np.concatenate([chunk.seen for chunk in chunks]) if chunks else np.empty(0, np.int64)
    return Chunks(seen, _table(gathers, 4), _table(tasks, 5)), starts[-1]


def _gathers(chunk: Chunk, first_panel: int, first_seen: int, kv_heads: int) -> Iterator[tuple[int, ...]]:
    length = len(chunk.seen)
    size = num_panels(length)
    for head in range(kv_heads):
        for panel in range(size):
            place = panel * WIDTH
            yield first_seen + place, min(WIDTH, length - place), head, first_panel + head * size + panel


def _tasks(chunk: Chunk, first_panel: int, heads: int, kv_heads: int) -> Iterator[tuple[int, ...]]:
    """The longest first: threads that share them end at like times."""
    size = num_panels(len(chunk.seen))
    for row in reversed(range(chunk.first, chunk.end, ROWS)):
        position = chunk.start + row - chunk.first
        for head in range(heads):
            panel = first_panel + head * kv_heads // heads * size
            yield row, min(ROWS, chunk.end - row), position, head, panel


def _table(rows: list[tuple[int, ...]], columns: int) -> Any:
    return np.array(rows, np.int64).reshape(len(rows), columns)


def _weights(model: Any) -> Weights:
    layers = model.model.layers
    attention, mlp = [layer.self_attn for layer in layers], [layer.mlp for layer in layers]
    return Weights(
        attention_norm=np.stack([_array(layer.input_layernorm.weight) for layer in layers]),
        qkv=pack([np.concatenate([_array(part.weight) for part in (a.q_proj, a.k_proj, a.v_proj)]) for a in attention]),
        o=pack([_array(a.o_proj.weight) for a in attention]),
        mlp_norm=np.stack([_array(layer.post_attention_layernorm.weight) for layer in layers]),
        gate=pack([_array(m.gate_proj.weight) for m in mlp]),
        up=pack([_array(m.up_proj.weight) for m in mlp]),
        down=pack([_array(m.down_proj.weight) for m in mlp]),
        final_norm=_array(model.model.norm.weight),
        eps=np.float32(model.config.rms_norm_eps),
    )


def _array(tensor: Any) -> Floats:
    array: Floats = tensor.detach().numpy()
    return array


def _tensor(array: Any) -> Any:
    import torch

    return torch.from_numpy(array)

"""Runs a Llama-architecture model over a paged KV memory: all tokens of a tick in one forward.

Keeps KV blocks and nothing about any request. The weights are shared between runners; the KV memory is a runner's own.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scheduler_core.backends.base import CopyError
from scheduler_core.backends.kv_bytes import KVBytes, KVFormat
from scheduler_core.backends.model_store import LoadedModel
from scheduler_core.backends.model_text import ModelText
from scheduler_core.errors import ModelError
from scheduler_core.output import ModelRunnerOutput, SampledToken, ScheduledRequest, SchedulerOutput, TokenProb
from scheduler_core.trace import Backend

if TYPE_CHECKING:
    from scheduler_core.backends.ragged_batch import RaggedBatch

NUM_CANDIDATES = 5
#: Share of the free memory that one run's KV may take.
_MEMORY_SHARE = 0.8


class TransformersRunner:
    """One run's `ModelRunner` on shared weights; cheap to make."""

    def __init__(self, loaded: LoadedModel, device: str | None = None) -> None:
        if device not in (None, loaded.device):
            raise ModelError(f"the model is loaded on {loaded.device}, not on {device}; load it for that device")
        self._loaded = loaded
        self._text = ModelText(loaded.tokenizer)
        self._config = loaded.model.config
        self._head_dim = int(getattr(self._config, "head_dim", None) or self._config.hidden_size // self._num_heads)
        self._kv: Any = None
        self._block_size = 0
        with loaded.lock:
            self._forward = loaded.forward

    # --- facts ---------------------------------------------------------------------------------------------------

    @property
    def backend(self) -> Backend:
        return Backend(
            kind="model",
            model=self._loaded.name,
            dtype=self._loaded.dtype,
            device=self._loaded.device,
            weights_digest=self._loaded.digest,
            kv_bytes_per_token=self.kv_bytes_per_token,
            eos_token_ids=self.eos_token_ids,
        )

    @property
    def kv_bytes_per_token(self) -> int:
        return self._num_layers * 2 * self._num_kv_heads * self._head_dim * int(self._loaded.model.dtype.itemsize)

    @property
    def eos_token_ids(self) -> tuple[int, ...]:
        """As `generate` stops at; the tokenizer's where the model names none."""
        ids = self._loaded.model.generation_config.eos_token_id
        if ids is None:
            ids = self._loaded.tokenizer.eos_token_id
        if ids is None:
            return ()
        return (ids,) if isinstance(ids, int) else tuple(ids)

    @property
    def max_model_len(self) -> int | None:
        return int(self._config.max_position_embeddings)

    @property
    def vocab_size(self) -> int:
        return int(self._config.vocab_size)

    @property
    def _num_layers(self) -> int:
        return int(self._config.num_hidden_layers)

    @property
    def _num_heads(self) -> int:
        return int(self._config.num_attention_heads)

    @property
    def _num_kv_heads(self) -> int:
        return int(self._config.num_key_value_heads)

    # --- text ----------------------------------------------------------------------------------------------------

    def encode(self, text: str) -> tuple[int, ...]:
        return self._text.encode(text)

    def encode_chat(self, text: str, system: str | None = None) -> tuple[int, ...]:
        """Token ids in the model's chat template; a model without one reads the plain text."""
        return self.encode_messages([*([] if system is None else [("system", system)]), ("user", text)])

    def encode_messages(self, messages: Sequence[tuple[str, str]]) -> tuple[int, ...]:
        """Token ids of a chat, given as (role, text), ready for the next answer."""
        return self._text.encode_messages(messages)

    def decode(self, token_ids: tuple[int, ...] | list[int]) -> str:
        return self._text.decode(token_ids)

    def token_text(self, token_id: int) -> str:
        """The text of one token; bytes that are only a part of a character are shown as <0xE6>."""
        return self._loaded.token_text(token_id)

    # --- memory --------------------------------------------------------------------------------------------------

    def allocate(self, num_blocks: int, block_size: int) -> None:
        """KV memory `[layer, 2, block, slot, head, dim]`; on the CPU its pages come with the first write to them."""
        self._kv = None
        free = _free_bytes(self._loaded.device)
        bytes_a_block = self.kv_bytes_per_token * block_size
        most = int(free * _MEMORY_SHARE) // bytes_a_block
        if num_blocks > most:
            raise ModelError(
                f"num_blocks is {num_blocks}; {most} blocks of {block_size} tokens ({bytes_a_block // 1024} KiB each) "
                f"fit into the memory free on {self._loaded.device}: lower num_blocks or block_size"
            )
        shape = (self._num_layers, 2, num_blocks, block_size, self._num_kv_heads, self._head_dim)
        try:
            self._kv = _zeros(shape, self._loaded.model.dtype, self._loaded.device)
        except (MemoryError, RuntimeError) as problem:
            raise ModelError(
                f"no memory for num_blocks = {num_blocks} blocks of {bytes_a_block // 1024} KiB on "
                f"{self._loaded.device} ({problem}); lower num_blocks"
            ) from None
        self._block_size = block_size

    def copy_out(self, block_ids: tuple[int, ...]) -> Any:
        """A host copy `[layer, 2, len(block_ids), slot, head, dim]`."""
        try:
            with self._loaded.lock:
                return self._kv[:, :, list(block_ids)].to("cpu")
        except (RuntimeError, IndexError, MemoryError) as problem:
            raise CopyError(f"copying {len(block_ids)} blocks to the host failed: {problem}") from problem

    def copy_in(self, saved: Any, first_block: int, block_ids: tuple[int, ...]) -> None:
        end = first_block + len(block_ids)
        if end > saved.shape[2]:
            raise CopyError(f"blocks {first_block} to {end} were asked for and {saved.shape[2]} are saved")
        try:
            with self._loaded.lock:
                self._kv[:, :, list(block_ids)] = saved[:, :, first_block:end].to(self._loaded.device)
        except (RuntimeError, IndexError, MemoryError) as problem:
            raise CopyError(f"copying {len(block_ids)} blocks from the host failed: {problem}") from problem

    def kv_format(self) -> KVFormat:
        config = self._config
        rope = getattr(config, "rope_parameters", None) or {"rope_theta": getattr(config, "rope_theta", None)}
        return KVFormat(
            self._loaded.digest,
            self._loaded.tokenizer_digest,
            self._loaded.dtype,
            self._num_layers,
            self._num_kv_heads,
            self._head_dim,
            json.dumps(dict(rope), sort_keys=True, default=str),
            self._block_size,
            "layer, key or value, slot, KV head, value",
        )

    def pack(self, saved: Any) -> list[KVBytes]:
        import torch

        dtype = self._loaded.dtype
        blocks = (saved[:, :, i].contiguous() for i in range(saved.shape[2]))
        return [KVBytes(dtype, tuple(b.shape), b.view(torch.uint8).numpy().tobytes()) for b in blocks]

    def unpack(self, block: KVBytes) -> Any:
        import torch

        shape = (self._num_layers, 2, self._block_size, self._num_kv_heads, self._head_dim)
        if block.dtype != self._loaded.dtype or block.shape != shape:
            raise CopyError(f"the block holds {block.dtype} {block.shape}, not {self._loaded.dtype} {shape}")
        values = torch.frombuffer(bytearray(block.data), dtype=self._loaded.model.dtype)
        return values.view(shape).unsqueeze(2)

    # --- a tick --------------------------------------------------------------------------------------------------

    def execute_model(self, output: SchedulerOutput) -> ModelRunnerOutput:
        """One forward for all scheduled tokens; `wall_seconds` leaves out waiting for another run's forward."""
        if not output.scheduled:
            return ModelRunnerOutput(sampled={})
        if self._kv is None:
            raise RuntimeError("allocate() was not called before execute_model()")
        import torch

        from scheduler_core.backends.ragged_batch import RaggedBatch

        with self._loaded.lock, torch.inference_mode():
            start = time.perf_counter()
            batch = RaggedBatch.make(output.scheduled, self._block_size)
            hidden = self._forward.hidden(batch, self._kv.flatten(2, 3))
            failed = _failures(batch, hidden)
            asked = [item for item in batch.items if item.samples and item.request_id not in failed]
            sampled = self._sample(batch, hidden, asked, failed)
            return ModelRunnerOutput(sampled, time.perf_counter() - start, failed or None)

    def _sample(
        self, batch: RaggedBatch, hidden: Any, items: list[ScheduledRequest], failed: dict[str, str]
    ) -> dict[str, SampledToken]:
        """Draw for each of `items`; one whose logits are no numbers goes to `failed` instead."""
        if not items:
            return {}
        import torch

        rows = torch.tensor([batch.last_row(item.request_id) for item in items], device=hidden.device)
        logits = self._forward.logits(hidden[rows]).float()
        for row, item in enumerate(items):
            if forbidden := self._forbidden(item):
                logits[row, forbidden] = -math.inf
        total = logits.logsumexp(dim=-1, keepdim=True)
        broken = (~total.isfinite()).flatten().tolist()
        best = torch.topk(logits, min(NUM_CANDIDATES, logits.shape[-1]), dim=-1)
        probs, ids = (best.values - total).exp().tolist(), best.indices.tolist()
        greedy = logits.argmax(dim=-1).tolist()
        sampled = {}
        for row, item in enumerate(items):
            if broken[row]:
                failed[item.request_id] = "the model's scores are not numbers (NaN)"
                continue
            drawn = draw(logits[row], item) if item.sampling.temperature > 0 else greedy[row]
            # Digits past the sixth are rounding, which differs from machine to machine and only swells a trace.
            pairs = zip(ids[row], probs[row], strict=True)
            top = tuple(TokenProb(number, self.token_text(number), round(prob, 6)) for number, prob in pairs)
            sampled[item.request_id] = SampledToken(drawn, self.token_text(drawn), top)
        return sampled

    def _forbidden(self, item: ScheduledRequest) -> list[int]:
        """Tokens that would end the text before its least length."""
        if item.output_index >= item.sampling.min_tokens:
            return []
        return [*self.eos_token_ids, *item.sampling.stop_token_ids]


def _failures(batch: RaggedBatch, hidden: Any) -> dict[str, str]:
    """Requests of which some token came out as no number; nothing of theirs may be kept."""
    if hidden.isfinite().all():
        return {}
    broken = (~hidden.isfinite().all(dim=-1)).tolist()
    return {
        item.request_id: "the model computed values that are not numbers (NaN)"
        for item in batch.items
        if any(broken[batch.ends[item.request_id] - item.num_tokens : batch.ends[item.request_id]])
    }


# --- drawing -----------------------------------------------------------------------------------------------------


def draw(logits: Any, item: ScheduledRequest) -> int:
    """The token at the item's place in the distribution that temperature and top_p leave.

    The place depends on (seed, output index) alone: not on the schedule, the batch or any random state.
    """
    import torch

    # Always in double precision on the CPU: not every device has it.
    scores = logits.double().cpu()
    probs = ((scores - scores.max()) / item.sampling.temperature).softmax(dim=-1)
    ordered = torch.sort(probs, descending=True, stable=True)
    total = ordered.values.cumsum(dim=-1)
    kept = int((total - ordered.values < item.sampling.top_p).sum())
    place = uniform(item.seed, item.output_index) * total[kept - 1]
    index = int(torch.searchsorted(total[:kept], place, right=True))
    return int(ordered.indices[min(index, kept - 1)])


def uniform(seed: int, index: int) -> float:
    """A number in [0, 1) that looks random and is fixed by its arguments."""
    digest = hashlib.sha256(f"draw:{seed}:{index}".encode()).digest()
    return (int.from_bytes(digest[:8], "little") >> 11) / 2**53


# --- small things ------------------------------------------------------------------------------------------------


def _zeros(shape: tuple[int, ...], dtype: Any, device: str) -> Any:
    """Zeroed memory; on the CPU taken from the system only as it is written to, which torch's own is not."""
    import torch

    if device != "cpu":
        return torch.zeros(shape, dtype=dtype, device=device)
    import numpy as np

    return torch.from_numpy(np.zeros(math.prod(shape) * dtype.itemsize, np.uint8)).view(dtype).view(shape)


def _free_bytes(device: str) -> int:
    """Memory that can be had; the machine's whole memory where the system does not say more."""
    if device.startswith("cuda"):
        import torch

        return int(torch.cuda.mem_get_info(device)[0])
    facts = Path("/proc/meminfo")
    if facts.is_file():
        for line in facts.read_text(encoding="utf-8").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    if hasattr(os, "sysconf"):
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return 2**62  # Windows: the allocation itself will say

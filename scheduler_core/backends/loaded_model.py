"""A model in memory: its weights, its tokenizer, and the forward that computes with them."""

from __future__ import annotations

import hashlib
import json
import threading
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from scheduler_core.backends.ragged_batch import RaggedBatch


class Forward(Protocol):
    """Computes the tokens of a tick over a paged KV memory; who calls it holds the model's lock."""

    def hidden(self, batch: RaggedBatch, kv: Any) -> Any:
        """The last hidden state `[rows, hidden]`; `kv` is `[layer, 2, slots, kv heads, head]`."""
        ...

    def logits(self, hidden: Any) -> Any:
        """Scores `[rows, vocabulary]` of some rows of the last hidden state."""
        ...


@dataclass(frozen=True)
class LoadedModel:
    """Weights in memory, shared by all runs of the process; who runs a forward holds `lock`.

    Unless `compiled`, a model on the CPU takes transformers' own forward as well, as all others do.
    """

    model: Any
    tokenizer: Any
    digest: str
    dtype: str
    device: str
    name: str
    compiled: bool = True
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)
    _token_texts: dict[int, str] = field(default_factory=dict, init=False, repr=False, compare=False)

    @cached_property
    def tokenizer_digest(self) -> str:
        """Of everything that turns text into token ids."""
        backend = getattr(self.tokenizer, "backend_tokenizer", None)
        told = backend.to_str() if backend is not None else json.dumps(self.tokenizer.get_vocab(), sort_keys=True)
        return hashlib.sha256(told.encode("utf-8", "surrogatepass")).hexdigest()

    def token_text(self, token_id: int) -> str:
        """The text of one token; bytes that are only a part of a character are shown as <0xE6>."""
        text = self._token_texts.get(token_id)
        if text is None:
            text = self._token_texts[token_id] = self._decode_token(token_id)
        return text

    def _decode_token(self, token_id: int) -> str:
        text = str(self.tokenizer.decode([token_id], clean_up_tokenization_spaces=False))
        if "\ufffd" not in text:
            return text
        letters = str(self.tokenizer.convert_ids_to_tokens(token_id) or "")
        return "".join(f"<0x{_BYTE_OF_LETTER[c]:02X}>" if c in _BYTE_OF_LETTER else c for c in letters) or text

    @cached_property
    def forward(self) -> Forward:
        """The fastest forward that this model can take; made at its first use, by whoever holds the lock."""
        from scheduler_core.backends.cpu_forward import CpuForward, can_run
        from scheduler_core.backends.paged_attention import TransformersForward

        return CpuForward(self.model) if self.compiled and can_run(self.model) else TransformersForward(self.model)


def _letters_of_bytes() -> dict[str, int]:
    """Byte-level BPE writes each byte as a printable letter; letter -> byte."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + n): byte for n, byte in enumerate(others)}


_BYTE_OF_LETTER = _letters_of_bytes()

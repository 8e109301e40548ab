"""A model whose next token is a hash of the whole history. It keeps that hash in its KV blocks, as a real one keeps KV:
a block that is shared, restored or read wrongly shows up as a wrong token.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Sequence
from typing import Any

from scheduler_core.backends.base import CopyError
from scheduler_core.backends.kv_bytes import KVBytes, KVFormat
from scheduler_core.output import ModelRunnerOutput, SampledToken, ScheduledRequest, SchedulerOutput, TokenProb
from scheduler_core.trace import Backend

_MASK = 2**64 - 1
_EMPTY = 0
_PIECES = re.compile(r"\s*\S{1,5}|\s+")
_FIRST_WORD_ID = 16
_SYLLABLES = ("ba", "ko", "mi", "ru", "se", "ta", "ne", "lo", "vi", "da", "shu", "pe", "gi", "wa", "fo", "zen")


def _mix(state: int, value: int) -> int:
    """One step of a 64-bit hash chain (the finaliser of splitmix64)."""
    x = (state ^ (value + 0x9E3779B97F4A7C15)) & _MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _MASK
    return x ^ (x >> 31)


class SyntheticRunner:
    """Deterministic stand-in for a model; `eos_every` n ends a text with probability 1/n at each token (0 = never)."""

    eos_token_id = 2

    def __init__(
        self,
        seed: int = 0,
        vocab_size: int = 40_000,
        eos_every: int = 0,
        kv_bytes_per_token: int = 46_080,
        fail_copies: bool = False,
        fail_restores: bool = False,
    ) -> None:
        self._seed = seed
        self._vocab_size = vocab_size
        self._eos_every = eos_every
        self._kv_bytes_per_token = kv_bytes_per_token
        self._fail_copies = fail_copies
        self._fail_restores = fail_restores
        self._block_size = 1
        self._blocks: list[list[int]] = []
        self._texts: dict[int, str] = {0: "<pad>", 1: "<user>", 2: "<end>", 3: "<answer>", 4: "<system>"}

    @property
    def backend(self) -> Backend:
        return Backend(
            kind="synthetic",
            model=f"synthetic, seed {self._seed}",
            dtype="hash",
            weights_digest=f"synthetic-{self._seed}-{self._vocab_size}",
            kv_bytes_per_token=self._kv_bytes_per_token,
            eos_token_ids=self.eos_token_ids,
        )

    @property
    def eos_token_ids(self) -> tuple[int, ...]:
        return (self.eos_token_id,)

    @property
    def vocab_size(self) -> int:
        return self._vocab_size

    @property
    def max_model_len(self) -> int | None:
        return None

    def allocate(self, num_blocks: int, block_size: int) -> None:
        self._block_size = block_size
        self._blocks = [[_EMPTY] * block_size for _ in range(num_blocks)]

    def encode(self, text: str) -> tuple[int, ...]:
        """One token for every five characters of a word or less."""
        return tuple(self._learn(piece) for piece in _PIECES.findall(text))

    def encode_chat(self, text: str, system: str | None = None) -> tuple[int, ...]:
        head = (4, *self.encode(system)) if system else ()
        return (*head, 1, *self.encode(text), 3)

    def encode_messages(self, messages: Sequence[tuple[str, str]]) -> tuple[int, ...]:
        """A chat of several turns, ready for the next answer."""
        marks = {"system": 4, "user": 1, "assistant": 3}
        turns = [token_id for role, text in messages for token_id in (marks[role], *self.encode(text))]
        return (*turns, marks["assistant"])

    def decode(self, token_ids: Sequence[int]) -> str:
        return "".join(self.token_text(t) for t in token_ids if t >= _FIRST_WORD_ID)

    def token_text(self, token_id: int) -> str:
        if token_id not in self._texts:
            self._texts[token_id] = _word(token_id)
        return self._texts[token_id]

    def execute_model(self, output: SchedulerOutput) -> ModelRunnerOutput:
        for item in output.scheduled:
            self._write(item)
        return ModelRunnerOutput({item.request_id: self._draw(item) for item in output.scheduled if item.samples})

    def copy_out(self, block_ids: tuple[int, ...]) -> Any:
        if self._fail_copies:
            raise CopyError("the copy to the host failed")
        return tuple(tuple(self._blocks[block_id]) for block_id in block_ids)

    def copy_in(self, saved: Any, first_block: int, block_ids: tuple[int, ...]) -> None:
        if self._fail_restores:
            raise CopyError("the copy from the host failed")
        for offset, block_id in enumerate(block_ids):
            self._blocks[block_id] = list(saved[first_block + offset])

    def kv_format(self) -> KVFormat:
        facts = self.backend
        return KVFormat(facts.weights_digest, "synthetic", facts.dtype, 1, 1, 1, "{}", self._block_size, "slot")

    def pack(self, saved: Any) -> list[KVBytes]:
        return [KVBytes("uint64", (self._block_size,), array("Q", block).tobytes()) for block in saved]

    def unpack(self, block: KVBytes) -> Any:
        if (block.dtype, block.shape) != ("uint64", (self._block_size,)):
            raise CopyError(f"the block holds {block.dtype} {block.shape}")
        return (tuple(array("Q", block.data)),)

    def _write(self, item: ScheduledRequest) -> None:
        state = self._read(item, item.start - 1)
        for position, token_id in enumerate(item.token_ids, item.start):
            state = _mix(state, token_id + 1)
            self._blocks[item.block_ids[position // self._block_size]][position % self._block_size] = state

    def _read(self, item: ScheduledRequest, position: int) -> int:
        if position < 0:
            return _mix(self._seed, 0)
        return self._blocks[item.block_ids[position // self._block_size]][position % self._block_size]

    def _draw(self, item: ScheduledRequest) -> SampledToken:
        state = self._read(item, item.end - 1)
        if item.sampling.temperature > 0:
            state = _mix(_mix(state, item.seed), item.output_index)
        ends = self._eos_every and state % self._eos_every == 0 and item.output_index >= item.sampling.min_tokens
        token_id = self.eos_token_id if ends else self._word_id(_mix(state, 1))
        return SampledToken(token_id, self.token_text(token_id), self._candidates(state, token_id))

    def _candidates(self, state: int, first: int) -> tuple[TokenProb, ...]:
        others = [self._word_id(_mix(state, 2 + i)) for i in range(4)]
        probs = (0.5, 0.25, 0.125, 0.0625, 0.03125)
        return tuple(TokenProb(t, self.token_text(t), p) for t, p in zip([first, *others], probs, strict=True))

    def _word_id(self, state: int) -> int:
        return _FIRST_WORD_ID + state % (self._vocab_size - _FIRST_WORD_ID)

    def _learn(self, piece: str) -> int:
        state = 0
        for byte in piece.encode("utf-8", "surrogatepass"):
            state = _mix(state, byte)
        token_id = self._word_id(state)
        self._texts.setdefault(token_id, piece)
        return token_id


def _word(token_id: int) -> str:
    syllables: list[str] = []
    rest = token_id
    while rest and len(syllables) < 3:
        rest, which = divmod(rest, len(_SYLLABLES))
        syllables.append(_SYLLABLES[which])
    return " " + "".join(syllables)

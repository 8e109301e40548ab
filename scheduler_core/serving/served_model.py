"""What the gateway needs to turn texts into tokens and back, and a runner that has it, with what a store needs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from scheduler_core.backends.base import ModelRunner
from scheduler_core.backends.kv_bytes import KVPacker


class Codec(Protocol):
    """Texts to tokens and back; needs no weights."""

    @property
    def vocab_size(self) -> int:
        """Token ids are below it."""
        ...

    def encode(self, text: str) -> tuple[int, ...]:
        """Token ids of a plain text, without special tokens added."""
        ...

    def encode_messages(self, messages: Sequence[tuple[str, str]]) -> tuple[int, ...]:
        """Token ids of a chat, given as (role, text), ready for the next answer."""
        ...

    def decode(self, token_ids: tuple[int, ...] | list[int]) -> str:
        """The text of output tokens, special tokens left out."""
        ...


class ServedRunner(Codec, ModelRunner, KVPacker, Protocol):
    """What the gateway serves."""

"""A runner that can also take a whole chat, with what the gateway and a store need to know of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from scheduler_core.backends.base import ModelRunner
from scheduler_core.backends.kv_bytes import KVPacker


class ServedRunner(ModelRunner, KVPacker, Protocol):
    """What the gateway serves."""

    @property
    def vocab_size(self) -> int:
        """Token ids are below it."""
        ...

    def encode_messages(self, messages: Sequence[tuple[str, str]]) -> tuple[int, ...]:
        """Token ids of a chat, given as (role, text), ready for the next answer."""
        ...

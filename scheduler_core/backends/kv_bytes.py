"""KV as it leaves the process: the bytes of one block, and the facts that say whose they are."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import Any, Protocol, runtime_checkable

SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True)
class KVBytes:
    """One block's KV: its element type by safetensors' name, its shape, and its values in C order."""

    dtype: str
    shape: tuple[int, ...]
    data: bytes


@dataclass(frozen=True, slots=True)
class KVFormat:
    """What besides tokens, salt and adapter determines a block's bytes; `rope` is canonical JSON, `layout` in words."""

    weights_digest: str
    tokenizer_digest: str
    dtype: str
    layers: int
    kv_heads: int
    head_size: int
    rope: str
    block_size: int
    layout: str

    @property
    def namespace(self) -> str:
        """`kv1:` and 16 hex digits: the same in every process that computes the same KV, and only there."""
        facts = json.dumps({"schema_version": SCHEMA_VERSION, **asdict(self)}, sort_keys=True, separators=(",", ":"))
        return f"kv{SCHEMA_VERSION}:{sha256(facts.encode()).hexdigest()[:16]}"


@runtime_checkable
class KVPacker(Protocol):
    """What a store asks of a runner besides `copy_out` and `copy_in`."""

    def kv_format(self) -> KVFormat:
        """Facts about the KV of the run that `allocate` began."""
        ...

    def pack(self, saved: Any) -> list[KVBytes]:
        """One value for each block of what `copy_out` returned."""
        ...

    def unpack(self, block: KVBytes) -> Any:
        """What `copy_in` takes, for a single block; raises `CopyError` for another type or shape."""
        ...

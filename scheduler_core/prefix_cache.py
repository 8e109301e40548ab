"""Finds blocks by content: chained keys, exact comparison of tokens, nothing about who uses a block."""

from __future__ import annotations

import hashlib
import json
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

from scheduler_core.laws import BrokenLaw, Law


class CacheNamespace(NamedTuple):
    """What besides the tokens determines KV; requests of different namespaces never share a block."""

    weights: str
    dtype: str
    block_size: int
    salt: str
    adapter: str

    def digest(self) -> bytes:
        return hashlib.sha256(json.dumps(list(self)).encode()).digest()


KeyFunction = Callable[[bytes, Sequence[int], bytes], bytes]
ROOT = b""


def block_key(parent: bytes, token_ids: Sequence[int], namespace: bytes) -> bytes:
    """sha256(parent key, token ids as little-endian u32, namespace): the same in every process."""
    tokens = array("I", token_ids)
    if tokens.itemsize != 4:
        raise RuntimeError("array('I') does not hold 4-byte integers on this platform")
    if _BIG_ENDIAN:
        tokens.byteswap()
    return hashlib.sha256(parent + tokens.tobytes() + namespace).digest()


_BIG_ENDIAN = array("I", [1]).tobytes()[0] != 1


@dataclass(eq=False, slots=True)
class CacheEntry:
    """One content: these tokens after that parent. `blocks` hold it, oldest first; the same content may stand twice."""

    key: bytes
    parent: CacheEntry | None
    token_ids: tuple[int, ...]
    namespace: CacheNamespace
    blocks: dict[int, None] = field(default_factory=dict)


class PrefixCache:
    """Published blocks by key. A key that collides is a miss, because parent, tokens and namespace are compared."""

    def __init__(self, key_function: KeyFunction = block_key) -> None:
        self.key_function = key_function
        self._by_key: dict[bytes, list[CacheEntry]] = {}
        self._by_block: dict[int, CacheEntry] = {}
        self._digest = lru_cache(maxsize=256)(CacheNamespace.digest)

    def __getstate__(self) -> dict[str, Any]:
        """For checkpoints: a chain of parents is too deep to be followed, so entries name theirs by number."""
        entries = list({id(entry): entry for entries in self._by_key.values() for entry in entries}.values())
        number = {id(entry): i for i, entry in enumerate(entries)}
        rows = [
            (e.key, -1 if e.parent is None else number[id(e.parent)], e.token_ids, e.namespace, tuple(e.blocks))
            for e in entries
        ]
        order = [(block_id, number[id(entry)]) for block_id, entry in self._by_block.items()]
        return {"key_function": self.key_function, "rows": rows, "order": order}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["key_function"])  # type: ignore[misc]
        entries = [
            CacheEntry(key, None, token_ids, namespace, dict.fromkeys(blocks))
            for key, _, token_ids, namespace, blocks in state["rows"]
        ]
        for entry, (_, parent, *_rest) in zip(entries, state["rows"], strict=True):
            entry.parent = None if parent < 0 else entries[parent]
            self._by_key.setdefault(entry.key, []).append(entry)
        self._by_block = {block_id: entries[number] for block_id, number in state["order"]}

    def __len__(self) -> int:
        """Published blocks."""
        return len(self._by_block)

    def holds(self, block_id: int) -> bool:
        return block_id in self._by_block

    def entry(self, block_id: int) -> CacheEntry:
        return self._by_block[block_id]

    def published_blocks(self) -> tuple[int, ...]:
        return tuple(sorted(self._by_block))

    def extend_keys(
        self, keys: list[bytes], token_ids: Sequence[int], block_size: int, namespace: CacheNamespace
    ) -> None:
        """Grow `keys` to one for every full block of `token_ids`."""
        full = len(token_ids) // block_size
        if len(keys) >= full:
            return
        digest = self._digest(namespace)
        for i in range(len(keys), full):
            parent = keys[-1] if keys else ROOT
            keys.append(self.key_function(parent, token_ids[i * block_size : (i + 1) * block_size], digest))

    def lookup(
        self,
        keys: Sequence[bytes],
        token_ids: Sequence[int],
        block_size: int,
        namespace: CacheNamespace,
        max_blocks: int,
    ) -> list[int]:
        """Blocks that hold the longest published prefix, at most `max_blocks`; changes nothing."""
        found: list[int] = []
        parent: CacheEntry | None = None
        for i in range(min(max_blocks, len(keys))):
            tokens = tuple(token_ids[i * block_size : (i + 1) * block_size])
            entry = self._find(keys[i], parent, tokens, namespace)
            if entry is None:
                break
            found.append(next(iter(entry.blocks)))
            parent = entry
        return found

    def publish(
        self,
        block_id: int,
        key: bytes,
        parent_block: int | None,
        token_ids: tuple[int, ...],
        namespace: CacheNamespace,
    ) -> CacheEntry:
        """Make a full, computed block findable; its parent has to be published."""
        assert block_id not in self._by_block, f"block {block_id} is published already"
        parent = None if parent_block is None else self._by_block[parent_block]
        entry = self._find(key, parent, token_ids, namespace)
        if entry is None:
            entry = CacheEntry(key, parent, token_ids, namespace)
            self._by_key.setdefault(key, []).append(entry)
        entry.blocks[block_id] = None
        self._by_block[block_id] = entry
        return entry

    def evict(self, block_id: int) -> CacheEntry:
        """Forget one block; other blocks of the same content stay findable."""
        entry = self._by_block.pop(block_id)
        del entry.blocks[block_id]
        if not entry.blocks:
            same_key = self._by_key[entry.key]
            same_key.remove(entry)
            if not same_key:
                del self._by_key[entry.key]
        return entry

    def _find(
        self, key: bytes, parent: CacheEntry | None, token_ids: tuple[int, ...], namespace: CacheNamespace
    ) -> CacheEntry | None:
        for entry in self._by_key.get(key, ()):
            if entry.parent is parent and entry.token_ids == token_ids and entry.namespace == namespace:
                return entry
        return None

    def check_integrity(self) -> None:
        """Every entry has blocks, a key that matches, and a parent that is present."""
        for block_id, entry in self._by_block.items():
            if block_id not in entry.blocks or entry not in self._by_key.get(entry.key, ()):
                raise BrokenLaw(Law.CHAIN, f"block {block_id} is published but cannot be found")
            parent_key = entry.parent.key if entry.parent else ROOT
            if entry.key != self.key_function(parent_key, entry.token_ids, entry.namespace.digest()):
                raise BrokenLaw(Law.CHAIN, f"the key of block {block_id} does not match its tokens")
            if entry.parent is not None and not entry.parent.blocks:
                raise BrokenLaw(Law.CHAIN, f"the parent of block {block_id} is gone, so nobody can find it any more")
        if sum(len(entries) for entries in self._by_key.values()) != len({id(e) for e in self._by_block.values()}):
            raise BrokenLaw(Law.CHAIN, "a content can be found that no block holds")

"""Chains of made-up blocks whose content says which block it is."""

from __future__ import annotations

from scheduler_core.backends.kv_bytes import KVBytes
from scheduler_core.prefix_cache import block_key
from scheduler_core.storage.block import BlockAddress

NAMESPACE = "kv1:0123456789abcdef"


def chain(length: int, first_token: int = 0, namespace: str = NAMESPACE) -> list[BlockAddress]:
    made: list[BlockAddress] = []
    for i in range(length):
        parent = made[-1].key if made else b""
        tokens = tuple(range(first_token + 4 * i, first_token + 4 * i + 4))
        made.append(BlockAddress(namespace, block_key(parent, tokens, b"salt"), parent, tokens))
    return made


def kv(address: BlockAddress, size: int = 1_000) -> KVBytes:
    return KVBytes("float32", (size, 1), (address.key * size)[: 4 * size])


def blocks(addresses: list[BlockAddress], size: int = 1_000) -> list[tuple[BlockAddress, KVBytes]]:
    return [(address, kv(address, size)) for address in addresses]

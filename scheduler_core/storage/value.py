"""A stored block as safetensors bytes whose metadata says which block it is; whatever does not agree is unusable."""

from __future__ import annotations

import ctypes
import json
from hashlib import sha256

from scheduler_core.backends.kv_bytes import KVBytes
from scheduler_core.storage.block import BlockAddress

_TENSOR = "kv"
#: safetensors' name in a file -> its name in the interface.
_DTYPES = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "U64": "uint64"}
#: The most that is read as a header; ours have some hundred bytes and ten for each token.
_MAX_HEADER = 1 << 20


class Unusable(Exception):
    """The bytes are not the block asked for, or damaged; the message says what disagrees."""


def encode(address: BlockAddress, kv: KVBytes) -> bytes:
    """The value that a store keeps under the name of `address`."""
    from safetensors import TensorSpec, serialize

    metadata = {
        "namespace": address.namespace,
        "key": address.key.hex(),
        "parent": address.parent.hex(),
        "token_ids": _joined(address.token_ids),
        "digest": _digest(address, kv),
    }
    pointer = ctypes.cast(ctypes.c_char_p(kv.data), ctypes.c_void_p).value or 0
    spec = TensorSpec(dtype=kv.dtype, shape=list(kv.shape), data_ptr=pointer, data_len=len(kv.data))
    return bytes(serialize({_TENSOR: spec}, metadata))


def decode(address: BlockAddress, value: bytes) -> KVBytes:
    """The KV in `value`, all of it verified; raises `Unusable`."""
    metadata = _metadata(value)
    wanted = {"namespace": address.namespace, "key": address.key.hex(), "parent": address.parent.hex()}
    wanted["token_ids"] = _joined(address.token_ids)
    for name, expected in wanted.items():
        if metadata.get(name) != expected:
            raise Unusable(f"it is of another block: its {name} differs")
    kv = _tensor(value)
    if metadata.get("digest") != _digest(address, kv):
        raise Unusable("its digest does not match its content")
    return kv


def _metadata(value: bytes) -> dict[str, str]:
    size = int.from_bytes(value[:8], "little")
    if size > min(_MAX_HEADER, len(value) - 8):
        raise Unusable("its header is cut off")
    try:
        metadata = json.loads(value[8 : 8 + size])["__metadata__"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise Unusable("its header cannot be read") from None
    if not isinstance(metadata, dict):
        raise Unusable("its header has no metadata")
    return metadata


def _tensor(value: bytes) -> KVBytes:
    from safetensors import SafetensorError, deserialize

    try:
        tensors = dict(deserialize(value))  # type: ignore[no-untyped-call]
    except SafetensorError as problem:
        raise Unusable(f"it is no safetensors value ({problem})") from None
    tensor = tensors.get(_TENSOR)
    if tensor is None or len(tensors) != 1 or tensor["dtype"] not in _DTYPES:
        raise Unusable("it does not hold one tensor of KV")
    return KVBytes(_DTYPES[tensor["dtype"]], tuple(tensor["shape"]), bytes(tensor["data"]))


def _digest(address: BlockAddress, kv: KVBytes) -> str:
    digest = sha256(json.dumps([*address.name.split(":"), address.parent.hex(), _joined(address.token_ids)]).encode())
    digest.update(json.dumps([kv.dtype, list(kv.shape)]).encode())
    digest.update(kv.data)
    return digest.hexdigest()


def _joined(token_ids: tuple[int, ...]) -> str:
    return ",".join(map(str, token_ids))

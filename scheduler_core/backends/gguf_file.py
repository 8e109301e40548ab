"""The header of a GGUF file: its metadata, and where each tensor stands. Knows nothing about models.

Layout (little-endian): magic, version, counts, metadata, tensor infos, padding to `general.alignment`, tensor data.
"""

from __future__ import annotations

import mmap
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scheduler_core.errors import ModelError

_MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
_DEFAULT_ALIGNMENT = 32
_MOST_ITEMS = 100_000_000


@dataclass(frozen=True, slots=True)
class GGUFTensor:
    """One tensor: `shape` rows first, as in a state dict; ggml's number of its type; `offset` from the file's start."""

    name: str
    shape: tuple[int, ...]
    ggml_type: int
    offset: int


@dataclass(frozen=True, slots=True)
class GGUFFile:
    """What the header says; arrays are lists."""

    path: Path
    metadata: dict[str, Any]
    tensors: tuple[GGUFTensor, ...]

    def get(self, key: str, default: Any = None) -> Any:
        """A metadata value; "{arch}" in the key stands for the file's architecture."""
        return self.metadata.get(key.replace("{arch}", self.architecture), default)

    @property
    def architecture(self) -> str:
        return str(self.metadata.get("general.architecture", ""))


def read_header(path: Path) -> GGUFFile:
    """Read the header only; raises `ModelError` when it is foreign or cut short."""
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _Cursor(path, data).header()
    except (struct.error, UnicodeDecodeError, OverflowError) as problem:
        raise ModelError(f"{path} is damaged: its GGUF header cannot be read ({problem}); fetch it again") from None
    except (OSError, ValueError) as problem:  # an empty file cannot be mapped
        raise ModelError(f"cannot read {path}: {problem}") from None


class _Cursor:
    """Reads values one after another."""

    def __init__(self, path: Path, data: mmap.mmap) -> None:
        self.path = path
        self.data = data
        self.at = 0

    def header(self) -> GGUFFile:
        if self.data[:4] != _MAGIC:
            raise ModelError(f"{self.path} is not a GGUF file: it does not begin with {_MAGIC.decode()}")
        self.at = 4
        version = self.scalar("I")
        if version not in _VERSIONS:
            raise ModelError(f"{self.path} has GGUF version {version}; this program reads versions 2 and 3")
        num_tensors, num_metadata = self.count(), self.count()
        metadata = {self.string(): self.value(self.scalar("I")) for _ in range(num_metadata)}
        infos = [self.tensor_info() for _ in range(num_tensors)]
        start = _aligned(self.at, int(metadata.get("general.alignment", _DEFAULT_ALIGNMENT)))
        tensors = tuple(GGUFTensor(name, shape, kind, start + offset) for name, shape, kind, offset in infos)
        return GGUFFile(self.path, metadata, tensors)

    def scalar(self, code: str) -> Any:
        (value,) = struct.unpack_from("<" + code, self.data, self.at)
        self.at += struct.calcsize("<" + code)
        return value

    def count(self) -> int:
        number = int(self.scalar("Q"))
        if number > _MOST_ITEMS:
            raise ModelError(f"{self.path} is damaged: its GGUF header announces {number} items; fetch it again")
        return number

    def string(self) -> str:
        length = self.count()
        raw = self.data[self.at : self.at + length]
        if len(raw) < length:
            raise ModelError(f"{self.path} is damaged: its GGUF header is cut short; fetch it again")
        self.at += length
        return raw.decode("utf-8")

    def value(self, kind: int) -> Any:
        if kind == _STRING:
            return self.string()
        if kind == _ARRAY:
            item, length = self.scalar("I"), self.count()
            if item in _SCALARS:
                return self.scalars(_SCALARS[item], length)
            return [self.value(item) for _ in range(length)]
        if kind not in _SCALARS:
            raise ModelError(f"{self.path} is damaged: its GGUF header has a value of unknown type {kind}")
        return self.scalar(_SCALARS[kind])

    def scalars(self, code: str, length: int) -> list[Any]:
        layout = f"<{length}{code}"
        values = list(struct.unpack_from(layout, self.data, self.at))
        self.at += struct.calcsize(layout)
        return values

    def tensor_info(self) -> tuple[str, tuple[int, ...], int, int]:
        name = self.string()
        dims = [self.scalar("Q") for _ in range(self.scalar("I"))]
        return name, tuple(reversed(dims)), self.scalar("I"), self.scalar("Q")


def _aligned(position: int, alignment: int) -> int:
    return -(-position // max(alignment, 1)) * max(alignment, 1)

"""A folder of weights, checked before it is loaded: what is wrong is told by the name of its file."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from scheduler_core.backends.model_cache import file_digest
from scheduler_core.errors import ModelError


def check_folder(folder: Path) -> str:
    """The digest of a folder's config and weights; raises `ModelError` naming the file that is wrong."""
    config = read_json(folder / "config.json")
    if config.get("model_type") != "llama":
        raise ModelError(
            f"{folder} holds a model of type {config.get('model_type')!r}; only the Llama architecture can be run"
        )
    if config.get("quantization_config"):
        raise ModelError(f"{folder} holds quantised weights; give it as a .gguf file or with plain safetensors")
    if not any((folder / name).is_file() for name in ("tokenizer.json", "tokenizer.model")):
        raise ModelError(f"{folder} has no tokenizer.json; put the model's tokenizer there")
    files = _weight_files(folder)
    for file in files:
        _check_safetensors(file)
    return _digest_of([folder / "config.json", *files])


def _weight_files(folder: Path) -> list[Path]:
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        shards = read_json(index).get("weight_map")
        if not isinstance(shards, dict) or not shards:
            raise ModelError(f"{index} is damaged: it has no weight_map; fetch the model again")
        return [folder / str(name) for name in sorted(set(shards.values()))]
    if (folder / "model.safetensors").is_file():
        return [folder / "model.safetensors"]
    raise ModelError(f"{folder} has no model.safetensors; weights are needed in that format")


def _check_safetensors(file: Path) -> None:
    """Compare the size of a file with what its header announces."""
    try:
        size = file.stat().st_size
        with file.open("rb") as opened:
            (length,) = struct.unpack("<Q", opened.read(8))
            header = json.loads(opened.read(min(length, size)))
        needed = 8 + length + max(entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__")
    except OSError as problem:
        raise ModelError(f"cannot read {file}: {problem.strerror or problem}; fetch the model again") from None
    except (struct.error, ValueError, KeyError, TypeError, AttributeError, IndexError):
        raise ModelError(f"{file} is damaged: its header cannot be read; fetch the model again") from None
    if size != needed:
        raise ModelError(
            f"{file} is damaged: it has {size} bytes and its header announces {needed}; fetch the model again"
        )


def _digest_of(files: Sequence[Path]) -> str:
    digest = hashlib.sha256()
    for file in files:
        file_digest(file, into=digest)
    return digest.hexdigest()


def read_json(path: Path) -> dict[str, Any]:
    try:
        plain = json.loads(path.read_bytes())
    except OSError as problem:
        raise ModelError(f"cannot read {path}: {problem.strerror or problem}; is this a model's folder?") from None
    except ValueError as problem:
        raise ModelError(f"{path} is damaged: not valid JSON ({problem}); fetch the model again") from None
    if not isinstance(plain, dict):
        raise ModelError(f"{path} is damaged: it holds no object; fetch the model again")
    return plain

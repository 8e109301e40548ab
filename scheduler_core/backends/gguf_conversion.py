"""Turns a Llama-architecture GGUF file into a folder of config, tokenizer and fp32 safetensors, tensor by tensor.

Needs numpy, tokenizers and gguf (for its tables of quantised formats), but neither torch nor transformers.
"""

from __future__ import annotations

import json
import math
import re
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

from scheduler_core.backends.gguf_file import GGUFFile, GGUFTensor, read_header
from scheduler_core.backends.model_cache import Progress
from scheduler_core.errors import ModelError

_CONTROL, _USER_DEFINED = 3, 4
_OUTER_NAMES = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
_LAYER_NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
#: How words are cut before the merges, by the file's `tokenizer.ggml.pre`.
_LLAMA3_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
    r"\s*[\r\n]+|\s+(?!\S)|\s+"
)


def read_supported(path: Path) -> GGUFFile:
    """The header of a file that can be converted; raises `ModelError` saying what stands against it."""
    header = read_header(path)
    _check_architecture(header)
    _check_size(header)
    return header


def convert(
    header: GGUFFile, target: Path, progress: Progress, write_sentencepiece: Callable[[Path, Path], None]
) -> None:
    """Write config.json, the tokenizer's files and model.safetensors into the folder `target`.

    `write_sentencepiece(source, target)` is asked to write a tokenizer of that older kind.
    """
    progress(0.02, "reading the tokenizer")
    _write_tokenizer(header, target, write_sentencepiece)
    config = _config(header)
    (target / "config.json").write_text(json.dumps(config, indent=1), encoding="utf-8")
    (target / "generation_config.json").write_text(json.dumps(_generation_config(config), indent=1), encoding="utf-8")
    _write_safetensors(header, config, target / "model.safetensors", progress)
    progress(0.97, "checking and keeping the converted model")


def _check_architecture(header: GGUFFile) -> None:
    if header.architecture != "llama":
        raise ModelError(
            f"{header.path} holds a model of architecture {header.architecture!r}; only 'llama' can be run"
        )
    names = {tensor.name for tensor in header.tensors}
    if header.get("{arch}.rope.scaling.type", "none") != "none" or "rope_freqs.weight" in names:
        raise ModelError(f"{header.path} uses scaled RoPE, which is read only from a folder with config.json")
    if header.get("{arch}.expert_count", 0):
        raise ModelError(f"{header.path} holds a mixture of experts; only plain Llama models can be run")
    if "token_embd.weight" not in names or not isinstance(header.get("{arch}.attention.head_count"), int):
        raise ModelError(f"{header.path} is damaged: it lacks the embedding or the model's sizes; fetch it again")


def _check_size(header: GGUFFile) -> None:
    """Compare the file's size with where its last tensor ends."""
    needed = max(tensor.offset + _num_bytes(header, tensor) for tensor in header.tensors)
    size = header.path.stat().st_size
    if size < needed:
        raise ModelError(
            f"{header.path} is damaged: it has {size} bytes and its header announces {needed}; fetch it again"
        )


def _num_bytes(header: GGUFFile, tensor: GGUFTensor) -> int:
    from gguf import GGML_QUANT_SIZES, GGMLQuantizationType

    try:
        block, bytes_a_block = GGML_QUANT_SIZES[GGMLQuantizationType(tensor.ggml_type)]
    except (ValueError, KeyError):
        raise ModelError(f"{header.path}: tensor {tensor.name} is of unknown type {tensor.ggml_type}") from None
    return math.prod(tensor.shape) // int(block) * int(bytes_a_block)


# --- config ------------------------------------------------------------------------------------------------------


def _config(header: GGUFFile) -> dict[str, Any]:
    heads, hidden = header.get("{arch}.attention.head_count"), header.get("{arch}.embedding_length")
    head_dim = header.get("{arch}.attention.key_length") or hidden // heads
    if header.get("{arch}.rope.dimension_count", head_dim) != head_dim:
        raise ModelError(f"{header.path} rotates only a part of each head, which is not supported")
    names = {tensor.name for tensor in header.tensors}
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_act": "silu",
        "hidden_size": hidden,
        "intermediate_size": header.get("{arch}.feed_forward_length"),
        "num_hidden_layers": header.get("{arch}.block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": header.get("{arch}.attention.head_count_kv", heads),
        "head_dim": head_dim,
        "max_position_embeddings": header.get("{arch}.context_length"),
        "rms_norm_eps": header.get("{arch}.attention.layer_norm_rms_epsilon"),
        "rope_parameters": {"rope_type": "default", "rope_theta": header.get("{arch}.rope.freq_base", 10000.0)},
        "vocab_size": next(t.shape[0] for t in header.tensors if t.name == "token_embd.weight"),
        "attention_bias": "blk.0.attn_q.bias" in names,
        "mlp_bias": "blk.0.ffn_up.bias" in names,
        "tie_word_embeddings": "output.weight" not in names,
        "bos_token_id": header.get("tokenizer.ggml.bos_token_id"),
        "eos_token_id": _eos_token_ids(header),
        "pad_token_id": header.get("tokenizer.ggml.padding_token_id"),
        "dtype": "float32",
    }


def _eos_token_ids(header: GGUFFile) -> int | list[int] | None:
    """The end of text and, where the file tells them apart, the end of a turn."""
    keys = ("tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id")
    found = list(dict.fromkeys(header.metadata[key] for key in keys if key in header.metadata))
    return found if len(found) > 1 else next(iter(found), None)


def _generation_config(config: dict[str, Any]) -> dict[str, Any]:
    names = ("bos_token_id", "eos_token_id", "pad_token_id")
    return {name: config[name] for name in names if config[name] is not None}


# --- weights -----------------------------------------------------------------------------------------------------


def _write_safetensors(header: GGUFFile, config: dict[str, Any], path: Path, progress: Progress) -> None:
    """Write tensor after tensor, so that memory holds one at a time."""
    entries: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    position = 0
    for tensor in header.tensors:
        end = position + 4 * math.prod(tensor.shape)
        entries[_name(header, tensor)] = {"dtype": "F32", "shape": tensor.shape, "data_offsets": (position, end)}
        position = end
    table = json.dumps(entries, separators=(",", ":")).encode()
    table += b" " * (-len(table) % 8)
    total, done = max(position, 1), 0
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(table)) + table)
        for tensor in header.tensors:
            progress(0.1 + 0.85 * done / total, f"converting {header.path.stem}: {100 * done // total} %")
            file.write(_values(header, tensor, config).tobytes())
            done += 4 * math.prod(tensor.shape)


def _name(header: GGUFFile, tensor: GGUFTensor) -> str:
    """The name of a tensor in transformers' Llama."""
    if match := re.fullmatch(r"blk\.(\d+)\.(\w+)\.(weight|bias)", tensor.name):
        layer, inner, part = match.groups()
        if inner in _LAYER_NAMES:
            return f"model.layers.{layer}.{_LAYER_NAMES[inner]}.{part}"
    outer, _, part = tensor.name.partition(".")
    if outer in _OUTER_NAMES and part == "weight":
        return f"{_OUTER_NAMES[outer]}.{part}"
    raise ModelError(f"{header.path} has a tensor {tensor.name!r} that a Llama model does not have")


def _values(header: GGUFFile, tensor: GGUFTensor, config: dict[str, Any]) -> Any:
    """The fp32 array of a tensor in transformers' order of rows."""
    import numpy as np
    from gguf import GGMLQuantizationType, dequantize

    size = _num_bytes(header, tensor)
    raw = np.memmap(header.path, np.uint8, mode="r", offset=tensor.offset, shape=(size,))
    rows = math.prod(tensor.shape[:-1])
    try:
        values = dequantize(np.asarray(raw).reshape(rows, -1), GGMLQuantizationType(tensor.ggml_type))
    except NotImplementedError:
        kind = GGMLQuantizationType(tensor.ggml_type).name
        raise ModelError(
            f"{header.path}: tensor {tensor.name} is in the format {kind}, which is not supported"
        ) from None
    values = np.ascontiguousarray(values, dtype=np.float32).reshape(tensor.shape)
    if ".attn_q." in tensor.name:
        return _half_rotation(values, config["num_attention_heads"])
    if ".attn_k." in tensor.name:
        return _half_rotation(values, config["num_key_value_heads"])
    return values


def _half_rotation(values: Any, heads: int) -> Any:
    """Rows of each head from GGUF's order (RoPE turns neighbours) to transformers' (RoPE turns halves)."""
    return values.reshape(heads, -1, 2, *values.shape[1:]).swapaxes(1, 2).reshape(values.shape)


# --- tokenizer ---------------------------------------------------------------------------------------------------


def _write_tokenizer(header: GGUFFile, target: Path, write_sentencepiece: Callable[[Path, Path], None]) -> None:
    kind = header.get("tokenizer.ggml.model")
    if kind == "gpt2":
        _byte_level_bpe(header).save(str(target / "tokenizer.json"))
        facts = {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False}
        facts |= {"model_max_length": header.get("{arch}.context_length")} | _special_tokens(header)
        (target / "tokenizer_config.json").write_text(json.dumps(facts, indent=1), encoding="utf-8")
    elif kind == "llama":
        write_sentencepiece(header.path, target)
    else:
        raise ModelError(f"{header.path} has a tokenizer of kind {kind!r}; 'gpt2' and 'llama' can be read")
    if template := header.get("tokenizer.chat_template"):
        (target / "chat_template.jinja").write_text(template, encoding="utf-8")


def _byte_level_bpe(header: GGUFFile) -> Any:
    from tokenizers import AddedToken, Tokenizer, decoders, models

    tokens: list[str] = header.get("tokenizer.ggml.tokens")
    merges = [tuple(pair.split(" ", 1)) for pair in header.get("tokenizer.ggml.merges")]
    pre = header.get("tokenizer.ggml.pre", "default")
    vocabulary = {token: number for number, token in enumerate(tokens)}
    result = Tokenizer(models.BPE(vocab=vocabulary, merges=merges, ignore_merges=pre == "llama-bpe"))
    result.pre_tokenizer = _pre_tokenizer(header, pre)
    result.decoder = decoders.ByteLevel()
    types = header.get("tokenizer.ggml.token_type", [1] * len(tokens))
    result.add_special_tokens(
        [AddedToken(t, normalized=False) for t, k in zip(tokens, types, strict=True) if k == _CONTROL]
    )
    result.add_tokens(
        [AddedToken(t, normalized=False) for t, k in zip(tokens, types, strict=True) if k == _USER_DEFINED]
    )
    if header.get("tokenizer.ggml.add_bos_token", False):
        result.post_processor = _begin_of_text(header)
    return result


def _pre_tokenizer(header: GGUFFile, pre: str) -> Any:
    from tokenizers import Regex, pre_tokenizers

    if pre == "smollm":  # digits one by one, then GPT-2's words
        return pre_tokenizers.Sequence(
            [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
        )
    if pre in ("default", "gpt-2"):
        return pre_tokenizers.ByteLevel(add_prefix_space=False)
    if pre == "llama-bpe":
        words = pre_tokenizers.Split(Regex(_LLAMA3_WORDS), "isolated")
        return pre_tokenizers.Sequence([words, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    raise ModelError(
        f"{header.path} cuts words by the rules {pre!r}, which are not known here; use a folder of safetensors"
    )


def _begin_of_text(header: GGUFFile) -> Any:
    from tokenizers import processors

    number = header.get("tokenizer.ggml.bos_token_id")
    token = header.get("tokenizer.ggml.tokens")[number]
    return processors.TemplateProcessing(single=f"{token} $A", special_tokens=[(token, number)])


def _special_tokens(header: GGUFFile) -> dict[str, Any]:
    tokens = header.get("tokenizer.ggml.tokens")
    names = {"bos_token": "bos", "eos_token": "eos", "unk_token": "unknown", "pad_token": "padding"}
    numbers = {name: header.get(f"tokenizer.ggml.{key}_token_id") for name, key in names.items()}
    return {name: tokens[number] for name, number in numbers.items() if number is not None}

"""A random Llama of a few thousand parameters, as a folder and as a GGUF file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
LAYERS, HIDDEN, HEADS, KV_HEADS, MLP, CONTEXT = 2, 32, 4, 2, 64, 256
MERGES = [("h", "e"), ("l", "l"), ("he", "ll"), ("Ġ", "w"), ("1", "2")]


def vocabulary() -> list[str]:
    """Special tokens, all bytes as letters, and a few merges."""
    from tokenizers import pre_tokenizers

    return [*SPECIAL, *sorted(pre_tokenizers.ByteLevel.alphabet()), *("".join(pair) for pair in MERGES)]


def tiny_model(seed: int = 0) -> Any:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=len(vocabulary()),
        hidden_size=HIDDEN,
        intermediate_size=MLP,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        num_key_value_heads=KV_HEADS,
        max_position_embeddings=CONTEXT,
        rms_norm_eps=1e-5,
        initializer_range=0.4,  # wide, so that the best two candidates are far apart
        tie_word_embeddings=True,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=2,
    )
    return LlamaForCausalLM(config)


def save_tiny_folder(folder: Path, **save_options: Any) -> Path:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    tiny_model().save_pretrained(folder, **save_options)
    bpe = models.BPE(vocab={token: i for i, token in enumerate(vocabulary())}, merges=MERGES)
    tokenizer = Tokenizer(bpe)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(SPECIAL)
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token=SPECIAL[1], eos_token=SPECIAL[2])
    fast.chat_template = CHAT_TEMPLATE
    fast.save_pretrained(folder)
    return folder


def save_tiny_gguf(path: Path, quantised: bool = False, **changes: Any) -> Path:
    """The same model; `changes` overwrite metadata, e.g. `pre="smollm"` or `architecture="qwen2"`."""
    from gguf import GGMLQuantizationType, GGUFWriter, quants

    writer = GGUFWriter(path, changes.get("architecture", "llama"))
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(HIDDEN)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(MLP)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    if "rope_scaling" in changes:
        writer.add_rope_scaling_type(changes["rope_scaling"])
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(changes.get("pre", "gpt-2"))
    writer.add_token_list(vocabulary())
    writer.add_token_types([3 if token in SPECIAL else 1 for token in vocabulary()])
    writer.add_token_merges([" ".join(pair) for pair in MERGES])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_chat_template(CHAT_TEMPLATE)
    for name, values in _gguf_tensors(tiny_model()).items():
        if quantised and values.ndim == 2:
            kind = GGMLQuantizationType.Q4_1
            writer.add_tensor(name, quants.quantize(values, kind), raw_dtype=kind)
        else:
            writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _gguf_tensors(model: Any) -> dict[str, Any]:
    inner = {
        "input_layernorm": "attn_norm",
        "self_attn.q_proj": "attn_q",
        "self_attn.k_proj": "attn_k",
        "self_attn.v_proj": "attn_v",
        "self_attn.o_proj": "attn_output",
        "post_attention_layernorm": "ffn_norm",
        "mlp.gate_proj": "ffn_gate",
        "mlp.up_proj": "ffn_up",
        "mlp.down_proj": "ffn_down",
    }
    state = {name: tensor.detach().numpy() for name, tensor in model.state_dict().items()}
    found = {"token_embd.weight": state["model.embed_tokens.weight"], "output_norm.weight": state["model.norm.weight"]}
    for layer in range(LAYERS):
        for ours, theirs in inner.items():
            found[f"blk.{layer}.{theirs}.weight"] = state[f"model.layers.{layer}.{ours}.weight"]
        found[f"blk.{layer}.attn_q.weight"] = _neighbours(found[f"blk.{layer}.attn_q.weight"], HEADS)
        found[f"blk.{layer}.attn_k.weight"] = _neighbours(found[f"blk.{layer}.attn_k.weight"], KV_HEADS)
    return found


def _neighbours(values: Any, heads: int) -> Any:
    """Row i and row i + dim/2 of each head become neighbours, as GGUF's RoPE wants them."""
    dim = len(values) // heads
    order = [head * dim + half * (dim // 2) + i for head in range(heads) for i in range(dim // 2) for half in (0, 1)]
    return values[order]

"""The settings of a run in words for people, and the bounds that a page offers for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pages.components.plain import cut
from scheduler_core.config import BOUNDS, CHOICES, FIELD_NAMES, FLAGS, EngineConfig
from scheduler_core.cost_model import machine
from scheduler_core.errors import ConfigError

#: The stage draws every block and lane, so a page offers less than the core can take.
PAGE_BOUNDS: dict[str, tuple[int, int]] = BOUNDS | {
    "block_size": (1, 128),
    "num_blocks": (1, 1024),
    "max_num_batched_tokens": (1, 4096),
    "max_num_seqs": (1, 64),
    "max_model_len": (2, 8192),
    "chunk_size": (1, 4096),
    "chunk_target_ms": (1, 60_000),
    "quantum": (1, 1000),
    "aging": (0, 1000),
    "num_swap_blocks": (0, 4096),
    "watermark": (0, 1023),
    "seed": (0, 2**31 - 1),
}


@dataclass(frozen=True, slots=True)
class Field:
    """How a setting is shown."""

    label: str
    help: str


FIELDS: dict[str, Field] = {
    "quantum": Field("Quantum", "Ticks a request may compute before it must give way to one that waits."),
    "chunk_size": Field("Chunk size", "The most tokens of one prompt that enter a tick; a long prompt is cut up."),
    "policy": Field("Policy", "Who goes first: by arrival, by class, by feedback level, by work left, by prefix hit."),
    "max_num_seqs": Field("Lanes", "How many requests may run at once."),
    "max_num_batched_tokens": Field("Budget", "Tokens the model computes in one tick, over all lanes."),
    "enable_prefix_caching": Field(
        "Prefix cache", "Keep the KV of full blocks, so that an equal beginning is not computed again."
    ),
    "preemption_mode": Field("Preemption", "Save the KV to host memory and restore it, or compute it again."),
    "enable_chunked_prefill": Field("Chunked prefill", "Off: a prompt runs whole in one tick, even past the budget."),
    "cap_lone_request": Field(
        "Chunk a lone request", "Off (as in vLLM): no chunk cap while a single request is there."
    ),
    "block_size": Field("Block size", "Tokens in a block of KV memory."),
    "num_blocks": Field("KV blocks", "Blocks of KV memory."),
    "num_swap_blocks": Field("Host blocks", "Blocks of host memory for saved KV."),
    "watermark": Field("Watermark", "Blocks that an admission must leave free."),
    "max_model_len": Field("Longest sequence", "Prompt and output together, in tokens."),
    "aging": Field("Aging", "Ticks after which a waiting request rises by one class; 0 is off."),
    "mlfq_levels": Field("Feedback levels", "How far a request can fall under the feedback policy (mlfq)."),
    "priority_push_out": Field("Push-out", "A waiting request of a better class may push out a running one."),
    "batch_order": Field("Batch order", "Who takes the budget first: decodes, the order of admission, or prefills."),
    "mixed_batches": Field("Mixed batches", "Off: a tick is for prompts or for answers, in turn, and never for both."),
    "admission": Field("Admission", "When a prompt is let in: what memory must be free for it."),
    "chunk_control": Field(
        "Chunk control",
        "Fixed, or moved between ticks: by a PID that keeps a time near its target, or by a ramp that measures "
        "nothing. The chunk size above is then the largest.",
    ),
    "chunk_target_ms": Field("Target (ms)", "The time that chunk control keeps ticks, or gaps, near: its setpoint."),
    "chunk_signal": Field(
        "Target for",
        "What is measured: the virtual length of a tick, the ITL p99 over the last ticks, or the measured length of a "
        "tick of a live run.",
    ),
    "chunk_moves": Field("Moves", "What chunk control sets: the chunk size, or the budget of the whole tick."),
    "chunk_response": Field("Response", "How strongly it reacts; nervous overshoots and swings."),
    "seed": Field("Seed", "Starts every random draw; the same seed gives the same run."),
    "cost": Field("Clock", "How long a tick lasts in virtual time: unit (one second), or a named machine."),
}

CHOICE_LABELS: dict[str, str] = {
    "fcfs": "FCFS",
    "priority": "priority",
    "mlfq": "MLFQ",
    "shortest": "shortest",
    "longest_prefix": "prefix hit",
    "swap": "save KV",
    "recompute": "recompute",
    "decode_first": "decodes first",
    "running_order": "order of admission",
    "prefill_first": "prefills first",
    "whole_minus_promised": "whole, less promised",
    "whole_prompt": "whole prompt",
    "first_chunk": "first chunk",
    "when_empty": "only when empty",
    "fixed": "fixed",
    "pid": "adaptive (PID)",
    "ramp": "ramp",
    "tick": "a tick",
    "itl_p99": "ITL p99",
    "measured_tick": "a measured tick",
    "chunk": "the chunk size",
    "budget": "the budget",
}

PRESET_LABELS: dict[str, str] = {
    "": "as the scenario sets it",
    "tickscope": "Tickscope",
    "article": "the article",
    "vllm": "vLLM",
    "sarathi": "Sarathi",
    "static_batching": "static batching",
    "no_cache": "no cache",
}

#: What a preset promises, for people.
PRESET_NOTES: dict[str, str] = {
    "vllm": "decides as vLLM 0.33 does, checked on recorded runs; with one exception: a block that is being computed "
    "in the same tick is never hit here.",
}

OFF = "off"
_OPTIONAL = ("chunk_size", "quantum")


def show_value(field: str, value: Any) -> str:
    """A value for people: "8", "off", "save KV"."""
    if isinstance(value, bool):
        return "on" if value else OFF
    if value is None:
        return "the budget" if field == "chunk_size" else OFF
    return CHOICE_LABELS.get(str(value), str(value))


def value_to_text(field: str, value: Any) -> str:
    """A value as it stands in an address."""
    if field in FLAGS:
        return "on" if value else OFF
    return OFF if value is None else str(value)


def value_from_text(field: str, text: str) -> tuple[Any, str]:
    """The value written in an address and a message, "" if it was taken as it stands; raises `ConfigError`.

    A number past the bounds is moved to the nearest one.
    """
    value = EngineConfig.parse_field(field, text)
    if field in CHOICES and value not in CHOICES[field]:
        raise ConfigError(f"{field} is {cut(text)}; it must be one of {', '.join(CHOICES[field])}")
    if field == "cost":
        machine(value)
    if field not in PAGE_BOUNDS or value is None:
        return value, ""
    low, high = PAGE_BOUNDS[field]
    if low <= value <= high:
        return value, ""
    nearest = min(max(value, low), high)
    return (
        nearest,
        f"{FIELDS[field].label} was {cut(text)} in the link; it must be from {low} to {high}, so it is {nearest}.",
    )


def preset_config(preset: str, scenario_config: EngineConfig) -> EngineConfig:
    """The scheduler of a preset on the scenario's machine; "" is the scenario's own."""
    return scenario_config.with_preset(preset) if preset else scenario_config


assert set(FIELDS) == set(FIELD_NAMES)
assert set(FLAGS) < set(FIELDS)

"""`EngineConfig`: one frozen value that determines a run."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from scheduler_core.errors import ConfigError

POLICIES = ("fcfs", "priority", "mlfq", "shortest", "longest_prefix")
PREEMPTION_MODES = ("swap", "recompute")
BATCH_ORDERS = ("decode_first", "running_order", "prefill_first")
CHUNK_CONTROLS = ("fixed", "pid", "ramp")
CHUNK_SIGNALS = ("tick", "itl_p99", "measured_tick")
CHUNK_MOVES = ("chunk", "budget")
CHUNK_RESPONSES = ("calm", "usual", "nervous")
ADMISSION_RULES = ("whole_minus_promised", "whole_prompt", "first_chunk", "when_empty")

#: Fields that fix the layout of memory or the random state: they cannot change while a run goes on.
FIXED_FIELDS = ("block_size", "num_blocks", "max_model_len", "num_swap_blocks", "seed", "cost")

#: What a preset leaves alone, unless it names it.
_MACHINE_FIELDS = (
    "block_size",
    "num_blocks",
    "max_num_batched_tokens",
    "max_num_seqs",
    "max_model_len",
    "num_swap_blocks",
    "policy",
    "aging",
    "mlfq_levels",
    "seed",
    "cost",
)

_BOUNDS: dict[str, tuple[int, int]] = {
    "block_size": (1, 1024),
    "num_blocks": (1, 1_000_000),
    "max_num_batched_tokens": (1, 1_000_000),
    "max_num_seqs": (1, 10_000),
    "max_model_len": (2, 1_000_000),
    "chunk_size": (1, 1_000_000),
    "chunk_target_ms": (1, 600_000),
    "aging": (0, 1_000_000),
    "mlfq_levels": (1, 64),
    "quantum": (1, 1_000_000),
    "num_swap_blocks": (0, 1_000_000),
    "watermark": (0, 1_000_000),
    "seed": (0, 2**63 - 1),
}
_CHOICES: dict[str, tuple[str, ...]] = {
    "policy": POLICIES,
    "preemption_mode": PREEMPTION_MODES,
    "batch_order": BATCH_ORDERS,
    "admission": ADMISSION_RULES,
    "chunk_control": CHUNK_CONTROLS,
    "chunk_signal": CHUNK_SIGNALS,
    "chunk_moves": CHUNK_MOVES,
    "chunk_response": CHUNK_RESPONSES,
}
_OPTIONAL = ("chunk_size", "quantum")
_FLAGS = ("enable_chunked_prefill", "cap_lone_request", "enable_prefix_caching", "priority_push_out", "mixed_batches")

#: For forms that offer the settings: whole numbers with their bounds, words with their choices, switches.
BOUNDS, CHOICES, FLAGS = _BOUNDS, _CHOICES, _FLAGS


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """Everything that shapes a run besides its requests; sizes in tokens, blocks, lanes or ticks as named.

    With `chunk_control` the chunk size (or the budget, as `chunk_moves` says) is the upper end of a range in which it
    moves between ticks, so that the time named by `chunk_signal` stays near `chunk_target_ms`.

    Without `mixed_batches` a tick is for prompts or for decodes, in turn; `batch_order` then only orders each kind.
    """

    #: Fields that older files do not have: they are left out of a file where they have their default.
    LATER: ClassVar[tuple[str, ...]] = (
        "chunk_control",
        "chunk_target_ms",
        "chunk_signal",
        "chunk_moves",
        "chunk_response",
        "mixed_batches",
    )

    block_size: int = 16
    num_blocks: int = 64
    max_num_batched_tokens: int = 64
    max_num_seqs: int = 4
    max_model_len: int = 1024
    enable_chunked_prefill: bool = True
    chunk_size: int | None = 32
    cap_lone_request: bool = True
    enable_prefix_caching: bool = True
    policy: str = "fcfs"
    aging: int = 0
    mlfq_levels: int = 4
    priority_push_out: bool = True
    quantum: int | None = 8
    preemption_mode: str = "swap"
    num_swap_blocks: int = 128
    batch_order: str = "decode_first"
    admission: str = "whole_minus_promised"
    watermark: int = 0
    seed: int = 0
    cost: str = "unit"
    chunk_control: str = "fixed"
    chunk_target_ms: int = 50
    chunk_signal: str = "tick"
    chunk_moves: str = "chunk"
    chunk_response: str = "usual"
    mixed_batches: bool = True

    def __post_init__(self) -> None:
        for name, (low, high) in _BOUNDS.items():
            _check_int(name, getattr(self, name), low, high)
        for name in _FLAGS:
            if not isinstance(getattr(self, name), bool):
                raise ConfigError(f"{name} is {getattr(self, name)!r}; it must be true or false")
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                raise ConfigError(f"{name} is {getattr(self, name)!r}; it must be one of {', '.join(choices)}")
        if not isinstance(self.cost, str) or not self.cost:
            raise ConfigError(f"cost is {self.cost!r}; it must be 'unit' or the name of a machine")
        if self.max_num_batched_tokens < self.max_num_seqs:
            raise ConfigError(
                f"max_num_batched_tokens is {self.max_num_batched_tokens}; it must be at least "
                f"max_num_seqs ({self.max_num_seqs}), so that every lane can decode each tick"
            )
        if self.chunk_control == "pid" and self.cost == "unit" and self.chunk_signal != "measured_tick":
            raise ConfigError(
                "chunk_control is 'pid' and cost is 'unit', where every tick lasts one second whatever is in it; "
                "let cost be a machine, such as smollm2-cpu, or chunk_signal measured_tick"
            )
        if self.watermark >= self.num_blocks:
            raise ConfigError(f"watermark is {self.watermark}; it must be below num_blocks ({self.num_blocks})")

    @property
    def largest_chunk(self) -> int:
        """The most tokens of one request in a tick while chunked prefill is on."""
        if self.chunk_size is None:
            return self.max_num_batched_tokens
        return min(self.chunk_size, self.max_num_batched_tokens)

    def replace(self, **changes: Any) -> Self:
        """This configuration with some fields changed; unknown names raise `ConfigError`."""
        for name in changes:
            if name not in FIELD_NAMES:
                raise ConfigError(f"there is no setting {name!r}; the settings are {', '.join(FIELD_NAMES)}")
        return dataclasses.replace(self, **changes)

    def changed_from(self, other: EngineConfig) -> dict[str, tuple[Any, Any]]:
        """Field -> (value in `other`, value here), for the fields that differ."""
        pairs = ((name, getattr(other, name), getattr(self, name)) for name in FIELD_NAMES)
        return {name: (old, new) for name, old, new in pairs if old != new}

    @classmethod
    def preset(cls, name: str) -> Self:
        """A named configuration; see `PRESETS`."""
        if name not in PRESETS:
            raise ConfigError(f"there is no preset {name!r}; the presets are {', '.join(PRESETS)}")
        return cls(**PRESETS[name])

    def with_preset(self, name: str) -> Self:
        """The preset's way of scheduling, with sizes, policy and seed as here unless the preset names them."""
        preset = self.preset(name)
        kept = {field: getattr(self, field) for field in _MACHINE_FIELDS if field not in PRESETS[name]}
        return preset.replace(**kept)

    @classmethod
    def parse_setting(cls, text: str) -> tuple[str, Any]:
        """Name and value of a setting written FIELD=VALUE, as on a command line."""
        name, equals, value = text.partition("=")
        if not equals:
            raise ConfigError(f"{text!r} is not a setting; write FIELD=VALUE, such as quantum=4")
        return name, cls.parse_field(name, value)

    @classmethod
    def parse_field(cls, name: str, text: str) -> Any:
        """The value of field `name` written as `text`, as on a command line ("none", "true", "12", "swap")."""
        if name not in FIELD_NAMES:
            raise ConfigError(f"there is no setting {name!r}; the settings are {', '.join(FIELD_NAMES)}")
        word = text.strip().lower()
        if name in _FLAGS:
            if word in ("true", "on", "yes", "1"):
                return True
            if word in ("false", "off", "no", "0"):
                return False
            raise ConfigError(f"{name} is {text!r}; it must be true or false")
        if name not in _BOUNDS:
            return text.strip()
        if name in _OPTIONAL and word in ("none", "off"):
            return None
        try:
            return int(word)
        except ValueError:
            low, high = _BOUNDS[name]
            raise ConfigError(f"{name} is {text!r}; it must be a whole number from {low} to {high}") from None


FIELD_NAMES = tuple(f.name for f in dataclasses.fields(EngineConfig))

#: Preset name -> the fields in which it differs from the default.
PRESETS: dict[str, dict[str, Any]] = {
    "tickscope": {},
    "article": {"max_num_seqs": 1, "policy": "mlfq", "mlfq_levels": 64, "quantum": 4, "priority_push_out": False},
    "vllm": {
        "batch_order": "running_order",
        "admission": "whole_prompt",
        "preemption_mode": "recompute",
        "quantum": None,
        "priority_push_out": False,
        "chunk_size": None,
        "cap_lone_request": False,
    },
    "sarathi": {"batch_order": "decode_first", "chunk_size": None, "quantum": None},
    "static_batching": {"admission": "when_empty", "enable_chunked_prefill": False, "quantum": None},
    "no_cache": {"enable_prefix_caching": False},
}


def _check_int(name: str, value: object, low: int, high: int) -> None:
    if value is None and name in _OPTIONAL:
        return
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        also = " or none" if name in _OPTIONAL else ""
        raise ConfigError(f"{name} is {value!r}; it must be a whole number from {low} to {high}{also}")

"""The classic pairs: two ways to schedule, with a scenario in which the choice matters."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Side:
    """One way to schedule: its name, a preset, and the settings that differ from it."""

    name: str
    preset: str = ""
    changes: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Pair:
    """Two sides on one scenario, and what to look for."""

    title: str
    scenario: str
    first: Side
    second: Side
    look_for: str


PAIRS: dict[str, Pair] = {
    "chunked": Pair(
        "Chunked prefill, or whole prompts",
        "long_prompt_meets_chat",
        Side("chunks of 32 tokens"),
        Side("whole prompts", changes={"enable_chunked_prefill": False}),
        "R4 pastes a long report into three chats. In chunks, the chats go on; whole, one long tick stalls them all.",
    ),
    "cache": Pair(
        "Prefix cache, or none",
        "shared_system_prompt",
        Side("prefix cache on"),
        Side("prefix cache off", changes={"enable_prefix_caching": False}),
        "All send the same long instructions first. With the cache the later ones skip what was computed before.",
    ),
    "priority": Pair(
        "First come first served, or priority",
        "priorities",
        Side("first come, first served", changes={"policy": "fcfs"}),
        Side("priority"),
        "Slow jobs fill the lanes when urgent questions arrive: wait in line, or push a slow job out?",
    ),
    "quantum": Pair(
        "Short quantum, or long",
        "time_slices",
        Side("quantum of 2 ticks", changes={"quantum": 2}),
        Side("quantum of 8 ticks", changes={"quantum": 8}),
        "Short slices let everybody start early, with many moves; long ones move little, and the last waits long.",
    ),
    "swap": Pair(
        "Save the KV, or compute it again",
        "memory_pressure",
        Side("save the KV (swap)"),
        Side("recompute", changes={"preemption_mode": "recompute"}),
        "Memory runs short and somebody has to leave. Is the KV kept on the host, or computed again?",
    ),
    "vllm": Pair(
        "Tickscope, or vLLM",
        "time_slices",
        Side("Tickscope", preset="tickscope"),
        Side("vLLM", preset="vllm"),
        "vLLM lets a request run to its end, in the order of admission; Tickscope gives time slices.",
    ),
    "batching": Pair(
        "Static batching, or continuous",
        "first_steps",
        Side("static batching", preset="static_batching"),
        Side("continuous batching", preset="sarathi"),
        "A static batch takes nobody in until all in it have finished; a continuous one fills every lane at once.",
    ),
}

DEFAULT_PAIR = "chunked"

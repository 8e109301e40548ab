"""What a client asks of the engine, and how long and how often the engine tries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from scheduler_core.request import SamplingParams


@dataclass(frozen=True, slots=True)
class Ask:
    """A request without an id; `timeout_s` None takes the server's.

    `arrived` is when it came on the clock `time.monotonic`, before it was read and cut into tokens; None means now.
    `attempt` is the number of the first attempt that is made here: above 1 where earlier ones failed elsewhere.
    `endpoint` and `body` are what the client sent, kept in the dead letters if every attempt fails.
    """

    prompt_token_ids: tuple[int, ...]
    sampling: SamplingParams
    prompt: str = ""
    priority: int = 0
    salt: str = ""
    timeout_s: float | None = None
    arrived: float | None = None
    attempt: int = 1
    endpoint: str = ""
    body: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ServingLimits:
    """How much waits, how long anything may take (seconds), and how often a failed call of the model is made again.

    The pause before attempt n + 1 is `backoff_s * 2 ** (n - 1)` and up to `jitter_s` more, at most `backoff_max_s`.
    `stall_s` is how long one tick may take before those in it are tried again.
    """

    max_waiting: int = 256
    request_timeout_s: float = 600.0
    stall_s: float = 120.0
    attempts: int = 3
    backoff_s: float = 0.2
    backoff_max_s: float = 5.0
    jitter_s: float = 0.2
    drain_s: float = 30.0

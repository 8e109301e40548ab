"""What both clients send: prompts in text, output lengths, and a rate."""

from __future__ import annotations

import json
from dataclasses import dataclass

from scheduler_core.bench.engine.workloads import ferry_log
from scheduler_core.load.checks import check_choice, check_number, check_whole

BACKENDS = ("model", "synthetic")
_SHORTEST, _LONGEST = 6, 18


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt, and how long its answer is."""

    text: str
    max_tokens: int


@dataclass(frozen=True, slots=True)
class ClientPlan:
    """`requests` for each client in each of `rounds` turns, a Poisson process of `rate` a second.

    Prompts are reports of about 120 to 360 tokens, no two alike; nothing of them is cached.
    """

    requests: int = 30
    rate: float = 0.8
    output_tokens: int = 48
    rounds: int = 2
    seed: int = 0
    backend: str = "model"

    def __post_init__(self) -> None:
        check_whole("requests", self.requests, 2, 10_000)
        check_number("rate", self.rate, 0.01, 1_000)
        check_whole("output_tokens", self.output_tokens, 2, 1_000)
        check_whole("rounds", self.rounds, 1, 20)
        check_whole("seed", self.seed, 0, 2**31)
        check_choice("backend", self.backend, BACKENDS)

    def prompts(self, turn: int) -> tuple[Prompt, ...]:
        """Those of one turn, the same for both clients."""
        first = (self.seed * self.rounds + turn) * self.requests
        return tuple(
            Prompt(f"Report {number}. {ferry_log(_days(number), number)}", self.output_tokens)
            for number in range(first, first + self.requests)
        )


def _days(number: int) -> int:
    return _SHORTEST + number * 5 % (_LONGEST - _SHORTEST + 1)


def as_lines(prompts: tuple[Prompt, ...]) -> str:
    """The file of prompts that vLLM's client reads."""
    return "".join(json.dumps({"prompt": each.text, "output_tokens": each.max_tokens}) + "\n" for each in prompts)

"""What a tick costs by the number of tokens in it, and the knee, from which on arithmetic and not memory bounds it."""

from __future__ import annotations

from dataclasses import dataclass

from scheduler_core.cost_model import MACHINES, Machine, Work, bounds

#: Tokens before each decode.
CONTEXT = 512
#: The largest tick that is looked at.
LARGEST = 4_096
SIZES = tuple(1 << n for n in range(13))

#: The machines whose ticks depend on what is in them.
REAL = tuple(name for name, machine in MACHINES.items() if machine.model.layers)


@dataclass(frozen=True, slots=True)
class Cost:
    """A tick of `tokens` tokens: its seconds, and those that arithmetic and memory traffic need of them."""

    tokens: int
    seconds: float
    compute_s: float
    memory_s: float

    @property
    def bound_by(self) -> str:
        return "compute" if self.compute_s >= self.memory_s else "memory"


def prefill(tokens: int) -> Work:
    """One chunk from the beginning of a prompt, and no token drawn."""
    return Work(tokens, 0, tokens * (tokens + 1) // 2, 2 * tokens)


def decodes(count: int) -> Work:
    """The next token of so many answers."""
    return Work(count, count, count * (CONTEXT + 1), count * (CONTEXT + 2))


def cost(work: Work, machine: Machine) -> Cost:
    compute, memory = bounds(work, machine)
    return Cost(work.tokens, max(compute, memory) + machine.overhead_s, compute, memory)


def knee(machine: Machine) -> int:
    """The smallest chunk whose arithmetic takes as long as its memory traffic; `LARGEST` if none does."""
    low, high = 1, LARGEST
    while low < high:
        middle = (low + high) // 2
        if cost(prefill(middle), machine).bound_by == "compute":
            high = middle
        else:
            low = middle + 1
    return low

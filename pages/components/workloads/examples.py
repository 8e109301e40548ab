"""Loads to begin with: made by our own generator, so nobody's data travels with the app."""

from __future__ import annotations

from dataclasses import dataclass, replace

from scheduler_core.bench.load.plan import at_rate
from scheduler_core.load.config import LoadConfig, Tenant
from scheduler_core.load.lengths import Lengths


@dataclass(frozen=True, slots=True)
class Example:
    """A load with its name and what to look for; its rate is one for a large GPU."""

    title: str
    text: str
    load: LoadConfig


EXAMPLES: dict[str, Example] = {
    "chat": Example(
        "Chat",
        "Questions of a few hundred tokens, answers about as long, arrivals at random (Poisson).",
        LoadConfig(
            num_requests=300,
            rate=10.0,
            prompt=Lengths("lognormal", 8, 4_000, 400.0, 0.9),
            output=Lengths("lognormal", 4, 600, 120.0, 0.7),
        ),
    ),
    "documents": Example(
        "Long prompts among chat",
        "Now and then somebody sends a whole document. Watch the gaps between the tokens of all the others.",
        LoadConfig(
            num_requests=240,
            rate=6.0,
            prompt=Lengths("lognormal", 16, 16_000, 1_600.0, 1.5),
            output=Lengths("lognormal", 4, 500, 100.0, 0.6),
        ),
    ),
    "bursts": Example(
        "Bursts",
        "Five seconds of rush, ten of hardly anybody. Watch the queue fill and drain.",
        LoadConfig(
            num_requests=300,
            arrivals="onoff",
            rate=40.0,
            on_s=5.0,
            off_s=10.0,
            off_rate=1.0,
            prompt=Lengths("lognormal", 8, 4_000, 700.0, 0.8),
            output=Lengths("lognormal", 4, 500, 100.0, 0.6),
        ),
    ),
    "prefixes": Example(
        "Shared beginnings",
        "Forty system prompts, some far more popular than others. Watch the prefix cache.",
        LoadConfig(
            num_requests=300,
            rate=10.0,
            prompt=Lengths("lognormal", 8, 1_000, 120.0, 0.8),
            output=Lengths("lognormal", 4, 400, 80.0, 0.6),
            prefix_groups=40,
            prefix_tokens=1_024,
            prefix_skew=0.8,
        ),
    ),
    "tenants": Example(
        "Three tenants",
        "One tenant sends most of the requests. Watch whether the others wait for it.",
        LoadConfig(
            num_requests=300,
            rate=14.0,
            prompt=Lengths("lognormal", 8, 6_000, 900.0, 0.9),
            output=Lengths("lognormal", 4, 500, 120.0, 0.6),
            tenants=(Tenant("large", 8.0, 1), Tenant("medium", 2.0, 1), Tenant("small", 1.0, 0)),
        ),
    ),
}
DEFAULT_EXAMPLE = "chat"

#: How much of a large GPU's rate a machine can take, and how much of its lengths.
_PACE = {"llama-3.1-8b-h100": (1.0, 1.0), "llama-3.1-8b-a100": (0.5, 1.0), "smollm2-cpu": (0.1, 0.25)}


def example_load(name: str, machine: str, seed: int) -> LoadConfig:
    """The load of an example, at a rate and of lengths that the machine can take."""
    load = replace(EXAMPLES[name].load, seed=seed)
    pace, size = _PACE[machine]
    shorter = replace(
        load,
        prompt=_shorter(load.prompt, size),
        output=_shorter(load.output, size),
        prefix_tokens=max(1, round(load.prefix_tokens * size)),
    )
    return at_rate(shorter, load.rate * pace)


def _shorter(lengths: Lengths, size: float) -> Lengths:
    high = max(lengths.low, round(lengths.high * size))
    return replace(lengths, high=high, mean=max(1.0, lengths.mean * size))

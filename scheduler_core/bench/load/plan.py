"""What a load benchmark runs: the same requests at one or several rates, on one machine with one configuration."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from scheduler_core.backends.length_only import LengthOnlyRunner
from scheduler_core.config import EngineConfig
from scheduler_core.errors import BenchError
from scheduler_core.load.config import LoadConfig
from scheduler_core.load.generator import GeneratedLoad
from scheduler_core.load.request import Load
from scheduler_core.load.source_load import SourceLoad
from scheduler_core.sources.record import Source
from scheduler_core.sources.report import source_as_plain
from scheduler_core.sources.shape import Shape, ShapedWorkload, shape
from scheduler_core.sources.source import read_source

MAX_RATES = 50


@dataclass(frozen=True, slots=True)
class Workload:
    """A load that can be had at any mean rate.

    `at` makes it for a rate in requests per second (None = as it is). `facts` tells where it comes from, as JSON
    values, and `attribution` whose data it is ("" if nobody's).
    """

    at: Callable[[float | None], Load]
    facts: dict[str, Any]
    attribution: str = ""


def generated(config: LoadConfig) -> Workload:
    """From the generator; other rates leave the shape of ramp and bursts as it is."""
    return Workload(
        lambda rate: GeneratedLoad(config if rate is None else at_rate(config, rate)),
        {"kind": "generator", **config.to_plain()},
    )


def at_rate(config: LoadConfig, rate: float) -> LoadConfig:
    """With `rate`, and the other rates in proportion."""
    factor = rate / config.rate
    return replace(config, rate=rate, rate_end=config.rate_end * factor, off_rate=config.off_rate * factor)


def from_file(path: Path, how: Shape) -> Workload:
    """From a workload file; another rate stretches or squeezes its times evenly."""
    return from_source(read_source(path), how)


def from_source(source: Source, how: Shape) -> Workload:
    """The same from a file that has been read."""
    shaped = shape(source, how)
    facts = {
        "kind": "file",
        "file": source_as_plain(shaped.source),
        "shape": {name: getattr(how, name) for name in how.__dataclass_fields__},
    }
    return Workload(lambda rate: _at_rate(source, shaped, rate), facts, source.report.attribution.text)


def pairs_of(path: Path) -> tuple[tuple[int, int], ...]:
    """The lengths of prompt and output of every request of a file that tells both."""
    requests = shape(read_source(path), Shape()).requests
    pairs = tuple((r.prompt_tokens, r.output_tokens) for r in requests if r.prompt_tokens and r.output_tokens)
    if not pairs:
        raise BenchError(f"{path.name} tells no length of a prompt; give one that does, or --prompt-len")
    return pairs


def _at_rate(source: Source, shaped: ShapedWorkload, rate: float | None) -> Load:
    if rate is not None:
        times = [request.arrival for request in shaped.requests]
        span = times[-1] - times[0]
        if not span:
            raise BenchError(f"all requests of {source.report.name} arrive at once; --rate cannot spread them")
        stretch = shaped.report.shape.stretch * (len(times) - 1) / span / rate
        shaped = shape(source, replace(shaped.report.shape, stretch=stretch))
    return SourceLoad(shaped, LengthOnlyRunner())


def rates(one: float | None, several: str | None) -> tuple[float | None, ...]:
    """The rates to run, of which a command line names one, several or none (None = the workload's own)."""
    if one is not None and several is not None:
        raise BenchError("--rate and --rates are both given; one of them is enough")
    if several is not None:
        return parse_rates(several)
    if one is not None:
        check_rate(one)
    return (one,)


def parse_rates(text: str) -> tuple[float, ...]:
    """Ascending, as written on a command line with commas between; raises `BenchError`."""
    try:
        found = sorted({float(part) for part in text.split(",")})
    except ValueError:
        raise BenchError(
            f"{text!r} is not a list of rates; write requests per second with commas, as in 1,2,4"
        ) from None
    for rate in found:
        check_rate(rate)
    if len(found) > MAX_RATES:
        raise BenchError(f"there are {len(found)} rates; at most {MAX_RATES} are run")
    return tuple(found)


def check_rate(rate: float) -> None:
    """Raises `BenchError` unless loads can have this rate."""
    if not 1e-6 <= rate <= 1e6:
        raise BenchError(f"the rate is {rate}; it must be from 1e-06 to 1e+06 requests per second")


def configured(config: EngineConfig, settings: Sequence[str]) -> EngineConfig:
    """With settings written FIELD=VALUE; raises `ConfigError`."""
    return config.replace(**dict(EngineConfig.parse_setting(text) for text in settings))

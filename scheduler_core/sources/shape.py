"""A workload made from a file: which of its requests, how long, and when."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

from scheduler_core.errors import WorkloadError
from scheduler_core.sources.limits import MAX_TOKENS
from scheduler_core.sources.record import Source, SourceReport, SourceRequest

_SHARES = 2**64


@dataclass(frozen=True, slots=True)
class Shape:
    """What is made of a file, in this order.

    Of the requests from `start` to `end` (seconds of the file), a `sample` (a share from 0 to 1; a conversation stays
    or goes as a whole) is drawn by `seed`; the `first` so many stay. Lengths are divided by `scale` (texts are not),
    then cut at the longest allowed; times are multiplied by `stretch`. Where a file does not tell the length of the
    outputs, it is `output_tokens`. `seed` also makes the tokens of prompts of which only the length is known.
    """

    seed: int = 0
    start: float = 0.0
    end: float | None = None
    sample: float = 1.0
    first: int | None = None
    scale: float = 1.0
    stretch: float = 1.0
    max_prompt_tokens: int | None = None
    max_output_tokens: int | None = None
    output_tokens: int = 128

    def __post_init__(self) -> None:
        _check("seed", self.seed, 0, 2**63 - 1)
        _check("start", self.start, 0, 1e12)
        if self.end is not None and not self.start < self.end <= 1e12:
            raise WorkloadError(f"end is {self.end}; it must be above start ({self.start}) and at most 1e12 seconds")
        if not 0 < self.sample <= 1:
            raise WorkloadError(f"sample is {self.sample}; it must be above 0 and at most 1 (all)")
        _check("scale", self.scale, 0.001, MAX_TOKENS)
        _check("stretch", self.stretch, 1e-6, 1e6)
        _check("output_tokens", self.output_tokens, 1, MAX_TOKENS)
        for name in ("first", "max_prompt_tokens", "max_output_tokens"):
            if getattr(self, name) is not None:
                _check(name, getattr(self, name), 1, MAX_TOKENS)


@dataclass(frozen=True, slots=True)
class ShapeReport:
    """What shaping did: requests left out by window, sample and first; prompts and outputs cut at the longest.

    `assumed_outputs` counts requests of which the file does not tell the length of the output.
    """

    shape: Shape
    outside_window: int
    not_sampled: int
    after_first: int
    num_requests: int
    cut_prompts: int
    cut_outputs: int
    assumed_outputs: int
    tokens_per_id: int | None


@dataclass(frozen=True, slots=True)
class ShapedWorkload:
    """Requests as they will be sent, with the reports of file and shape; a text has no length before it is encoded."""

    requests: tuple[SourceRequest, ...]
    source: SourceReport
    report: ShapeReport


def shape(source: Source, how: Shape) -> ShapedWorkload:
    """Choose, shorten and time the requests of a file; raises `WorkloadError`."""
    tokens_per_id = _tokens_per_id(source.report.block_size, how.scale)
    in_window = [r for r in source.requests if how.start <= r.arrival and (how.end is None or r.arrival < how.end)]
    sampled = [r for r in in_window if _is_sampled(r, how)]
    chosen = sampled[: how.first]
    if not chosen:
        raise WorkloadError(_nothing_chosen(source, how, len(in_window)))
    requests = tuple(_shaped(request, how) for request in chosen)
    report = ShapeReport(
        shape=how,
        outside_window=len(source.requests) - len(in_window),
        not_sampled=len(in_window) - len(sampled),
        after_first=len(sampled) - len(chosen),
        num_requests=len(chosen),
        cut_prompts=_count_longer((r.prompt_tokens for r in chosen), how.scale, how.max_prompt_tokens),
        cut_outputs=_count_longer((r.output_tokens for r in chosen), how.scale, how.max_output_tokens),
        assumed_outputs=sum(r.output_tokens is None for r in chosen),
        tokens_per_id=tokens_per_id,
    )
    return ShapedWorkload(requests, source.report, report)


def _shaped(request: SourceRequest, how: Shape) -> SourceRequest:
    prompt = request.prompt_tokens
    output = how.output_tokens if request.output_tokens is None else _scaled(request.output_tokens, how.scale)
    return replace(
        request,
        arrival=(request.arrival - how.start) * how.stretch,
        prompt_tokens=None if prompt is None else _capped(_scaled(prompt, how.scale), how.max_prompt_tokens),
        output_tokens=_capped(output, how.max_output_tokens),
    )


def _scaled(length: int, scale: float) -> int:
    """Rounded up, so that no block of a prompt is lost and nothing becomes empty."""
    return min(MAX_TOKENS, max(1, math.ceil(length / scale)))


def _capped(length: int, most: int | None) -> int:
    return length if most is None else min(length, most)


def _count_longer(lengths: Iterable[int | None], scale: float, most: int | None) -> int:
    if most is None:
        return 0
    return sum(length is not None and _scaled(length, scale) > most for length in lengths)


def _is_sampled(request: SourceRequest, how: Shape) -> bool:
    if how.sample == 1:
        return True
    name = request.conversation or request.id
    return int.from_bytes(seeded_key(how.seed, "sample", name)[:8], "little") < how.sample * _SHARES


def _tokens_per_id(block_size: int | None, scale: float) -> int | None:
    if block_size is None:
        return None
    size = block_size / scale
    if size != int(size) or size < 1:
        raise WorkloadError(
            f"scale is {scale:g}; it must divide the {block_size} tokens of a block without remainder: "
            f"take {block_size // 16 or 1}, for example, or 1 for the lengths as they are"
        )
    return int(size)


def _nothing_chosen(source: Source, how: Shape, num_in_window: int) -> str:
    if num_in_window:
        return f"sample is {how.sample} and chose none of {num_in_window:,} requests; take more, or another seed"
    end = "the end" if how.end is None else f"{how.end:g} s"
    return (
        f"there is no request from {how.start:g} s to {end}; "
        f"{source.report.name} goes from 0 to {source.report.span_s:g} s"
    )


def seeded_key(seed: int, use: str, name: str) -> bytes:
    """What is drawn for `name` depends on this alone."""
    return hashlib.sha256(f"{seed}:{use}:{name}".encode("utf-8", "surrogatepass")).digest()


def _check(name: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:
        raise WorkloadError(f"{name} is {value:g}; it must be from {low:g} to {high:g}")

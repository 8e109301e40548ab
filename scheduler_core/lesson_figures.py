"""The figures that a lesson can name: each is read from a run, so no number in a lesson is written by hand."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from scheduler_core.cost_model import machine
from scheduler_core.errors import LessonError, TickscopeError
from scheduler_core.events import BlockEvicted, BlockPublished, RequestPreempted, RequestRestored
from scheduler_core.lesson_stop import Stop
from scheduler_core.lookup import request_in, spec_of
from scheduler_core.metrics import RequestMetrics, request_metrics, totals
from scheduler_core.roofline import LARGEST, cost, knee, prefill
from scheduler_core.trace import RequestSnapshot, Snapshot, TickRecord, Trace
from scheduler_core.words import number, size

SWAP_FIGURES = Path(__file__).resolve().parent.parent / "assets" / "benchmarks" / "swap.json"

_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
_PARTS = re.compile(r"(?:(?P<run>\w+)\.)?(?P<figure>\w+)(?::(?P<subject>[^@{}]+))?(?:@(?P<when>[^@{}]+))?")
#: How many times the first of two figures the second is: {times:whole.worst_gap:R1/base.worst_gap:R1}.
_TIMES = "times:"


@dataclass(frozen=True, slots=True)
class Figure:
    """What a placeholder stands for: in words, and as a number where it is one."""

    text: str
    value: float | None = None


@dataclass(frozen=True, slots=True)
class Where:
    """What a figure is read from: a run, one of its ticks, and what it is about."""

    trace: Trace
    tick: int
    subject: str

    @property
    def record(self) -> TickRecord:
        return self.trace.records[self.tick]

    @property
    def snapshot(self) -> Snapshot:
        if self.record.snapshot is None:
            raise LessonError("the run keeps aggregates only")
        return self.record.snapshot

    @property
    def request(self) -> RequestSnapshot:
        state = request_in(self.record, spec_of(self.trace, self.subject).id)
        if state is None:
            raise LessonError(f"{self.subject} is not there in tick {self.tick}")
        return state

    @property
    def metrics(self) -> RequestMetrics:
        wanted = spec_of(self.trace, self.subject).id
        return next(figures for figures in request_metrics(self.trace) if figures.id == wanted)

    def seconds(self, value: float | None) -> Figure:
        """A duration: ticks where a tick lasts one second, else seconds or milliseconds."""
        if value is None:
            raise LessonError("this run has no such time")
        if self.trace.config.cost == "unit":
            return Figure("1 tick" if value == 1 else f"{number(value)} ticks", value)
        return Figure(f"{1000 * value:.0f} ms" if value < 1 else f"{value:.2f} s", value)


def fill(
    text: str,
    traces: Mapping[str, Trace],
    run: str,
    tick: int,
    escape: Callable[[str], str] = str,
) -> str:
    """The text with each placeholder resolved; those that name no run and no tick are of `run` and about `tick`.

    Raises `LessonError` naming the placeholder.
    """

    return _PLACEHOLDER.sub(lambda found: escape(figure(found[1], traces, run, tick).text), text)


def figure(name: str, traces: Mapping[str, Trace], run: str, tick: int) -> Figure:
    """One figure, as it is written between the braces of a placeholder; raises `LessonError` naming it."""
    try:
        return _resolve(name, traces, run, tick)
    except TickscopeError as problem:
        raise LessonError(f"placeholder {{{name}}}: {problem}") from None


def check_placeholders(text: str, runs: Collection[str]) -> None:
    """What can be known of placeholders without a run: raises `LessonError` for an unknown run, figure or place."""
    for found in _PLACEHOLDER.finditer(text):
        try:
            for each in _singles(found[1]):
                _parsed(each, runs)
        except LessonError as problem:
            raise LessonError(f"placeholder {found[0]}: {problem}") from None


def _singles(inside: str) -> list[str]:
    """The figures of a placeholder: two where one is divided by the other."""
    if not inside.startswith(_TIMES):
        return [inside]
    halves = inside.removeprefix(_TIMES).split("/")
    if len(halves) != 2:
        raise LessonError("times takes two figures with a slash between them")
    return halves


def _parsed(inside: str, runs: Collection[str]) -> re.Match[str]:
    found = _PARTS.fullmatch(inside)
    if found is None:
        raise LessonError("write {figure}, {figure:subject} or {run.figure:subject@place}")
    if found["run"] is not None and found["run"] not in runs:
        raise LessonError(f"there is no run {found['run']!r}; the runs are {', '.join(runs)}")
    if found["figure"] not in FIGURES:
        raise LessonError(f"there is no figure {found['figure']!r}; the figures are {', '.join(sorted(FIGURES))}")
    if found["when"]:
        Stop.parse(found["when"])
    return found


def _resolve(inside: str, traces: Mapping[str, Trace], run: str, tick: int) -> Figure:
    figures = [_single(each, traces, run, tick) for each in _singles(inside)]
    if len(figures) == 1:
        return figures[0]
    one, other = (figure.value for figure in figures)
    if one is None or not other:
        raise LessonError("one of the two is no number, or the second is 0")
    ratio = one / other
    return Figure(f"{ratio:.1f}" if ratio < 10 else f"{ratio:.0f}", ratio)


def _single(inside: str, traces: Mapping[str, Trace], run: str, tick: int) -> Figure:
    found = _parsed(inside, traces)
    trace = traces[found["run"] or run]
    there = Stop.parse(found["when"]).find(trace, tick) if found["when"] else min(tick, len(trace.records) - 1)
    return FIGURES[found["figure"]](Where(trace, there, found["subject"] or ""))


def _count(value: float | None) -> Figure:
    if value is None:
        raise LessonError("this run does not know it")
    return Figure(f"{value:,.0f}", value)


def _scheduled(where: Where) -> int:
    wanted = spec_of(where.trace, where.subject).id
    return sum(item.num_tokens for item in where.record.output.scheduled if item.request_id == wanted)


def _chunks(where: Where) -> int:
    wanted = spec_of(where.trace, where.subject).id
    items = (item for record in where.trace.records for item in record.output.scheduled)
    return sum(item.request_id == wanted and not item.is_decode for item in items)


def _kept(where: Where) -> int:
    return len(set(where.snapshot.free_blocks) & set(where.snapshot.published_blocks))


def _evicted(where: Where) -> int:
    """Up to the end of the tick."""
    events = (event for record in where.trace.records[: where.tick + 1] for event in record.events)
    return sum(isinstance(event, BlockEvicted) for event in events)


def _preempted(where: Where) -> RequestPreempted:
    for event in where.record.events:
        if isinstance(event, RequestPreempted) and event.request_id == where.subject:
            return event
    raise LessonError(f"{where.subject or 'nobody'} is not preempted in tick {where.tick}")


def _restored(where: Where) -> RequestRestored:
    for event in where.record.events:
        if isinstance(event, RequestRestored) and event.request_id == where.subject:
            return event
    raise LessonError(f"{where.subject or 'nobody'} does not come back in tick {where.tick}")


def _key(where: Where) -> Figure:
    """Of "R1 0": the key of the first block that R1 published."""
    request_id, _, index = where.subject.rpartition(" ")
    for record in where.trace.records:
        for event in record.events:
            if isinstance(event, BlockPublished) and (event.request_id, str(event.index)) == (request_id, index):
                return Figure(event.key[:8])
    raise LessonError(f"{request_id!r} published no block number {index}")


def _setting(where: Where) -> Figure:
    value = getattr(where.trace.config_at(where.tick), where.subject, None)
    if value is None:
        raise LessonError(f"there is no setting {where.subject!r}, or it is off")
    return _count(value) if isinstance(value, int) else Figure(str(value))


def _total(where: Where) -> Figure:
    counted = totals(where.trace)
    if where.subject not in counted:
        raise LessonError(f"there is no total {where.subject!r}; the totals are {', '.join(counted)}")
    return _count(counted[where.subject])


def _bytes(amount: int) -> Figure:
    return Figure(size(amount), amount)


@cache
def _swap(path: Path) -> dict[str, Any]:
    try:
        figures: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        raise LessonError(f"cannot read the measurement in {path.name}: {problem}") from None
    return figures


def _swap_row(where: Where, name: str) -> Figure:
    for row in _swap(SWAP_FIGURES)["rows"]:
        if str(row["tokens"]) == where.subject:
            return Figure(f"{1000 * row[name]:.1f} ms", row[name])
    raise LessonError(f"no length of {where.subject!r} tokens was measured")


def _whole(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= LARGEST:
        raise LessonError(f"{text!r} is no number of tokens from 1 to {LARGEST}")
    return int(text)


def _modelled(where: Where) -> Figure:
    for row in _swap(SWAP_FIGURES)["modelled"]:
        if row["machine"] == where.subject and row["is_its_own_bus"]:
            return Figure(row["text"].removeprefix("none: "))
    raise LessonError(f"there is no machine {where.subject!r} among those modelled")


FIGURES: dict[str, Callable[[Where], Figure]] = {
    # of the run
    "total": _total,
    "setting": _setting,
    "moved": lambda at: _bytes(int(totals(at.trace)["bytes_saved"])),
    "longest_gap": lambda at: at.seconds(max((m.worst_gap_s or 0.0 for m in request_metrics(at.trace)), default=None)),
    # of a request over the whole run
    "prompt": lambda at: _count(len(spec_of(at.trace, at.subject).prompt_token_ids)),
    "limit": lambda at: _count(spec_of(at.trace, at.subject).sampling.max_tokens),
    "cached": lambda at: _count(at.metrics.num_cached_tokens),
    "cached_blocks": lambda at: _count(at.metrics.num_cached_tokens // at.trace.config.block_size),
    "new": lambda at: _count(at.metrics.num_prompt_tokens - at.metrics.num_cached_tokens),
    "chunks": lambda at: _count(_chunks(at)),
    "ttft": lambda at: at.seconds(at.metrics.ttft_s),
    "worst_gap": lambda at: at.seconds(at.metrics.worst_gap_s),
    "latency": lambda at: at.seconds(at.metrics.e2e_s),
    "preemptions": lambda at: _count(at.metrics.num_preemptions),
    "recomputed": lambda at: _count(at.metrics.recomputed_tokens),
    "key": _key,
    # of a tick
    "length": lambda at: at.seconds(at.record.end - at.record.start),
    "batch": lambda at: _count(at.record.counts.scheduled_tokens),
    "unused": lambda at: _count(at.trace.config_at(at.tick).max_num_batched_tokens - at.record.counts.scheduled_tokens),
    "free": lambda at: _count(len(at.snapshot.free_blocks)),
    "kept": lambda at: _count(_kept(at)),
    "evicted": lambda at: _count(_evicted(at)),
    # of a request in a tick
    "chunk": lambda at: _count(_scheduled(at)),
    "computed": lambda at: _count(at.request.num_computed_tokens),
    "left": lambda at: _count(at.request.num_prompt_tokens - at.request.num_computed_tokens),
    "blocks": lambda at: _count(len(at.request.block_ids)),
    # of a preemption
    "saved": lambda at: _count(_preempted(at).tokens_saved),
    "saved_blocks": lambda at: _count(_preempted(at).blocks_saved),
    "saved_bytes": lambda at: _bytes(_preempted(at).bytes_saved),
    "lost": lambda at: _count(_preempted(at).tokens_lost),
    "copied_back": lambda at: _count(_restored(at).tokens_copied),
    "found_again": lambda at: _count(_restored(at).hit_tokens),
    # of the cost model
    "tick_of": lambda at: at.seconds(cost(prefill(_whole(at.subject)), machine(at.trace.config.cost)).seconds),
    "knee": lambda at: _count(knee(machine(at.subject))),
    # measured by the benchmark
    "swap_time": lambda at: _swap_row(at, "swap_s"),
    "recompute_time": lambda at: _swap_row(at, "recompute_in_company_s"),
    "swap_crossover": lambda at: Figure(_swap(SWAP_FIGURES)["crossover"]["in_company"]["text"].removeprefix("none: ")),
    "modelled_crossover": _modelled,
}

"""A file that a visitor brings: a run saved here, or a scenario. Read with bounds, and kept in memory only."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from pathlib import PurePath
from typing import Any

from pages.components.fields import FIELDS, PAGE_BOUNDS
from pages.components.own_requests import OwnRequest, problems
from pages.components.plain import cut
from pages.components.settings import Limits
from scheduler_core.config import EngineConfig
from scheduler_core.cost_model import machine
from scheduler_core.errors import TickscopeError
from scheduler_core.trace import Trace
from scheduler_core.workload import MAX_SCENARIO_BYTES, Draft, parse_scenario

MEGABYTE = 1024 * 1024
#: A file past this is refused before it is read.
MAX_FILE_MEGABYTES = 16
#: What it may unpack to: the run of 64 requests over 1,000 ticks takes 16 MiB.
MAX_UNPACKED_BYTES = 48 * MEGABYTE
MAX_REQUESTS, MAX_TICKS = 256, 5_000
ENDINGS = ("json", "gz", "toml")

_GZIP = b"\x1f\x8b"
#: What a request in a scenario may say and one of a visitor's own cannot.
_NOT_OWN = ("temperature", "top_p", "seed", "min_tokens", "ignore_eos", "salt")


class ImportProblem(TickscopeError):
    """A file that cannot be opened here; the message says what is wrong with it."""


@dataclass(frozen=True, slots=True)
class ImportedRun:
    """A recorded run from a file; `digest` tells it from every other."""

    name: str
    digest: str
    trace: Trace


@dataclass(frozen=True, slots=True)
class ImportedRequests:
    """A scenario from a file as requests of the visitor's own; `notes` tell what could not be taken over."""

    name: str
    title: str
    requests: tuple[OwnRequest, ...]
    overrides: dict[str, Any]
    notes: tuple[str, ...]


def read_file(name: str, data: bytes, limits: Limits) -> ImportedRun | ImportedRequests:
    """Whatever the file holds, by its content; raises `ImportProblem`."""
    try:
        check_size(len(data))
        if not data.strip():
            raise ImportProblem("it is empty")
        if PurePath(name).suffix.lower() == ".toml":
            return _scenario(name, data, limits)
        return _run(name, _unpacked(data))
    except TickscopeError as problem:
        raise _refusal(name, problem) from None


def read_upload(name: str, size: int, read: Callable[[], bytes], limits: Limits) -> ImportedRun | ImportedRequests:
    """The same for a file that has arrived with its size; of one that is too large nothing is read."""
    try:
        check_size(size)
    except ImportProblem as problem:
        raise _refusal(name, problem) from None
    return read_file(name, read(), limits)


def _refusal(name: str, problem: TickscopeError) -> ImportProblem:
    """What is wrong with a file, in one line."""
    told = " ".join(str(problem).split()).rstrip(".")
    return ImportProblem(f"{cut(name)} cannot be opened: {told}. What stood here before stays.")


def check_size(size: int) -> None:
    """Refuse what is too large, before it is read; raises `ImportProblem`."""
    if size > MAX_FILE_MEGABYTES * MEGABYTE:
        raise ImportProblem(
            f"it has {size / MEGABYTE:,.1f} MiB; at most {MAX_FILE_MEGABYTES} MiB are taken: save fewer ticks"
        )


def _unpacked(data: bytes) -> bytes:
    """The bytes of a gzipped file, never more than are allowed."""
    if not data.startswith(_GZIP):
        if len(data) > MAX_UNPACKED_BYTES:
            raise ImportProblem(_too_large())
        return data
    reader = zlib.decompressobj(wbits=31)
    try:
        plain = reader.decompress(data, MAX_UNPACKED_BYTES + 1)
    except zlib.error as problem:
        raise ImportProblem(f"its gzip is damaged ({problem})") from None
    if len(plain) > MAX_UNPACKED_BYTES:
        raise ImportProblem(_too_large())
    if not reader.eof:
        raise ImportProblem("it is cut off: its gzip ends early. Save or send it again")
    return plain


def _too_large() -> str:
    return f"it unpacks to more than {MAX_UNPACKED_BYTES // MEGABYTE} MiB; save fewer ticks"


def _run(name: str, plain: bytes) -> ImportedRun:
    trace = Trace.from_json(plain)
    _check_sizes(trace)
    _check_settings(trace.config)
    _check_counts(trace)
    return ImportedRun(name, hashlib.sha256(plain).hexdigest(), trace)


def _check_sizes(trace: Trace) -> None:
    if not trace.records:
        raise ImportProblem("the run in it has no tick, so there is nothing to show")
    if any(record.snapshot is None for record in trace.records):
        raise ImportProblem(
            "the run in it was recorded as a summary, without the state of each tick; record it in full"
        )
    for what, number, most in (
        ("requests", len(trace.requests), MAX_REQUESTS),
        ("ticks", len(trace.records), MAX_TICKS),
    ):
        if number > most:
            raise ImportProblem(f"the run in it has {number:,} {what}; at most {most:,} are shown here")


def _check_settings(config: EngineConfig) -> None:
    """A page shows every block and lane, so it takes less than the core."""
    for field, (low, high) in PAGE_BOUNDS.items():
        value = getattr(config, field)
        if value is not None and not low <= value <= high:
            raise ImportProblem(f"{FIELDS[field].label} is {value:,} in it; this page takes {low:,} to {high:,}")
    machine(config.cost)


def _check_counts(trace: Trace) -> None:
    """What is drawn is counted, and nothing that is counted is below 0."""
    for record in trace.records:
        snapshot = record.snapshot
        rows = () if snapshot is None else (snapshot, *snapshot.requests)
        for thing in (record.counts, *record.output.scheduled, *record.events, *rows):
            for field in fields(thing):
                value = getattr(thing, field.name)
                if isinstance(value, int) and value < 0:
                    raise ImportProblem(f"the run in it is damaged: tick {record.tick} has {field.name} {value}")


def _scenario(name: str, data: bytes, limits: Limits) -> ImportedRequests:
    if len(data) > MAX_SCENARIO_BYTES:
        raise ImportProblem(f"it has {len(data):,} bytes; a scenario has at most {MAX_SCENARIO_BYTES:,}")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        raise ImportProblem(f"it is not UTF-8 text: byte {problem.start} is no part of it") from None
    scenario = parse_scenario(text, PurePath(name).stem)
    _check_settings(scenario.config)
    notes: list[str] = []
    requests = tuple(_own(draft, notes) for draft in scenario.requests)
    if found := problems(requests, limits):
        raise ImportProblem(found[0])
    changed = scenario.config.changed_from(EngineConfig())
    return ImportedRequests(
        name, scenario.title, requests, {field: new for field, (_, new) in changed.items()}, tuple(notes)
    )


def _own(draft: Draft, notes: list[str]) -> OwnRequest:
    usual = Draft(draft.id, draft.prompt)
    if lost := [field for field in _NOT_OWN if getattr(draft, field) != getattr(usual, field)]:
        notes.append(f"{draft.id}: {', '.join(lost)} cannot be set for your own requests; left out.")
    arrival = round(draft.arrival_time)
    if arrival != draft.arrival_time:
        notes.append(f"{draft.id} arrives at {draft.arrival_time:g} in the file; here at {arrival}, a whole second.")
    return OwnRequest(draft.id, draft.prompt, draft.max_tokens, draft.priority, arrival, draft.system or "")


def drafts_of(trace: Trace) -> tuple[Draft, ...]:
    """The requests of a run in words, as far as it holds them."""
    made = (
        Draft(s.id, s.prompt, s.sampling.max_tokens, s.arrival_time, s.priority, salt=s.salt) for s in trace.requests
    )
    return tuple(replace(draft, prompt=draft.prompt or "?") for draft in made)

"""A run, recorded: immutable ticks from which everything on screen is derived. Knows no scheduler."""

from __future__ import annotations

import gzip
import json
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

from scheduler_core import codec
from scheduler_core.chunk_range import ChunkRange, in_force, is_steered
from scheduler_core.config import EngineConfig
from scheduler_core.errors import TraceError
from scheduler_core.events import ChunkSteered, ConfigChanged, Event, FaultSwitchedOn
from scheduler_core.output import SchedulerOutput
from scheduler_core.request import FinishReason, RequestSpec, RequestStatus
from scheduler_core.trace_check import check_consistent

SCHEMA_VERSION = 1
MAX_TRACE_BYTES = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class RequestSnapshot:
    """One request as of the end of a tick.

    `block_ids` is its table; `key_class` and `queue_number` are its key (smaller goes first); `saved_tokens` is
    KV kept on the host; `waited_ticks` counts all its waits; `slice_used` the ticks of its slice so far.
    """

    ROW: ClassVar[bool] = True

    id: str
    status: RequestStatus
    finish_reason: FinishReason | None
    num_prompt_tokens: int
    num_tokens: int
    num_computed_tokens: int
    num_cached_tokens: int
    max_computed_tokens: int
    num_preemptions: int
    key_class: int
    queue_number: int
    slice_used: int
    waited_ticks: int
    saved_tokens: int
    block_ids: tuple[int, ...]

    @property
    def num_output_tokens(self) -> int:
        return self.num_tokens - self.num_prompt_tokens


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The whole state as of the end of a tick.

    `requests` holds those alive, in order of sending, and those that finished in this very tick. `waiting` has
    the best first, `running` the one admitted first. `free_blocks` starts with the block that would be taken
    next; blocks both free and published are "kept for reuse".
    """

    requests: tuple[RequestSnapshot, ...]
    waiting: tuple[str, ...]
    running: tuple[str, ...]
    free_blocks: tuple[int, ...]
    published_blocks: tuple[int, ...]
    promised_blocks: int
    host_blocks_used: int


@dataclass(frozen=True, slots=True)
class Counts:
    """The aggregates of a tick, kept also where snapshots are left out (`record="summary"`)."""

    ROW: ClassVar[bool] = True

    waiting: int
    running: int
    used_blocks: int
    cached_blocks: int
    scheduled_tokens: int


@dataclass(frozen=True, slots=True)
class TickRecord:
    """One tick: `start` and `end` in seconds of virtual time, `wall_seconds` as measured on the model.

    An idle tick (nothing to schedule until the next arrival) has an empty output and spans the whole gap.
    `snapshot` and `events` are empty in a summary record.
    """

    tick: int
    start: float
    end: float
    wall_seconds: float
    output: SchedulerOutput
    events: tuple[Event, ...]
    counts: Counts
    snapshot: Snapshot | None

    @property
    def is_idle(self) -> bool:
        return self.counts.scheduled_tokens == 0


@dataclass(frozen=True, slots=True)
class Backend:
    """What computed the tokens: `kind` is "synthetic", "replay" or "model"; `kv_bytes_per_token` sizes the copies.

    `recorded_kind` is the kind of the run that a replay takes its tokens from, "" otherwise; `eos_token_ids` end
    a text.
    """

    kind: str
    model: str = ""
    dtype: str = ""
    device: str = ""
    weights_digest: str = ""
    kv_bytes_per_token: int = 0
    recorded_kind: str = ""
    eos_token_ids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Trace:
    """A run from its first tick on.

    `requests` are all that were ever sent, in order of sending; `token_texts` gives the text of every token id
    that occurs; `title` is for people.
    """

    schema_version: int
    scenario: str
    title: str
    config: EngineConfig
    backend: Backend
    requests: tuple[RequestSpec, ...]
    token_texts: dict[int, str]
    records: tuple[TickRecord, ...]

    def request(self, request_id: str) -> RequestSpec:
        """The request of that id; raises KeyError."""
        for spec in self.requests:
            if spec.id == request_id:
                return spec
        raise KeyError(request_id)

    @property
    def faults(self) -> tuple[str, ...]:
        """The mistakes built into this run on purpose, by name."""
        first = self.records[0].events if self.records else ()
        return tuple(event.name for event in first if isinstance(event, FaultSwitchedOn))

    def config_at(self, tick: int) -> EngineConfig:
        """The configuration in force during `tick`: the settings, with what chunk control has made of them."""
        settings = self.settings_at(tick)
        return in_force(settings, self._steered_at(tick, settings)) if is_steered(settings) else settings

    def _steered_at(self, tick: int, settings: EngineConfig) -> int | None:
        """The size that chunk control had reached when `tick` began; None if it has decided nothing yet."""
        setting = ChunkRange.of(settings).setting
        for record in reversed(self.records[: tick + 1]):
            for event in record.events:
                if isinstance(event, ChunkSteered) and event.setting == setting:
                    return event.old if record.tick == tick else event.new
        return None

    def settings_at(self, tick: int) -> EngineConfig:
        """The settings chosen for `tick`, after the changes made until then."""
        changes: dict[str, Any] = {}
        for record in self.records[: tick + 1]:
            for event in record.events:
                if isinstance(event, ConfigChanged):
                    changes |= {name: EngineConfig.parse_field(name, new) for name, _, new in event.changes}
        return self.config.replace(**changes)

    def to_json(self) -> str:
        return json.dumps(codec.to_plain(self), ensure_ascii=True, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Validate and read; raises `TraceError`."""
        try:
            plain = json.loads(text)
        except (ValueError, RecursionError) as problem:
            raise TraceError(f"this is not a trace: not valid JSON ({problem})") from None
        if not isinstance(plain, dict) or "schema_version" not in plain or "records" not in plain:
            raise TraceError("this is not a Tickscope trace: it has no schema_version and records")
        version = plain["schema_version"]
        if version != SCHEMA_VERSION:
            raise TraceError(
                f"the trace has schema version {version!r}; this program reads version {SCHEMA_VERSION}; "
                "record it again, or open it with the version that wrote it"
            )
        try:
            trace: Self = codec.from_plain(cls, plain)
        except codec.DecodeError as problem:
            raise TraceError(f"the trace is damaged: {problem}") from None
        check_consistent(trace)
        return trace

    def to_bytes(self) -> bytes:
        """Gzipped JSON, the same bytes for the same trace."""
        return gzip.compress(self.to_json().encode(), compresslevel=9, mtime=0)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read JSON, gzipped or not; raises `TraceError`."""
        if data[:2] == b"\x1f\x8b":
            data = _gunzip(data)
        return cls.from_json(data)

    def save(self, path: str | Path) -> None:
        Path(path).write_bytes(self.to_bytes())

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a file; raises `TraceError`."""
        try:
            data = Path(path).read_bytes()
        except OSError as problem:
            raise TraceError(f"cannot read {path}: {problem.strerror or problem}") from None
        try:
            return cls.from_bytes(data)
        except TraceError as problem:
            raise TraceError(f"{path}: {problem}") from None


def _gunzip(data: bytes) -> bytes:
    unpack = zlib.decompressobj(wbits=31)
    try:
        plain = unpack.decompress(data, MAX_TRACE_BYTES + 1)
    except zlib.error as problem:
        raise TraceError(f"the trace is damaged: {problem}") from None
    if len(plain) > MAX_TRACE_BYTES:
        raise TraceError(f"the trace unpacks to more than {MAX_TRACE_BYTES} bytes; record fewer ticks")
    if not unpack.eof:
        raise TraceError("the trace is truncated: its gzip stream ends early")
    return plain

"""Whether a trace that was read agrees with itself, so that views need not guard against damage."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NoReturn

from scheduler_core.chunk_range import SETTINGS
from scheduler_core.config import EngineConfig
from scheduler_core.errors import ConfigError, TraceError
from scheduler_core.events import (
    ChunkSteered,
    ConfigChanged,
    FaultInjected,
    LowerTierQueried,
    RequestAdmitted,
    RequestSkipped,
    SkipReason,
)
from scheduler_core.request import RequestStatus

if TYPE_CHECKING:
    from scheduler_core.trace import Snapshot, TickRecord, Trace

#: The numbers that a skip event has to carry.
_SKIP_NUMBERS = {
    SkipReason.BUDGET: {"budget", "budget_left"},
    SkipReason.LANES: {"lanes", "lanes_used"},
    SkipReason.MEMORY: {"blocks_needed", "blocks_free", "blocks_promised", "watermark"},
    SkipReason.BATCH_CLOSED: {"running"},
    SkipReason.PREEMPTED_FOR_MEMORY: {"preempted"},
    SkipReason.JUST_PREEMPTED: set(),
    SkipReason.FINISHING: {"finishing"},
    SkipReason.TURN: {"for_prompts"},
}


def check_consistent(trace: Trace) -> None:
    """Raises `TraceError` at the first contradiction."""
    prompts = {spec.id: len(spec.prompt_token_ids) for spec in trace.requests}
    if len(prompts) != len(trace.requests):
        _damaged("two requests have the same id")
    config, end = trace.config, 0.0
    for number, record in enumerate(trace.records):
        if record.tick != number:
            _damaged(f"record {number} says tick {record.tick}")
        if not end <= record.start <= record.end or record.wall_seconds < 0:
            _damaged(f"the times of tick {number} go backwards")
        end = record.end
        config = _check_settings(record, config)
        _check_names(record, prompts)
        _check_batch(record, prompts, config)
        if record.snapshot is not None:
            _check_snapshot(record.snapshot, number, prompts, config)


def _damaged(problem: str) -> NoReturn:
    raise TraceError(f"the trace is damaged: {problem}")


def _check_settings(record: TickRecord, config: EngineConfig) -> EngineConfig:
    """The configuration after the changes of this tick."""
    for event in record.events:
        if isinstance(event, ConfigChanged):
            try:
                new = {name: EngineConfig.parse_field(name, text) for name, _, text in event.changes}
                config = config.replace(**new)
            except ConfigError as problem:
                _damaged(f"the settings of tick {record.tick} are impossible: {problem}")
        elif isinstance(event, ChunkSteered) and not (event.setting in SETTINGS.values() and event.old > 0 < event.new):
            _damaged(f"tick {record.tick} sets {event.setting} from {event.old} to {event.new}")
    return config


def _check_names(record: TickRecord, known: Iterable[str]) -> None:
    """Every request that is named was sent."""
    named = {item.request_id for item in record.output.scheduled}
    named |= {copy.request_id for copy in (*record.output.copies_out, *record.output.copies_in)}
    named |= {load.request_id for load in record.output.loads}
    for event in record.events:
        if not isinstance(event, FaultInjected) or event.request_id:  # a fault of the whole tick names nobody
            named |= {getattr(event, name) for name in ("request_id", "for_request") if hasattr(event, name)}
    if record.snapshot is not None:
        named |= {request.id for request in record.snapshot.requests}
    if strangers := named.difference(known):
        _damaged(f"tick {record.tick} names {min(strangers)!r}, which was never sent")


def _check_batch(record: TickRecord, prompts: dict[str, int], config: EngineConfig) -> None:
    for item in record.output.scheduled:
        if item.start < 0 or not item.token_ids or item.end > config.max_model_len:
            _damaged(f"tick {record.tick} has an impossible chunk of {item.request_id!r}")
    for event in record.events:
        if isinstance(event, RequestSkipped) and _SKIP_NUMBERS[event.reason] - dict(event.numbers).keys():
            _damaged(f"tick {record.tick} does not say why {event.request_id!r} was skipped")
        if isinstance(event, LowerTierQueried) and not _is_possible(event, config):
            _damaged(f"tick {record.tick} has an impossible load of {event.request_id!r}")
        if isinstance(event, RequestAdmitted) and event.hit_tokens > config.max_model_len:
            _damaged(f"tick {record.tick} has an impossible hit of {event.request_id!r}")


def _is_possible(event: LowerTierQueried, config: EngineConfig) -> bool:
    loaded = len(event.block_ids)
    sizes = 0 <= loaded <= event.found_blocks <= config.num_blocks and event.first_block >= 0
    return sizes and event.hit_tokens == loaded * config.block_size and event.seconds >= 0


def _check_snapshot(snapshot: Snapshot, tick: int, prompts: dict[str, int], config: EngineConfig) -> None:
    alive = sorted(request.id for request in snapshot.requests if request.status is not RequestStatus.FINISHED)
    if alive != sorted((*snapshot.running, *snapshot.waiting)):
        _damaged(f"tick {tick} has a request in no place, or in two")
    blocks = {*snapshot.free_blocks, *snapshot.published_blocks}
    for request in snapshot.requests:
        blocks |= set(request.block_ids)
        if request.num_prompt_tokens != prompts[request.id] or request.num_tokens < request.num_prompt_tokens:
            _damaged(f"tick {tick} has another prompt of {request.id!r}")
    if blocks and not (min(blocks) >= 0 and max(blocks) < config.num_blocks):
        _damaged(f"tick {tick} has a block outside 0 to {config.num_blocks - 1}")

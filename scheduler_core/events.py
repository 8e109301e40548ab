"""Every event of a run, each a fact with its reason and numbers. Names are complete: nothing else happens."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from scheduler_core.laws import Law
from scheduler_core.output import TokenProb
from scheduler_core.request import FinishReason


class PreemptReason(Enum):
    """Why a running request had to leave."""

    SLICE = "slice"
    MEMORY = "memory"
    PUSH_OUT = "push_out"
    LANES = "lanes"


class SkipReason(Enum):
    """The first rule that kept a request out of a tick.

    The numbers of the event are, by reason:
    BUDGET: budget, budget_left. LANES: lanes, lanes_used. MEMORY: blocks_needed, blocks_free, blocks_promised,
    watermark. BATCH_CLOSED (static batching): running. PREEMPTED_FOR_MEMORY (nobody is admitted in such a
    tick): preempted. JUST_PREEMPTED (comes back in the next tick at the earliest): none. FINISHING (room comes
    free in this very tick, so nobody is pushed out): finishing. TURN (without mixed batches the tick is for the other
    kind): for_prompts, 1 or 0.
    """

    BUDGET = "budget"
    LANES = "lanes"
    MEMORY = "memory"
    BATCH_CLOSED = "batch_closed"
    PREEMPTED_FOR_MEMORY = "preempted_for_memory"
    JUST_PREEMPTED = "just_preempted"
    FINISHING = "finishing"
    TURN = "turn"


class SteerReason(Enum):
    """What chunk control made of a tick: moved the size, or why not."""

    TOO_SLOW = "too_slow"
    FASTER_THAN_NEEDED = "faster_than_needed"
    ON_TARGET = "on_target"
    AT_LOWEST = "at_lowest"
    AT_HIGHEST = "at_highest"
    NOTHING_TO_CUT = "nothing_to_cut"
    NOT_MEASURED = "not_measured"
    RAMP = "ramp"


Numbers = tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class RequestArrived:
    request_id: str
    num_prompt_tokens: int
    max_tokens: int
    priority: int


@dataclass(frozen=True, slots=True)
class RequestRefused:
    """Refused on arrival, because it could never run; `message` is for people."""

    request_id: str
    message: str
    numbers: Numbers


@dataclass(frozen=True, slots=True)
class PrefixCacheQueried:
    """Asked at an admission. `self_hit` marks one after a preemption: it does not enter the hit rate."""

    request_id: str
    query_tokens: int
    hit_tokens: int
    hit_block_ids: tuple[int, ...]
    self_hit: bool


@dataclass(frozen=True, slots=True)
class RequestAdmitted:
    """Enters a lane. Needs `blocks_needed` new blocks for its whole sequence; `resumed` after a preemption."""

    request_id: str
    hit_tokens: int
    blocks_needed: int
    blocks_free: int
    blocks_promised: int
    resumed: bool


@dataclass(frozen=True, slots=True)
class RequestScheduled:
    """In this tick's batch with tokens `start .. start + num_tokens`, of which some were computed before."""

    request_id: str
    start: int
    num_tokens: int
    recomputed_tokens: int
    is_decode: bool


@dataclass(frozen=True, slots=True)
class RequestSkipped:
    """Running but not scheduled, or the best waiting request and not admitted; see `SkipReason`."""

    request_id: str
    reason: SkipReason
    numbers: Numbers


@dataclass(frozen=True, slots=True)
class SliceExpired:
    """Has used its slice of `quantum` ticks; it leaves only when another request needs the room."""

    request_id: str
    quantum: int


@dataclass(frozen=True, slots=True)
class RequestPreempted:
    """Left its lane for `for_request` (may be itself, out of memory).

    `tokens_saved` tokens of KV (`blocks_saved` blocks, `bytes_saved` bytes) went to the host; `tokens_lost`
    are to be computed again unless the prefix cache still has them.
    """

    request_id: str
    reason: PreemptReason
    mode: str
    for_request: str
    tokens_saved: int
    tokens_lost: int
    blocks_saved: int
    bytes_saved: int
    slice_used: int


@dataclass(frozen=True, slots=True)
class RequestRestored:
    """Came back with `hit_tokens` attached from the prefix cache and the rest copied in from the host."""

    request_id: str
    hit_tokens: int
    tokens_copied: int
    blocks_copied: int
    bytes_copied: int


@dataclass(frozen=True, slots=True)
class LowerTierQueried:
    """At an admission, a store below the block pool was asked for the `query_tokens` that memory did not have.

    It has answered with `found_blocks` blocks from number `first_block` on, of `num_bytes` bytes; `block_ids` are those
    that were loaded (fewer if loading failed), `hit_tokens` what they hold, `seconds` the virtual time that it took.
    `self_hit` marks an admission after a preemption.
    """

    request_id: str
    tier: str
    query_tokens: int
    hit_tokens: int
    first_block: int
    found_blocks: int
    block_ids: tuple[int, ...]
    num_bytes: int
    seconds: float
    self_hit: bool


@dataclass(frozen=True, slots=True)
class BlocksAllocated:
    request_id: str
    block_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class BlockPublished:
    """A full, computed block became findable; keys are the first 16 hex digits, "" for the root."""

    block_id: int
    key: str
    parent_key: str
    request_id: str
    index: int


@dataclass(frozen=True, slots=True)
class BlockEvicted:
    """A kept block was taken for `for_request`; its content is no longer findable there."""

    block_id: int
    key: str
    for_request: str


@dataclass(frozen=True, slots=True)
class BlocksFreed:
    """The request let go of its table; blocks that others share stay in use."""

    request_id: str
    block_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TokenSampled:
    """Output token number `index` (from 0), drawn at the end of the tick."""

    request_id: str
    index: int
    token_id: int
    text: str
    top: tuple[TokenProb, ...]


@dataclass(frozen=True, slots=True)
class RequestFinished:
    """Ended; `message` says more where the reason is an error."""

    request_id: str
    reason: FinishReason
    message: str


@dataclass(frozen=True, slots=True)
class ConfigChanged:
    """Settings changed between two ticks: (field, old, new) as text."""

    changes: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True, slots=True)
class ChunkSteered:
    """Chunk control has looked at this tick: `setting` was `old` in it and is `new` from the next one on.

    `error_s` is the target less what was measured, in seconds; a ramp has no target, and all three are 0 where nothing
    could be measured.
    """

    setting: str
    old: int
    new: int
    target_s: float
    measured_s: float
    error_s: float
    reason: SteerReason


@dataclass(frozen=True, slots=True)
class FaultInjected:
    """A copy, forward or replica failed, by accident or on purpose; `detail` says what was done about it.

    In the trace of a replica that was restarted "replica_starting" and "replica_ready" say how that went on.
    """

    name: str
    request_id: str
    detail: str


@dataclass(frozen=True, slots=True)
class FaultSwitchedOn:
    """A mistake of the museum is built into this run on purpose; see `faults.py`."""

    name: str
    description: str


@dataclass(frozen=True, slots=True)
class LawBroken:
    """A deliberate mistake has broken a law in this tick, and the run stops; `detail` says where."""

    law: Law
    detail: str


Event = (
    RequestArrived
    | RequestRefused
    | PrefixCacheQueried
    | RequestAdmitted
    | RequestScheduled
    | RequestSkipped
    | SliceExpired
    | RequestPreempted
    | RequestRestored
    | LowerTierQueried
    | BlocksAllocated
    | BlockPublished
    | BlockEvicted
    | BlocksFreed
    | TokenSampled
    | RequestFinished
    | ConfigChanged
    | ChunkSteered
    | FaultInjected
    | FaultSwitchedOn
    | LawBroken
)

EVENT_TYPES: dict[str, type[Event]] = {cls.__name__: cls for cls in Event.__args__}

"""A request: the frozen facts that a user sends, and the state the scheduler keeps of it."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum

from scheduler_core.errors import RequestError


class RequestStatus(Enum):
    """Where a request is; being in prefill or decode is not a status but follows from its numbers."""

    WAITING = "waiting"
    RUNNING = "running"
    PREEMPTED = "preempted"
    FINISHED = "finished"


class FinishReason(Enum):
    """Why a request ended."""

    STOP = "stop"
    LENGTH = "length"
    ABORT = "abort"
    REJECTED = "rejected"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How tokens are chosen; `temperature` 0 is greedy, `seed` None takes the run's."""

    max_tokens: int = 16
    temperature: float = 0.0
    top_p: float = 1.0
    seed: int | None = None
    min_tokens: int = 0
    stop_token_ids: tuple[int, ...] = ()
    ignore_eos: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.max_tokens <= 1_000_000:
            raise RequestError(f"max_tokens is {self.max_tokens}; it must be from 1 to 1000000")
        if not 0 <= self.temperature <= 10:
            raise RequestError(f"temperature is {self.temperature}; it must be from 0 to 10")
        if not 0 < self.top_p <= 1:
            raise RequestError(f"top_p is {self.top_p}; it must be above 0 and at most 1")
        if not 0 <= self.min_tokens <= self.max_tokens:
            raise RequestError(f"min_tokens is {self.min_tokens}; it must be from 0 to max_tokens ({self.max_tokens})")


@dataclass(frozen=True, slots=True)
class RequestSpec:
    """What a user sends: the prompt as token ids (and as text, for people), when, and how urgent.

    `arrival_time` is in seconds of virtual time; a lower `priority` is better; requests with different
    `salt` or `adapter` never share KV, so the name of an adapter holds its version. An id stands for one request in
    a run, also after its end.
    """

    id: str
    prompt_token_ids: tuple[int, ...]
    sampling: SamplingParams = SamplingParams()
    arrival_time: float = 0.0
    priority: int = 0
    prompt: str = ""
    salt: str = ""
    adapter: str = ""

    def __post_init__(self) -> None:
        if not self.id:
            raise RequestError("a request has an empty id; give it a name of its own")
        if not self.prompt_token_ids:
            raise RequestError(f"request {self.id!r} has an empty prompt; it needs at least one token")
        if not _are_token_ids(self.prompt_token_ids):
            raise RequestError(f"request {self.id!r} has a token id outside 0 to 2^32 - 1")
        if not 0 <= self.arrival_time < 1e12:
            raise RequestError(f"request {self.id!r} has arrival_time {self.arrival_time}; it must be from 0 to 1e12")
        if not 0 <= self.priority <= 1_000:
            raise RequestError(f"request {self.id!r} has priority {self.priority}; it must be from 0 to 1000")


def _are_token_ids(numbers: Iterable[int]) -> bool:
    # As an array, because a workload may have tens of millions of them.
    try:
        array("I", numbers)
    except OverflowError:
        return False
    return True


@dataclass(eq=False, slots=True)
class Request:
    """The scheduler's state of one request.

    `token_ids` has prompt and output, 4 bytes a token; `seed` keys the draws of the output.
    `num_computed_tokens` counts tokens whose KV is in the block table or, while preempted by swap, on the host;
    `max_computed_tokens` is the furthest it ever got, so that recomputation is not taken for progress;
    `lost_ticks` counts the ticks spent on recomputation alone, as `waited_ticks` those spent in the queue.
    """

    spec: RequestSpec
    queue_number: int
    max_total_tokens: int
    seed: int = 0
    status: RequestStatus = RequestStatus.WAITING
    finish_reason: FinishReason | None = None
    id: str = field(init=False)
    num_prompt_tokens: int = field(init=False)
    token_ids: array[int] = field(init=False)
    num_computed_tokens: int = 0
    max_computed_tokens: int = 0
    num_cached_tokens: int = 0
    num_preemptions: int = 0
    admitted_once: bool = False
    level: int = 0
    hit_blocks: int = 0
    slice_used: int = 0
    waited_ticks: int = 0
    lost_ticks: int = 0
    waiting_since: int = 0
    num_saved_tokens: int = 0
    block_keys: list[bytes] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.id = self.spec.id
        self.num_prompt_tokens = len(self.spec.prompt_token_ids)
        self.token_ids = array("I", self.spec.prompt_token_ids)

    @property
    def num_tokens(self) -> int:
        """Prompt and output tokens that exist now."""
        return len(self.token_ids)

    @property
    def num_output_tokens(self) -> int:
        return len(self.token_ids) - self.num_prompt_tokens

    @property
    def num_tokens_left(self) -> int:
        """Tokens that exist but are not computed."""
        return len(self.token_ids) - self.num_computed_tokens

    @property
    def is_decoding(self) -> bool:
        num_tokens = len(self.token_ids)
        return num_tokens - self.num_computed_tokens == 1 and num_tokens > self.num_prompt_tokens

    @property
    def idle_ticks(self) -> int:
        """Ticks without getting ahead, of those that are over: by them it ages."""
        return self.waited_ticks + self.lost_ticks

    @property
    def work_left(self) -> int:
        """Tokens to compute until the last one that max_tokens allows; never grows."""
        return self.max_total_tokens - self.max_computed_tokens

    def num_computed_before(self, start: int, end: int) -> int:
        """How many of the tokens `start .. end` have been computed at some time."""
        return max(0, min(end, self.max_computed_tokens) - start)

    def begin_with(self, num_known_tokens: int, hit_blocks: int, hit_tokens: int) -> None:
        """Enter with tokens that need not be computed; only the first entry's hits count as cached."""
        self.hit_blocks = hit_blocks
        if not self.admitted_once:
            self.admitted_once = True
            self.num_cached_tokens = hit_tokens
        self.num_computed_tokens = num_known_tokens
        self.max_computed_tokens = max(self.max_computed_tokens, num_known_tokens)

    def advance_to(self, end: int) -> None:
        """Take in that all tokens before `end` are computed; a slice is used up by new ones only."""
        self.num_computed_tokens = end
        if end > self.max_computed_tokens:
            self.max_computed_tokens = end
            self.slice_used += 1
        else:
            self.lost_ticks += 1

    def stops_at(self, token_id: int, eos_token_ids: tuple[int, ...]) -> bool:
        """Whether the newest output token ends the text."""
        sampling = self.spec.sampling
        if self.num_output_tokens < sampling.min_tokens:
            return False
        return token_id in sampling.stop_token_ids or (not sampling.ignore_eos and token_id in eos_token_ids)

"""A second set of books, kept from the events alone, that finds the laws which the scheduler's own state cannot show.

Knows nothing of queues, pools or keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from scheduler_core.config import EngineConfig
from scheduler_core.events import (
    BlockEvicted,
    BlockPublished,
    BlocksAllocated,
    BlocksFreed,
    ConfigChanged,
    Event,
    FaultInjected,
    LowerTierQueried,
    PrefixCacheQueried,
    RequestAdmitted,
    RequestArrived,
    RequestFinished,
    RequestPreempted,
    RequestRestored,
    RequestScheduled,
    TokenSampled,
)
from scheduler_core.laws import BrokenLaw, Law
from scheduler_core.request import RequestSpec

#: What a block holds: everything up to its last token, and who may share it.
Content = tuple[str, str, tuple[int, ...]]


@dataclass(slots=True)
class Account:
    """What the events say of one request: its tokens, how many are computed now and at most so far, and its blocks."""

    spec: RequestSpec
    tokens: list[int]
    computed: int = 0
    most_computed: int = 0
    hit: int = 0
    table: list[int] = field(default_factory=list)

    @property
    def num_output_tokens(self) -> int:
        return len(self.tokens) - len(self.spec.prompt_token_ids)


class Audit:
    """Reads every tick's events in their order and raises `BrokenLaw` at the first that cannot be."""

    def __init__(self, block_size: int, specs: Mapping[str, RequestSpec]) -> None:
        self._block_size = block_size
        self._specs = specs
        self._accounts: dict[str, Account] = {}
        self._filled: dict[int, int] = {}
        self._published: dict[int, Content] = {}
        self._computed_again = 0

    def read(self, events: Iterable[Event], config: EngineConfig) -> None:
        """Take in one tick."""
        new: list[BlockPublished] = []
        for event in events:
            match event:
                case RequestArrived():
                    spec = self._specs[event.request_id]
                    self._accounts[spec.id] = Account(spec, list(spec.prompt_token_ids))
                    self._computed_again = 0
                case RequestFinished():
                    self._accounts.pop(event.request_id, None)
                    self._computed_again = 0
                case ConfigChanged():
                    self._computed_again = 0
                case PrefixCacheQueried():
                    self._hit(event)
                case RequestAdmitted():
                    self._admit(event, config.admission)
                case BlocksAllocated():
                    self._allocate(event)
                case BlocksFreed():
                    self._accounts[event.request_id].table = []
                case BlockEvicted():
                    self._published.pop(event.block_id, None)
                case BlockPublished():
                    self._publish(event)
                    new.append(event)
                case RequestScheduled():
                    self._compute(event)
                case RequestRestored():
                    account = self._accounts[event.request_id]
                    self._fill(account, account.computed, event.hit_tokens + event.tokens_copied)
                case LowerTierQueried():
                    self._load(event)
                case RequestPreempted():
                    self._accounts[event.request_id].computed = event.tokens_saved
                case FaultInjected():
                    self._fail(event)
                case TokenSampled():
                    self._draw(event)
                case _:
                    pass
        self._check_computed(new)
        self._check_progress()

    def _hit(self, event: PrefixCacheQueried) -> None:
        """Every block that was found has been computed, and holds what the request would have computed."""
        account = self._accounts[event.request_id]
        for index, block in enumerate(event.hit_block_ids):
            if self._filled.get(block, 0) < self._block_size:
                raise BrokenLaw(
                    Law.COMPUTED, f"{event.request_id} was given block {block}, which has not been computed"
                )
            if self._published.get(block) != self._content(account, index):
                raise BrokenLaw(
                    Law.HITS,
                    f"{event.request_id} was given block {block} for its tokens {index * self._block_size} to "
                    f"{(index + 1) * self._block_size - 1}, but the block holds other ones",
                )
        account.table = list(event.hit_block_ids)

    def _admit(self, event: RequestAdmitted, admission: str) -> None:
        account = self._accounts[event.request_id]
        account.computed = account.hit = event.hit_tokens
        account.most_computed = max(account.most_computed, account.computed)
        promised = 0 if admission == "whole_prompt" else event.blocks_promised
        if admission != "first_chunk" and event.blocks_needed > event.blocks_free - promised:
            raise BrokenLaw(
                Law.ADMISSION,
                f"{event.request_id} was let in and needs {event.blocks_needed} blocks; {event.blocks_free} were free, "
                f"of which {event.blocks_promised} had been promised to others",
            )

    def _allocate(self, event: BlocksAllocated) -> None:
        for block in event.block_ids:
            self._filled[block] = 0
            if block in self._published:
                raise BrokenLaw(Law.CHAIN, f"{event.request_id} took block {block}, which can still be found")
        self._accounts[event.request_id].table.extend(event.block_ids)

    def _publish(self, event: BlockPublished) -> None:
        account = self._accounts[event.request_id]
        self._published[event.block_id] = self._content(account, event.index)

    def _compute(self, event: RequestScheduled) -> None:
        account = self._accounts[event.request_id]
        if event.start != account.computed:
            raise BrokenLaw(
                Law.TOKENS,
                f"{event.request_id} computed from token {event.start} on, with {account.computed} tokens computed",
            )
        end = event.start + event.num_tokens
        self._computed_again = self._computed_again + event.num_tokens if end <= account.most_computed else 0
        self._fill(account, event.start, end)

    def _load(self, event: LowerTierQueried) -> None:
        """What is loaded follows what is known, and goes into the request's own blocks."""
        account = self._accounts[event.request_id]
        first = event.first_block
        if event.block_ids != tuple(account.table[first : first + len(event.block_ids)]):
            raise BrokenLaw(Law.WRITES, f"{event.request_id} loaded into blocks that are not its own")
        if any(block in self._published for block in event.block_ids):
            raise BrokenLaw(Law.WRITES, f"{event.request_id} loaded into a block that others can find")
        if event.block_ids:
            self._fill(account, account.computed, (first + len(event.block_ids)) * self._block_size)

    def _fill(self, account: Account, start: int, end: int) -> None:
        size = self._block_size
        for index in range(start // size, -(-end // size)):
            self._filled[account.table[index]] = min(size, end - index * size)
        account.computed = end
        account.most_computed = max(account.most_computed, end)

    def _fail(self, event: FaultInjected) -> None:
        """A copy that failed brought nothing."""
        account = self._accounts.get(event.request_id)
        if account is not None and event.name == "copy_in":
            for block in account.table[account.hit // self._block_size :]:
                self._filled[block] = 0
            account.computed = account.hit
        elif account is not None and event.name == "copy_out":
            account.computed = 0

    def _draw(self, event: TokenSampled) -> None:
        account = self._accounts[event.request_id]
        if event.index != account.num_output_tokens:
            raise BrokenLaw(
                Law.TOKENS,
                f"{event.request_id} told its output token {event.index} after {account.num_output_tokens} others",
            )
        account.tokens.append(event.token_id)

    def _content(self, account: Account, index: int) -> Content:
        return account.spec.salt, account.spec.adapter, tuple(account.tokens[: (index + 1) * self._block_size])

    def _check_computed(self, events: Iterable[BlockPublished]) -> None:
        for event in events:
            filled = self._filled.get(event.block_id, 0)
            if event.block_id in self._published and filled < self._block_size:
                raise BrokenLaw(
                    Law.COMPUTED,
                    f"block {event.block_id} of {event.request_id} can be found, with {filled} of its "
                    f"{self._block_size} tokens computed",
                )

    def _check_progress(self) -> None:
        """Each request, and each block that one grows by, may set the others back once before somebody gets ahead."""
        lost = sum(account.most_computed for account in self._accounts.values())
        setbacks = len(self._accounts) + -(-lost // self._block_size)
        if self._computed_again > setbacks * lost:
            raise BrokenLaw(
                Law.PROGRESS, f"the last {self._computed_again} tokens computed had all been computed before"
            )

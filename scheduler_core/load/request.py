"""`LoadRequest`: one request of a load, small until it is sent, as its tokens are made only then."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from scheduler_core.request import RequestSpec, SamplingParams

#: Below are the special tokens of the models that we know.
FIRST_TOKEN_ID = 256

# What a stream of random numbers is for, so that no two of them are the same.
_PREFIX, _OWN = 1, 2


class Outgoing(Protocol):
    """What a sender needs to know: when it goes out, and for whom."""

    @property
    def id(self) -> str: ...

    @property
    def arrival_time(self) -> float: ...

    @property
    def tenant(self) -> str: ...


class Sendable(Outgoing, Protocol):
    """A request of a load, which can be had in tokens."""

    def spec(self) -> RequestSpec:
        """The request in tokens; the same each time."""
        ...


class Load(Protocol):
    """Requests in order of arrival; may be gone through any number of times."""

    def __iter__(self) -> Iterator[Sendable]: ...

    def __len__(self) -> int: ...


@dataclass(frozen=True, slots=True)
class LoadRequest:
    """`prefix_tokens` of the group's prefix, then `own_tokens` that nobody shares; the output has `max_tokens`.

    `number` and `seed` key its tokens; `prefix_group` is -1 without one.
    """

    id: str
    arrival_time: float
    own_tokens: int
    max_tokens: int
    seed: int
    number: int
    prefix_group: int = -1
    prefix_tokens: int = 0
    tenant: str = "all"
    priority: int = 0
    salt: str = ""
    vocab_size: int = 32_000

    @property
    def num_prompt_tokens(self) -> int:
        return self.prefix_tokens + self.own_tokens

    def prompt_token_ids(self) -> tuple[int, ...]:
        """The same each time."""
        own = self._tokens(_OWN, self.number, self.own_tokens)
        return (*self._tokens(_PREFIX, self.prefix_group, self.prefix_tokens), *own) if self.prefix_tokens else own

    def spec(self) -> RequestSpec:
        """The request in tokens. Its text does not end by itself, so that the load is what was asked for."""
        sampling = SamplingParams(self.max_tokens, ignore_eos=True)
        return RequestSpec(self.id, self.prompt_token_ids(), sampling, self.arrival_time, self.priority, salt=self.salt)

    def _tokens(self, what: int, number: int, count: int) -> tuple[int, ...]:
        random = np.random.Generator(np.random.PCG64([self.seed, what, number]))
        return tuple(random.integers(FIRST_TOKEN_ID, self.vocab_size, count, dtype=np.int64).tolist())

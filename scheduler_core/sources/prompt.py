"""Prompts that are made when they are asked for: a workload holds a recipe of each, not its tokens."""

from __future__ import annotations

import hashlib
import sys
from array import array
from collections.abc import Iterator, Sequence
from typing import Protocol, overload

#: Made-up tokens are from FIRST_TOKEN to FIRST_TOKEN + 2^15 - 1: ordinary words of every model that is run here.
FIRST_TOKEN = 32
_DIGEST_TOKENS = 16
_LANE_BITS = 16
_TOKEN_BITS = 15


class Piece(Protocol):
    """A stretch of tokens that can be made again and again, always the same."""

    def __len__(self) -> int: ...

    def tokens(self) -> array[int]: ...


class Stream:
    """`count` tokens that follow from `key`: of two streams of one key, the shorter one begins the longer one."""

    __slots__ = ("_count", "_key")

    def __init__(self, key: bytes, count: int) -> None:
        self._key = key
        self._count = count

    def __len__(self) -> int:
        return self._count

    def tokens(self) -> array[int]:
        return _tokens(_digests(self._key, self._count), self._count)


class Expansion:
    """The first `count` tokens of blocks that are known by id: equal ids make equal tokens, in every process."""

    __slots__ = ("_count", "_ids", "_tokens_per_id")

    def __init__(self, ids: array[int], tokens_per_id: int, count: int) -> None:
        self._ids = ids
        self._tokens_per_id = tokens_per_id
        self._count = count

    def __len__(self) -> int:
        return self._count

    def tokens(self) -> array[int]:
        size = self._tokens_per_id
        used = self._ids[: -(-self._count // size)]
        digests = (_digests(b"block" + block_id.to_bytes(8, "little"), size)[: 2 * size] for block_id in used)
        return _tokens(b"".join(digests), self._count)


class Literal:
    """Tokens of a text, 4 bytes each."""

    __slots__ = ("_tokens",)

    def __init__(self, token_ids: Sequence[int]) -> None:
        self._tokens = array("I", token_ids)

    def __len__(self) -> int:
        return len(self._tokens)

    def tokens(self) -> array[int]:
        return self._tokens


class Prompt(Sequence[int]):
    """Token ids in little memory: `before` (all of it), then the pieces, cut at `limit` tokens.

    It equals the tuple of its tokens, and hashes as it does.
    """

    __slots__ = ("_before", "_length", "_pieces")

    def __init__(self, pieces: Sequence[Piece], before: Prompt | None = None, limit: int | None = None) -> None:
        self._pieces = tuple(pieces)
        self._before = before
        length = sum(map(len, pieces)) + (len(before) if before is not None else 0)
        self._length = length if limit is None else min(length, limit)

    def tokens(self) -> array[int]:
        """All token ids, made anew."""
        # A conversation may have more turns than Python allows calls within calls.
        chain: list[Prompt] = []
        prompt: Prompt | None = self
        while prompt is not None:
            chain.append(prompt)
            prompt = prompt._before
        result = array("I")
        for prompt in reversed(chain):
            for piece in prompt._pieces:
                result.extend(piece.tokens())
            del result[prompt._length :]
        return result

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[int]:
        return iter(self.tokens())

    @overload
    def __getitem__(self, index: int) -> int: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[int, ...]: ...

    def __getitem__(self, index: int | slice) -> int | tuple[int, ...]:
        tokens = self.tokens()
        return tuple(tokens[index]) if isinstance(index, slice) else tokens[index]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Prompt | tuple | list):
            return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))
        return NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"<{self._length} tokens>"


def _digests(key: bytes, count: int) -> bytes:
    """Bytes for at least `count` tokens, by sha256 over the key and a counter."""
    blocks = range(-(-count // _DIGEST_TOKENS))
    return b"".join(hashlib.sha256(key + number.to_bytes(4, "little")).digest() for number in blocks)


def _tokens(data: bytes, count: int) -> array[int]:
    """The first `count` 16-bit words of `data` as token ids."""
    data = data[: 2 * count]
    # All words at once, as one long number: far faster than word by word.
    words = int.from_bytes(data, "little") & _repeated(2**_TOKEN_BITS - 1, count)
    lanes = array("H", (words + _repeated(FIRST_TOKEN, count)).to_bytes(2 * count, "little"))
    if sys.byteorder == "big":
        lanes.byteswap()
    return array("I", lanes)


def _repeated(word: int, count: int) -> int:
    return int.from_bytes(word.to_bytes(_LANE_BITS // 8, "little") * count, "little")

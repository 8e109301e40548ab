"""How many tokens a hash id stands for, told from the lengths: a trace does not say it."""

from __future__ import annotations

from collections.abc import Sequence

from scheduler_core.sources.record import SourceRequest

_CANDIDATES = tuple(2**power for power in range(3, 13))


def infer_block_size(requests: Sequence[SourceRequest], expected: int) -> int:
    """The size that most rows agree with; `expected` where that is not decided."""
    best, most = expected, _count_fitting(requests, expected)
    for size in _CANDIDATES:
        if most == len(requests):
            break
        if (count := _count_fitting(requests, size)) > most:
            best, most = size, count
    return best


def fits(request: SourceRequest, block_size: int) -> bool:
    """Whether the ids cover the prompt: all its blocks, or all but the last one, which is not full."""
    length = request.prompt_tokens or 0
    return len(request.hash_ids or ()) in (length // block_size, -(-length // block_size))


def misfit(request: SourceRequest, block_size: int) -> str:
    """Why the row of such a request is left out."""
    length = request.prompt_tokens or 0
    return (
        f"has {len(request.hash_ids or ()):,} hash ids for {length:,} tokens; "
        f"in blocks of {block_size} there must be {-(-length // block_size):,}"
    )


def _count_fitting(requests: Sequence[SourceRequest], block_size: int) -> int:
    return sum(fits(request, block_size) for request in requests)

"""Prompts as the blocks that a prefix cache sees."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from scheduler_core.backends.synthetic import SyntheticRunner
from scheduler_core.errors import BenchError
from scheduler_core.load.request import Load, Sendable
from scheduler_core.sources.conversion import to_specs
from scheduler_core.sources.record import Source, SourceRequest
from scheduler_core.sources.shape import Shape, shape

DEFAULT_BLOCK_SIZE = 16
MAX_BLOCK_SIZE = 4_096
#: A hash id has 64 bits, a token of the cache 32.
_WORDS_OF_ID = 2


@dataclass(frozen=True, slots=True)
class PromptBlocks:
    """The blocks of a prompt: each has `words_per_block` of the `words`, which tell its content, and no others do.

    Each stands for `block_size` tokens; the last one of a trace with ids may stand for fewer.
    """

    words: array[int]
    words_per_block: int
    block_size: int
    num_tokens: int

    @property
    def num_blocks(self) -> int:
        return len(self.words) // self.words_per_block

    def num_tokens_in(self, num_blocks: int) -> int:
        """Tokens in the first `num_blocks` blocks."""
        return min(self.num_tokens, num_blocks * self.block_size)


#: Made one by one, as all together may be large.
Prompts = Sequence[Callable[[], PromptBlocks]]


def prompts_of(source: Source, block_size: int | None) -> tuple[Prompts, int]:
    """All prompts in order of arrival, and the size of a block in tokens; raises `BenchError`."""
    own = source.report.block_size
    if own is not None:
        if block_size not in (None, own):
            raise BenchError(
                f"block-size is {block_size}; the ids of {source.report.name} stand for blocks of {own} tokens: "
                f"leave it out, or give {own}"
            )
        return [partial(_of_ids, request, own) for request in source.requests], own
    if not any(request.text or request.conversation for request in source.requests):
        raise BenchError(
            f"{source.report.name} tells only lengths, so no two prompts have anything in common; "
            "take a trace with hash ids, texts or conversations"
        )
    size = DEFAULT_BLOCK_SIZE if block_size is None else block_size
    if not 1 <= size <= MAX_BLOCK_SIZE:
        raise BenchError(f"block-size is {size}; it must be from 1 to {MAX_BLOCK_SIZE:,} tokens")
    specs = to_specs(shape(source, Shape()), SyntheticRunner())
    return [partial(_of_tokens, spec.prompt_token_ids, size) for spec in specs], size


def prompts_of_load(load: Load, block_size: int) -> Prompts:
    """The prompts of a generated load, in blocks of our own size."""
    return [partial(_of_request, request, block_size) for request in load]


def _of_request(request: Sendable, block_size: int) -> PromptBlocks:
    return _of_tokens(request.spec().prompt_token_ids, block_size)


def _of_ids(request: SourceRequest, block_size: int) -> PromptBlocks:
    ids = request.hash_ids or array("Q")
    return PromptBlocks(array("I", ids.tobytes()), _WORDS_OF_ID, block_size, request.prompt_tokens or 0)


def _of_tokens(token_ids: Sequence[int], block_size: int) -> PromptBlocks:
    """Only full blocks, as in a run: a partial one has no name."""
    tokens = array("I", token_ids)
    full = len(tokens) // block_size * block_size
    return PromptBlocks(tokens[:full], block_size, block_size, len(tokens))

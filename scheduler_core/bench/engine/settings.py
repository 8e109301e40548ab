"""What is the same for all contenders."""

from __future__ import annotations

BLOCK_SIZE = 16
MAX_SEQS = 16
#: Tokens in one forward at most.
TOKEN_BUDGET = 512


def blocks_for(prompts: list[list[int]], max_tokens: int) -> int:
    """Enough for all prompts and their outputs at once."""
    return sum(-(-(len(prompt) + max_tokens) // BLOCK_SIZE) for prompt in prompts)

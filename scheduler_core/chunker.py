"""How many tokens of one request go into a tick."""

from __future__ import annotations

from scheduler_core.config import EngineConfig


class Chunker:
    """The limits of one tick: the largest chunk of a request, and what is left of the token budget."""

    def __init__(self, config: EngineConfig, num_alive: int) -> None:
        lone = num_alive == 1 and not config.cap_lone_request
        self.cap = config.max_num_batched_tokens if lone else config.largest_chunk
        self.whole = not config.enable_chunked_prefill
        self.budget = config.max_num_batched_tokens
        self.budget_left = config.max_num_batched_tokens

    def chunk(self, tokens_left: int, budget_left: int | None = None) -> int:
        """Tokens to compute of `tokens_left`; 0 when the budget is used up.

        Without chunking the sequence runs whole, even past the budget, as long as some budget is left.
        """
        left = self.budget_left if budget_left is None else budget_left
        if left <= 0:
            return 0
        if self.whole:
            return tokens_left
        return min(tokens_left, self.cap, left)

    def take(self, num_tokens: int) -> None:
        self.budget_left -= num_tokens

    def give_back(self, num_tokens: int) -> None:
        self.budget_left += num_tokens

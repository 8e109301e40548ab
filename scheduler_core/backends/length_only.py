"""A model for big simulations: it computes nothing, ends no text by itself, and draws words that cost very little."""

from __future__ import annotations

from scheduler_core.backends.kv_bytes import KVBytes
from scheduler_core.backends.synthetic import SyntheticRunner
from scheduler_core.output import ModelRunnerOutput, SampledToken, SchedulerOutput
from scheduler_core.trace import Backend

_FIRST_WORD_ID = 16
_NUM_WORDS = 4_096
#: Odd, so that successive places of an output get different words.
_STRIDE = 2_654_435_761
_NO_KV = KVBytes("uint64", (1,), bytes(8))


class LengthOnlyRunner(SyntheticRunner):
    """Tokens follow from the request's seed and the place in its output alone, so no schedule can change them.

    Unlike its parent it keeps no KV, and so cannot notice a block that is shared or restored wrongly.
    """

    def __init__(self, kv_bytes_per_token: int = 0) -> None:
        super().__init__(kv_bytes_per_token=kv_bytes_per_token)
        ids = range(_FIRST_WORD_ID, _FIRST_WORD_ID + _NUM_WORDS)
        self._words = tuple(SampledToken(token_id, self.token_text(token_id)) for token_id in ids)

    @property
    def backend(self) -> Backend:
        return Backend(
            kind="synthetic",
            model="lengths only",
            dtype="none",
            weights_digest="lengths-only",
            kv_bytes_per_token=self._kv_bytes_per_token,
            eos_token_ids=self.eos_token_ids,
        )

    def allocate(self, num_blocks: int, block_size: int) -> None:
        """There is no KV to make room for."""
        self._block_size = block_size

    def execute_model(self, output: SchedulerOutput) -> ModelRunnerOutput:
        words = self._words
        return ModelRunnerOutput(
            {
                item.request_id: words[(item.seed + item.output_index * _STRIDE >> 7) % _NUM_WORDS]
                for item in output.scheduled
                if item.samples
            }
        )

    def copy_out(self, block_ids: tuple[int, ...]) -> tuple[int, ...]:
        """There is no KV to save; the numbers stand for it."""
        return block_ids

    def copy_in(self, saved: object, first_block: int, block_ids: tuple[int, ...]) -> None:
        """There is no KV to restore."""

    def pack(self, saved: tuple[int, ...]) -> list[KVBytes]:
        """A store below may be simulated as well: it keeps names, and nothing under them."""
        return [_NO_KV] * len(saved)

    def unpack(self, block: KVBytes) -> tuple[()]:
        return ()

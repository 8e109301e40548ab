"""What the engine asks of a model, whatever kind it is."""

from __future__ import annotations

import hashlib
from typing import Any, Protocol

from scheduler_core.output import ModelRunnerOutput, SchedulerOutput
from scheduler_core.request import RequestSpec
from scheduler_core.trace import Backend


class CopyError(Exception):
    """A copy of KV between device and host failed; the engine falls back to recomputation."""


class ModelRunner(Protocol):
    """Computes a tick. Keeps KV blocks, but nothing about any request."""

    @property
    def backend(self) -> Backend:
        """Facts about the model for the trace's header."""
        ...

    @property
    def eos_token_ids(self) -> tuple[int, ...]:
        """Tokens that end a text."""
        ...

    @property
    def max_model_len(self) -> int | None:
        """The longest sequence the model can take, in tokens; None = no bound."""
        ...

    def allocate(self, num_blocks: int, block_size: int) -> None:
        """Make KV memory for a run; forgets any earlier."""
        ...

    def encode(self, text: str) -> tuple[int, ...]:
        """Token ids of a plain text, without special tokens added."""
        ...

    def encode_chat(self, text: str, system: str | None = None) -> tuple[int, ...]:
        """Token ids of a user's message in the model's chat template, ready for the answer."""
        ...

    def decode(self, token_ids: tuple[int, ...] | list[int]) -> str:
        """The text of output tokens, special tokens left out."""
        ...

    def token_text(self, token_id: int) -> str:
        """The text of one token, for display; special tokens by name."""
        ...

    def execute_model(self, output: SchedulerOutput) -> ModelRunnerOutput:
        """Compute KV for every scheduled token in one forward pass and draw where asked."""
        ...

    def copy_out(self, block_ids: tuple[int, ...]) -> Any:
        """A host copy of whole blocks; raises `CopyError`."""
        ...

    def copy_in(self, saved: Any, first_block: int, block_ids: tuple[int, ...]) -> None:
        """Write blocks `first_block ..` of a saved copy to `block_ids`; raises `CopyError`."""
        ...


def request_seed(run_seed: int, spec: RequestSpec) -> int:
    """The seed of one request: its own, or one derived from the run's seed and its id."""
    if spec.sampling.seed is not None:
        return spec.sampling.seed
    digest = hashlib.sha256(f"{run_seed}:{spec.id}".encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8], "little") >> 1

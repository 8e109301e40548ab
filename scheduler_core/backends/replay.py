"""The tokens of a recorded run, for any schedule: what a request says does not depend on when it is computed."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from scheduler_core.errors import ModelError
from scheduler_core.events import TokenSampled
from scheduler_core.output import ModelRunnerOutput, SampledToken, ScheduledRequest, SchedulerOutput
from scheduler_core.trace import Backend, Trace


class ReplayRunner:
    """Answers with what the recording drew for the same request and the same output token.

    A request or a token that was not recorded fails with a message. Prompts cannot be encoded: use those of the trace.
    """

    def __init__(self, trace: Trace) -> None:
        self._backend = dataclasses.replace(
            trace.backend, kind="replay", recorded_kind=trace.backend.recorded_kind or trace.backend.kind
        )
        self._texts = trace.token_texts
        self._special = set(trace.backend.eos_token_ids)
        self._prompts = {spec.id: spec.prompt_token_ids for spec in trace.requests}
        self._tokens: dict[str, list[SampledToken]] = {}
        for record in trace.records:
            for event in record.events:
                if isinstance(event, TokenSampled):
                    token = SampledToken(event.token_id, event.text, event.top)
                    self._tokens.setdefault(event.request_id, []).append(token)

    @property
    def backend(self) -> Backend:
        return self._backend

    @property
    def eos_token_ids(self) -> tuple[int, ...]:
        return self._backend.eos_token_ids

    @property
    def max_model_len(self) -> int | None:
        return None

    def allocate(self, num_blocks: int, block_size: int) -> None:
        """Nothing to allocate: recorded tokens need no KV."""

    def encode(self, text: str) -> tuple[int, ...]:
        raise ModelError("a recording has no tokenizer; new prompts need the model or the synthetic backend")

    def encode_chat(self, text: str, system: str | None = None) -> tuple[int, ...]:
        return self.encode(text)

    def decode(self, token_ids: Sequence[int]) -> str:
        return "".join(self.token_text(t) for t in token_ids if t not in self._special)

    def token_text(self, token_id: int) -> str:
        return self._texts.get(token_id, f"<{token_id}>")

    def execute_model(self, output: SchedulerOutput) -> ModelRunnerOutput:
        sampled: dict[str, SampledToken] = {}
        failed: dict[str, str] = {}
        for item in output.scheduled:
            if item.samples:
                self._draw(item, sampled, failed)
        return ModelRunnerOutput(sampled, failed=failed)

    def copy_out(self, block_ids: tuple[int, ...]) -> Any:
        return block_ids

    def copy_in(self, saved: Any, first_block: int, block_ids: tuple[int, ...]) -> None:
        """Nothing to copy: recorded tokens need no KV."""

    def _draw(self, item: ScheduledRequest, sampled: dict[str, SampledToken], failed: dict[str, str]) -> None:
        recorded = self._tokens.get(item.request_id, [])
        if item.output_index < len(recorded):
            sampled[item.request_id] = recorded[item.output_index]
        else:
            failed[item.request_id] = (
                f"the recording holds {len(recorded)} tokens of {item.request_id}; run it live for more"
            )

"""Requests of a shaped workload as the engine takes them, with their tokens."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from scheduler_core.errors import RequestError, WorkloadError
from scheduler_core.request import RequestSpec, SamplingParams
from scheduler_core.sources.formats import MAX_TURNS
from scheduler_core.sources.limits import MAX_TOKENS
from scheduler_core.sources.prompt import Expansion, Literal, Prompt, Stream
from scheduler_core.sources.record import SourceRequest
from scheduler_core.sources.shape import ShapedWorkload, seeded_key
from scheduler_core.workload import Encoder

#: So many are made in about a minute.
MAX_TOTAL_TOKENS = 500_000_000


def to_specs(workload: ShapedWorkload, encoder: Encoder) -> tuple[RequestSpec, ...]:
    """The requests for the engine; `encoder` turns texts into tokens. Raises `WorkloadError`.

    Prompts are made when they are read, so that 20,000 long ones take little memory. In a conversation of texts a later
    prompt begins with the earlier one and its answer, for which made-up tokens of its length stand; in one of lengths
    the shorter prompt begins the longer one.
    """
    return tuple(_Conversion(workload, encoder).specs())


class _Conversion:
    """Makes the specs of one workload."""

    def __init__(self, workload: ShapedWorkload, encoder: Encoder) -> None:
        self._workload = workload
        self._encoder = encoder
        self._shape = workload.report.shape
        self._spoken: dict[str, Prompt] = {}
        self._turns: dict[str, int] = {}
        self._num_tokens = 0

    def specs(self) -> Iterator[RequestSpec]:
        for request in self._workload.requests:
            try:
                yield self._spec(request, self._prompt(request))
            except RequestError as problem:
                raise WorkloadError(f"line {request.line}: {problem}") from None

    def _spec(self, request: SourceRequest, prompt: Prompt) -> RequestSpec:
        self._num_tokens += len(prompt)
        if self._num_tokens > MAX_TOTAL_TOKENS:
            raise RequestError(
                f"up to here the prompts have {self._num_tokens:,} tokens; at most {MAX_TOTAL_TOKENS:,} are taken: "
                "keep only the first requests or a sample, or divide the lengths by a scale"
            )
        return RequestSpec(
            request.id,
            # The engine only counts and reads a prompt; a tuple would hold each token of every request at once.
            cast("tuple[int, ...]", prompt),
            SamplingParams(request.output_tokens or self._shape.output_tokens, ignore_eos=True),
            request.arrival,
            request.priority,
            request.text,
        )

    def _prompt(self, request: SourceRequest) -> Prompt:
        if request.text:
            return self._written(request)
        length = request.prompt_tokens or 1
        key = seeded_key(self._shape.seed, "prompt", request.conversation or request.id)
        if request.hash_ids is None:
            return Prompt([Stream(key, length)])
        size = self._workload.report.tokens_per_id or 1
        known = min(length, len(request.hash_ids) * size)
        return Prompt([Expansion(request.hash_ids, size, known), Stream(key, length - known)])

    def _written(self, request: SourceRequest) -> Prompt:
        """What was said so far, and this turn; never cut before the next turn goes on from it."""
        said = Literal(self._encoder.encode_chat(request.text))
        whole = Prompt([said], before=self._spoken.get(request.conversation))
        if len(whole) > MAX_TOKENS:
            raise RequestError(
                f"the prompt has {len(whole):,} tokens; at most {MAX_TOKENS:,} are taken: leave turns out"
            )
        if request.conversation:
            self._go_on(request, whole)
        return Prompt([], before=whole, limit=self._shape.max_prompt_tokens)

    def _go_on(self, request: SourceRequest, whole: Prompt) -> None:
        name = request.conversation
        self._turns[name] = self._turns.get(name, 0) + 1
        if self._turns[name] > MAX_TURNS:
            raise RequestError(f"conversation {name!r} has more than {MAX_TURNS:,} turns; leave some out")
        answer = Stream(seeded_key(self._shape.seed, "answer", request.id), request.output_tokens or 1)
        self._spoken[name] = Prompt([answer], before=whole)

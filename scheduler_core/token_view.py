"""The text of a request as token chips: where each token came from, and when."""

from __future__ import annotations

from dataclasses import dataclass

from scheduler_core.events import LowerTierQueried, RequestAdmitted, TokenSampled
from scheduler_core.lookup import require_full, spec_of
from scheduler_core.output import TokenProb
from scheduler_core.trace import Trace


@dataclass(frozen=True, slots=True)
class Chip:
    """A token: `kind` is "cached", "computed", "generated" or "todo"; `tick` is when it got there (None = not yet).

    A prompt token is cached if its KV was found, in memory or in a tier below, before the request computed it. `top`
    are the candidates for a generated token, best first.
    """

    token_id: int
    text: str
    kind: str
    tick: int | None
    top: tuple[TokenProb, ...] = ()


@dataclass(frozen=True, slots=True)
class RequestText:
    """The prompt and the answer of one request, token by token."""

    request_id: str
    prompt: tuple[Chip, ...]
    output: tuple[Chip, ...]


def text_of(trace: Trace, request_id: str, tick: int | None = None) -> RequestText:
    """The text as of the end of `tick` (None = the whole run); raises `TraceError` for an unknown id."""
    require_full(trace)
    spec, config = spec_of(trace, request_id), trace.config
    kinds: list[tuple[str, int]] = []
    output: list[Chip] = []
    for record in trace.records if tick is None else trace.records[: tick + 1]:
        for event in record.events:
            if isinstance(event, RequestAdmitted) and event.request_id == request_id:
                _extend(kinds, event.hit_tokens, "cached", record.tick)
            if isinstance(event, LowerTierQueried) and event.request_id == request_id:
                _extend(kinds, event.first_block * config.block_size + event.hit_tokens, "cached", record.tick)
            if isinstance(event, TokenSampled) and event.request_id == request_id:
                output.append(Chip(event.token_id, event.text, "generated", record.tick, event.top))
        for item in record.output.scheduled:
            if item.request_id == request_id:
                _extend(kinds, item.end, "computed", record.tick)
    prompt = []
    for position, token_id in enumerate(spec.prompt_token_ids):
        kind, when = kinds[position] if position < len(kinds) else ("todo", None)
        prompt.append(Chip(token_id, trace.token_texts.get(token_id, ""), kind, when))
    return RequestText(request_id, tuple(prompt), tuple(output))


def _extend(kinds: list[tuple[str, int]], length: int, kind: str, tick: int) -> None:
    kinds.extend([(kind, tick)] * (length - len(kinds)))

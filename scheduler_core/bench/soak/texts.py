"""Whether answers from under load are those that the requests get alone: computed here, in an engine of their own."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from scheduler_core.backends.base import ModelRunner
from scheduler_core.bench.soak.plan import SoakRequest
from scheduler_core.config import EngineConfig
from scheduler_core.events import TokenSampled
from scheduler_core.solo import TIE, solo_run


@dataclass(frozen=True, slots=True)
class TextsVerdict:
    """`ties` differ from where two candidates' logits are closer than rounding goes; `wrong` name the request."""

    compared: int
    equal: int
    ties: int
    wrong: tuple[str, ...]


def compare(
    requests: Sequence[SoakRequest],
    texts: Mapping[str, str],
    runner: ModelRunner,
    progress: Callable[[str], None],
) -> TextsVerdict:
    """Of those requests that have a text."""
    equal, ties, wrong, done = 0, 0, [], [each for each in requests if each.id in texts]
    config = EngineConfig(max_model_len=2_048)
    for number, request in enumerate(done, 1):
        progress(f"text {number} of {len(done)}")
        alone = [
            event
            for record in solo_run(request.spec(), config, runner).records
            for event in record.events
            if isinstance(event, TokenSampled)
        ]
        margin = _margin_where_different(texts[request.id], alone, runner)
        if margin is None:
            equal += 1
        elif margin < TIE:
            ties += 1
        else:
            wrong.append(request.id)
    return TextsVerdict(len(done), equal, ties, tuple(wrong))


def _margin_where_different(text: str, alone: Sequence[TokenSampled], runner: ModelRunner) -> float | None:
    """The margin of the two best logits at the first token that shows a difference; None where there is none."""
    token_ids = [event.token_id for event in alone]
    if runner.decode(token_ids) == text:
        return None
    for count, event in enumerate(alone, 1):
        if not text.startswith(runner.decode(token_ids[:count]).rstrip("\ufffd")):
            top = event.top
            return math.log(top[0].prob / top[1].prob) if len(top) > 1 and top[1].prob > 0 else math.inf
    return math.inf

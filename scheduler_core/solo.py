"""What a request says alone, and which requests of a run say something else: a schedule must not change a text."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

from scheduler_core.backends.base import ModelRunner
from scheduler_core.config import EngineConfig
from scheduler_core.engine import Engine
from scheduler_core.events import RequestFinished, TokenSampled
from scheduler_core.metrics import COMPLETED
from scheduler_core.request import RequestSpec
from scheduler_core.trace import Trace

#: Rounding may turn the order of two candidates whose logits are closer than this.
TIE = 1e-3

_BLOCK_SIZE = 16


@dataclass(frozen=True, slots=True)
class WrongText:
    """A text that differs from the one said alone, from output token `index` on; None stands for the end of a text.

    `margin` is how far apart the two best logits were there when alone; None if that was not recorded.
    """

    request_id: str
    index: int
    token_id: int | None
    token_id_alone: int | None
    margin: float | None

    @property
    def is_tie(self) -> bool:
        """Whether rounding alone explains the difference: a tie, not a fault."""
        return self.margin is not None and self.margin < TIE


def wrong_texts(trace: Trace, runner: ModelRunner) -> tuple[WrongText, ...]:
    """The requests that say something else than alone, in order of sending; `runner` has to be of the same model.

    A request that has not completed is compared as far as it got.
    """
    if runner.backend.weights_digest != trace.backend.weights_digest:
        raise ValueError(f"the run is one of {trace.backend.model}, not of {runner.backend.model}")
    said = _tokens(trace)
    ends = [event for record in trace.records for event in record.events if isinstance(event, RequestFinished)]
    completed = {event.request_id for event in ends if event.reason in COMPLETED}
    found = []
    for spec in trace.requests:
        if spec.id in said:
            alone = _tokens(solo_run(spec, trace.config, runner))[spec.id]
            wrong = _compare(spec.id, said[spec.id], alone, whole=spec.id in completed)
            found += [wrong] if wrong is not None else []
    return tuple(found)


def solo_run(spec: RequestSpec, config: EngineConfig, runner: ModelRunner) -> Trace:
    """One request alone: whole prompt at once, no cache, all the memory that it needs."""
    alone = EngineConfig(
        block_size=_BLOCK_SIZE,
        num_blocks=-(-config.max_model_len // _BLOCK_SIZE),
        max_model_len=config.max_model_len,
        enable_chunked_prefill=False,
        enable_prefix_caching=False,
        quantum=None,
        seed=config.seed,
    )
    engine = Engine(alone, runner)
    engine.add_request(dataclasses.replace(spec, arrival_time=0.0))
    return engine.run()


def _tokens(trace: Trace) -> dict[str, list[TokenSampled]]:
    tokens: dict[str, list[TokenSampled]] = {}
    for record in trace.records:
        for event in record.events:
            if isinstance(event, TokenSampled):
                tokens.setdefault(event.request_id, []).append(event)
    return tokens


def _compare(request_id: str, said: list[TokenSampled], alone: list[TokenSampled], whole: bool) -> WrongText | None:
    length = max(len(said), len(alone)) if whole else len(said)
    for index in range(length):
        here = said[index].token_id if index < len(said) else None
        there = alone[index].token_id if index < len(alone) else None
        if here != there:
            return WrongText(request_id, index, here, there, _margin(alone[index]) if there is not None else None)
    return None


def _margin(event: TokenSampled) -> float | None:
    if len(event.top) < 2 or event.top[1].prob <= 0:
        return None
    return math.log(event.top[0].prob / event.top[1].prob)

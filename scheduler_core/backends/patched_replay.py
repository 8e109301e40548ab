"""Recorded tokens where there are any, made-up ones elsewhere: for a recorded run to which something was added."""

from __future__ import annotations

import zlib
from collections.abc import Mapping

from scheduler_core.backends.replay import ReplayRunner
from scheduler_core.backends.synthetic import SyntheticRunner
from scheduler_core.events import TokenSampled
from scheduler_core.output import SampledToken, ScheduledRequest
from scheduler_core.trace import Trace

#: Token ids from here on are made up: no recorded vocabulary reaches so far, so none is taken for a model's.
MADE_UP_FROM = 1_000_000_000
_FIRST_WORD, _NUM_WORDS = 16, 39_984


class PatchedReplay(ReplayRunner):
    """A replay that never runs out: it makes up the tokens that were not recorded, with ids of their own.

    `same_as` names, for a request that asks what a recorded one asked, that one: it gets the same answer.
    """

    def __init__(self, trace: Trace, same_as: Mapping[str, str] | None = None) -> None:
        super().__init__(trace)
        self._words = SyntheticRunner()
        for request_id, recorded in (same_as or {}).items():
            self._tokens[request_id] = self._tokens.get(recorded, [])

    def encode(self, text: str) -> tuple[int, ...]:
        return tuple(MADE_UP_FROM + token_id for token_id in self._words.encode(text))

    def encode_chat(self, text: str, system: str | None = None) -> tuple[int, ...]:
        return tuple(MADE_UP_FROM + token_id for token_id in self._words.encode_chat(text, system))

    def token_text(self, token_id: int) -> str:
        if token_id >= MADE_UP_FROM:
            return self._words.token_text(token_id - MADE_UP_FROM)
        return super().token_text(token_id)

    def _draw(self, item: ScheduledRequest, sampled: dict[str, SampledToken], failed: dict[str, str]) -> None:
        if item.output_index < len(self._tokens.get(item.request_id, [])):
            super()._draw(item, sampled, failed)
            return
        draw = zlib.crc32(f"{item.request_id}:{item.output_index}".encode("utf-8", "surrogatepass"))
        word = MADE_UP_FROM + _FIRST_WORD + draw % _NUM_WORDS
        sampled[item.request_id] = SampledToken(word, self.token_text(word))


def made_up(trace: Trace) -> tuple[str, ...]:
    """The requests whose answers hold tokens that no model computed, of a run with patched tokens."""
    found = {
        event.request_id
        for record in trace.records
        for event in record.events
        if isinstance(event, TokenSampled) and event.token_id >= MADE_UP_FROM
    }
    return tuple(spec.id for spec in trace.requests if spec.id in found)

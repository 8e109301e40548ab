"""Turns output tokens into text as they come: never half a character, never a stop string or the start of one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

Decode = Callable[[list[int]], str]

#: What a decoder writes for bytes that are not (yet) a character.
_HALF = "\ufffd"
#: A character has at most four bytes, so more tokens without one are no half of anything.
_MOST_HALVES = 8


class Detokenizer:
    """Decodes a growing list of tokens; what was given out never changes.

    Decodes only the newest tokens, together with those given out last: how a token reads depends on the one before.
    """

    def __init__(self, decode: Decode) -> None:
        self._decode = decode
        self._token_ids: list[int] = []
        self._context = 0
        self._read = 0

    def add(self, token_id: int) -> str:
        """The text that is certain now."""
        self._token_ids.append(token_id)
        return self._advance(keep_half=True)

    def finish(self) -> str:
        """What is left, half a character as well."""
        return self._advance(keep_half=False)

    def _advance(self, keep_half: bool) -> str:
        before = self._decode(self._token_ids[self._context : self._read])
        now = self._decode(self._token_ids[self._context :])
        is_half = now.endswith(_HALF) or len(now) <= len(before)
        if is_half and keep_half and len(self._token_ids) - self._read < _MOST_HALVES:
            return ""
        self._context, self._read = self._read, len(self._token_ids)
        return now[len(before) :]


class StopStrings:
    """Holds text back while it may be the start of a stop string; ends at the first that is complete."""

    def __init__(self, strings: Sequence[str]) -> None:
        self._strings = tuple(strings)
        self._held = ""
        self.found: str | None = None

    def add(self, text: str, checked: bool = True) -> str:
        """The text that may be shown. Unless `checked`, nothing in it is taken for a stop string."""
        if not self._strings:
            return text
        if not checked:
            return text
        self._held += text
        places = [(self._held.find(each), each) for each in self._strings]
        hits = [(place, each) for place, each in places if place >= 0]
        if hits:
            place, self.found = min(hits, key=lambda hit: (hit[0], len(hit[1])))
            shown, self._held = self._held[:place], ""
            return shown
        keep = max(_overlap(self._held, each) for each in self._strings)
        shown, self._held = self._held[: len(self._held) - keep], self._held[len(self._held) - keep :]
        return shown

    def finish(self) -> str:
        """What was held back and turned out to be nothing else than text."""
        shown, self._held = self._held, ""
        return shown


def _overlap(text: str, stop: str) -> int:
    """The length of the longest end of `text` that `stop` begins with."""
    for length in range(min(len(text), len(stop) - 1), 0, -1):
        if stop.startswith(text[len(text) - length :]):
            return length
    return 0


class TextStream:
    """Both together: tokens in, text that may be shown out."""

    def __init__(self, decode: Decode, stop: Sequence[str], min_tokens: int = 0) -> None:
        self._detokenizer = Detokenizer(decode)
        self._stops = StopStrings(stop)
        self._min_tokens = min_tokens
        self._num_tokens = 0

    @property
    def has_stopped(self) -> bool:
        return self._stops.found is not None

    def add(self, token_id: int) -> str:
        self._num_tokens += 1
        return self._stops.add(self._detokenizer.add(token_id), self._num_tokens > self._min_tokens)

    def finish(self) -> str:
        """The rest, once no more tokens come."""
        rest = self._stops.add(self._detokenizer.finish(), self._num_tokens > self._min_tokens)
        return rest if self.has_stopped else rest + self._stops.finish()

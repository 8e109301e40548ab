"""The bodies of answers in OpenAI's format."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from scheduler_core.request import FinishReason
from scheduler_core.serving.errors import GaveUp, ServingError

_REASONS = {FinishReason.STOP: "stop", FinishReason.LENGTH: "length"}


@dataclass(frozen=True, slots=True)
class Answer:
    """What all bodies of one answer share; `is_chat` says in which of the two formats it is."""

    id: str
    model: str
    created: int
    is_chat: bool
    wants_usage: bool = False

    def whole(self, text: str, reason: FinishReason | None, usage: dict[str, Any]) -> dict[str, Any]:
        """The answer at once."""
        if self.is_chat:
            said: dict[str, Any] = {"message": {"role": "assistant", "content": text, "refusal": None}}
        else:
            said = {"text": text}
        return {**self._head("chat.completion"), "choices": [self._choice(said, reason)], "usage": usage}

    def chunk(self, text: str, reason: FinishReason | None = None, *, first: bool = False) -> dict[str, Any]:
        """A part of a stream."""
        if not self.is_chat:
            said: dict[str, Any] = {"text": text}
        elif reason is not None and not text:
            said = {"delta": {}}
        else:
            said = {"delta": {"role": "assistant", "content": text} if first else {"content": text}}
        return {
            **self._head("chat.completion.chunk"),
            "choices": [self._choice(said, reason)],
            **({"usage": None} if self.wants_usage else {}),
        }

    def usage_chunk(self, usage: dict[str, Any]) -> dict[str, Any]:
        """The last part of a stream, for those who asked for it."""
        return {**self._head("chat.completion.chunk"), "choices": [], "usage": usage}

    def _head(self, chat_object: str) -> dict[str, Any]:
        return {
            "id": self.id,
            "object": chat_object if self.is_chat else "text_completion",
            "created": self.created,
            "model": self.model,
        }

    def _choice(self, said: dict[str, Any], reason: FinishReason | None) -> dict[str, Any]:
        return {"index": 0, **said, "logprobs": None, "finish_reason": _REASONS[reason] if reason else None}


def usage(prompt_tokens: int, completion_tokens: int, cached_tokens: int) -> dict[str, Any]:
    return {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": completion_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
        "prompt_tokens_details": {"cached_tokens": cached_tokens},
    }


def error_body(message: str, kind: str, code: str | None = None, param: str | None = None) -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def body_of(problem: ServingError) -> dict[str, Any]:
    """The error body of a request that was not answered."""
    body = error_body(str(problem), problem.kind, problem.code)
    if isinstance(problem, GaveUp):
        body["error"]["dead_letter"] = problem.letter_id
    return body

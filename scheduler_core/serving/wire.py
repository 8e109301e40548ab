"""The bodies of requests in OpenAI's format, checked: what is not known is let through, what cannot be done is not."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

MAX_STOP_STRINGS = 4
MAX_STOP_LENGTH = 256

#: Fields that would change the answer and cannot be done -> the values that change nothing.
_COMMON_REFUSED: dict[str, tuple[Any, ...]] = {
    "n": (None, 1),
    "logit_bias": (None, {}),
    "presence_penalty": (None, 0, 0.0),
    "frequency_penalty": (None, 0, 0.0),
    "response_format": (None, {"type": "text"}),
    "top_k": (None, -1, 0),
    "min_p": (None, 0, 0.0),
    "repetition_penalty": (None, 1, 1.0),
    "prompt_logprobs": (None,),
}
_COMPLETION_REFUSED = {
    **_COMMON_REFUSED,
    "best_of": (None, 1),
    "echo": (None, False),
    "suffix": (None, ""),
    "logprobs": (None,),
}
_CHAT_REFUSED = {
    **_COMMON_REFUSED,
    "logprobs": (None, False),
    "top_logprobs": (None, 0),
    "tools": (None, []),
    "tool_choice": (None, "none", "auto"),
    "functions": (None, []),
    "function_call": (None, "none", "auto"),
    "audio": (None,),
    "modalities": (None, ["text"]),
    "prediction": (None,),
    "web_search_options": (None,),
    "store": (None, False),
}


def _without_halves(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as problem:
        raise ValueError(f"half of a character (U+{ord(text[problem.start]):04X}) at place {problem.start}") from None
    return text


Text = Annotated[str, AfterValidator(_without_halves)]
TokenId = Annotated[int, Field(ge=0, lt=2**32)]


class _Body(BaseModel):
    model_config = ConfigDict(strict=True, extra="allow")


class StreamOptions(_Body):
    include_usage: bool | None = None


class _Common(_Body, ABC):
    """What both kinds of request have; the last five fields are additions. A lower `priority` goes first."""

    model: Text
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    seed: Annotated[int, Field(ge=-(2**63), lt=2**63)] | None = None
    stop: Text | list[Text] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    min_tokens: Annotated[int, Field(ge=0)] | None = None
    stop_token_ids: list[TokenId] | None = None
    ignore_eos: bool | None = None
    priority: Annotated[int, Field(ge=0, le=1000)] | None = None
    cache_salt: Annotated[Text, Field(max_length=256)] | None = None

    @property
    def stop_strings(self) -> tuple[str, ...]:
        if self.stop is None:
            return ()
        return tuple(each for each in ([self.stop] if isinstance(self.stop, str) else self.stop) if each)

    @property
    def wants_usage(self) -> bool:
        return bool(self.stream_options and self.stream_options.include_usage)

    def unsupported(self) -> tuple[str, str] | None:
        """(field, why) of the first thing asked for that cannot be done."""
        given = self.model_extra or {}
        for name, harmless in self._refused().items():
            if name in given and not any(_same(given[name], each) for each in harmless):
                return name, f"{name} is not supported; leave it out"
        if len(self.stop_strings) > MAX_STOP_STRINGS:
            return "stop", f"stop has {len(self.stop_strings)} strings; at most {MAX_STOP_STRINGS} are possible"
        if any(len(each) > MAX_STOP_LENGTH for each in self.stop_strings):
            return "stop", f"a stop string has more than {MAX_STOP_LENGTH} characters; shorten it"
        if self.stream_options is not None and not self.stream:
            return "stream_options", "stream_options is only possible with stream: true"
        return None

    @abstractmethod
    def _refused(self) -> dict[str, tuple[Any, ...]]:
        """Fields that are refused, with the values that are let through because they change nothing."""


def _same(value: Any, harmless: Any) -> bool:
    # True == 1 in Python, but not here.
    return isinstance(value, bool) == isinstance(harmless, bool) and bool(value == harmless)


class CompletionBody(_Common):
    """`POST /v1/completions`."""

    prompt: Text | list[TokenId] | list[Text] | list[list[TokenId]]

    def _refused(self) -> dict[str, tuple[Any, ...]]:
        return _COMPLETION_REFUSED

    def unsupported(self) -> tuple[str, str] | None:
        if (
            isinstance(self.prompt, list)
            and self.prompt
            and not isinstance(self.prompt[0], int)
            and len(self.prompt) > 1
        ):
            return "prompt", f"prompt has {len(self.prompt)} texts; send one request for each"
        return super().unsupported()

    @property
    def single_prompt(self) -> str | list[int]:
        """The text or the token ids, also where they stand in a list of one."""
        prompt = self.prompt
        if isinstance(prompt, str):
            return prompt
        if prompt and not isinstance(prompt[0], int):
            return prompt[0]
        return [each for each in prompt if isinstance(each, int)]


class TextPart(_Body):
    type: Literal["text"]
    text: Text


class Message(_Body):
    """One turn of a chat; only text."""

    role: Literal["system", "developer", "user", "assistant"]
    content: Text | list[TextPart]

    @property
    def text(self) -> str:
        return self.content if isinstance(self.content, str) else "".join(part.text for part in self.content)


class ChatBody(_Common):
    """`POST /v1/chat/completions`."""

    messages: Annotated[list[Message], Field(min_length=1)]
    max_completion_tokens: Annotated[int, Field(ge=1)] | None = None

    def _refused(self) -> dict[str, tuple[Any, ...]]:
        return _CHAT_REFUSED

"""The real model's texts to tokens and back; needs its tokenizer alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from scheduler_core.errors import RequestError


class ModelText:
    """A tokenizer of transformers, as the engine and the gateway want it."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer

    def encode(self, text: str) -> tuple[int, ...]:
        """Token ids of a plain text, without special tokens added."""
        return tuple(self._tokenizer.encode(_checked(text), add_special_tokens=False))

    def encode_messages(self, messages: Sequence[tuple[str, str]]) -> tuple[int, ...]:
        """Token ids of a chat, given as (role, text); a model without a chat template reads the plain texts."""
        for _, text in messages:
            _checked(text)
        if not self._tokenizer.chat_template:
            return tuple(self._tokenizer.encode("\n\n".join(text for _, text in messages)))
        turns = [{"role": role, "content": text} for role, text in messages]
        return self.encode(self._tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True))

    def decode(self, token_ids: tuple[int, ...] | list[int]) -> str:
        """The text of output tokens, special tokens left out."""
        decoded = self._tokenizer.decode(list(token_ids), skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return str(decoded)


class ModelCodec(ModelText):
    """A model's texts, its name and its bounds, without its weights."""

    def __init__(self, tokenizer: Any, model: str, vocab_size: int, max_model_len: int) -> None:
        super().__init__(tokenizer)
        self.model = model
        self.vocab_size = vocab_size
        self.max_model_len = max_model_len


def _checked(text: str) -> str:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as problem:
        raise RequestError(
            f"the text holds half of a character (U+{ord(text[problem.start]):04X}) at position {problem.start}; "
            "remove it"
        ) from None
    return text

"""The model's own tokenizer: chats in its template, and text that comes in parts."""

from __future__ import annotations

import pytest

from scheduler_core.backends.model_store import LoadedModel
from scheduler_core.backends.transformers_runner import TransformersRunner
from scheduler_core.serving.text_stream import TextStream

pytestmark = pytest.mark.model


def test_a_chat_of_several_turns_is_read_in_the_template_of_the_model(model: LoadedModel) -> None:
    turns = [("system", "Be brief."), ("user", "One?"), ("assistant", "Two."), ("user", "Three? 😀")]
    messages = [{"role": role, "content": text} for role, text in turns]
    text = model.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    runner = TransformersRunner(model)
    assert runner.encode_messages(turns) == tuple(model.tokenizer.encode(text, add_special_tokens=False))
    assert runner.encode_messages([turns[0], turns[1]]) == runner.encode_chat("One?", "Be brief.")


@pytest.mark.parametrize(
    "text", ["Plain words, two  spaces.\n\n  an indent", "naïve – 日本語 😀👩‍🚀 \u200d ไทย", " x" * 50, "😀" * 20]
)
def test_text_in_parts_is_the_text_as_a_whole(text: str, model: LoadedModel) -> None:
    runner = TransformersRunner(model)
    token_ids = [*runner.encode(text), *runner.eos_token_ids]
    stream = TextStream(lambda ids: runner.decode(ids), [])
    parts = [stream.add(token_id) for token_id in token_ids] + [stream.finish()]
    assert "".join(parts) == runner.decode(token_ids) == text
    assert not any("\ufffd" in part for part in parts)


def test_token_ids_end_where_the_vocabulary_ends(model: LoadedModel) -> None:
    runner = TransformersRunner(model)
    assert runner.vocab_size == model.model.get_input_embeddings().num_embeddings

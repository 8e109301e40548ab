"""Who has a model's tokenizer alone reads and writes as who has the model does."""

from __future__ import annotations

from pathlib import Path

import pytest

from scheduler_core.backends import model_store
from scheduler_core.backends.transformers_runner import TransformersRunner
from scheduler_core.errors import ModelError


def test_a_codec_without_weights_agrees_with_the_runner(
    tiny_folder_kept: Path, tiny: model_store.LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = TransformersRunner(tiny)
    monkeypatch.setattr(model_store, "_into_memory", None)
    codec = model_store.load_codec(tiny_folder_kept)
    turns = [("system", "be brief"), ("user", "héllo wörld"), ("assistant", "yes"), ("user", "again")]
    assert codec.encode("hello, wörld") == runner.encode("hello, wörld")
    assert codec.encode_messages(turns) == runner.encode_messages(turns)
    assert codec.decode(list(range(40))) == runner.decode(list(range(40)))
    assert (codec.vocab_size, codec.max_model_len, codec.model) == (
        runner.vocab_size,
        runner.max_model_len,
        runner.backend.model,
    )


def test_a_folder_without_a_tokenizer_is_named(tiny_folder: Path) -> None:
    (tiny_folder / "tokenizer.json").unlink()
    with pytest.raises(ModelError, match=r"has no tokenizer\.json"):
        model_store.load_codec(tiny_folder)

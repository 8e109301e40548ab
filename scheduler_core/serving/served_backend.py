"""Which model is served: its runner, its texts, its name, and the sizes of a server that has it."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

from scheduler_core.config import EngineConfig
from scheduler_core.serving.served_model import Codec, ServedRunner
from scheduler_core.serving_config import serving_config


class ServedBackend(Enum):
    """Who computes the tokens."""

    SYNTHETIC = "synthetic"
    MODEL = "model"


class ServedTexts(NamedTuple):
    """A model without its weights; `max_model_len` None has no bound."""

    codec: Codec
    name: str
    max_model_len: int | None


def make_runner(backend: ServedBackend) -> ServedRunner:
    """The model, loaded."""
    if backend is ServedBackend.SYNTHETIC:
        from scheduler_core.backends.synthetic import SyntheticRunner

        return SyntheticRunner()
    from scheduler_core.backends import model_store
    from scheduler_core.backends.transformers_runner import TransformersRunner

    return TransformersRunner(model_store.load())


def ready_on_disk(backend: ServedBackend) -> None:
    """Have a model converted or fetched, once, before several processes want it; raises `ModelError` without one."""
    if backend is ServedBackend.MODEL:
        from scheduler_core.backends import model_store

        model_store.folder_of(model_store.wanted_weights())


def make_texts(backend: ServedBackend) -> ServedTexts:
    """What turns texts into the model's tokens, for those who do not compute."""
    if backend is ServedBackend.SYNTHETIC:
        runner = make_runner(backend)
        return ServedTexts(runner, default_name(runner), runner.max_model_len)
    from scheduler_core.backends import model_store

    codec = model_store.load_codec()
    return ServedTexts(codec, codec.model, codec.max_model_len)


def default_name(runner: ServedRunner) -> str:
    """What clients call the model unless told otherwise."""
    return "synthetic" if runner.backend.kind == "synthetic" else runner.backend.model


def served_config(
    backend: ServedBackend, preset: str, settings: Iterable[str], max_model_len: int | None
) -> EngineConfig:
    """A server's sizes; requests go by their `priority`, which all have alike unless they say otherwise."""
    cost = "smollm2-cpu" if backend is ServedBackend.MODEL else "unit"
    config = serving_config(cost, preset).replace(policy="priority")
    if max_model_len is not None and config.max_model_len > max_model_len:
        config = config.replace(max_model_len=max_model_len)
    # Texts drawn without a seed of their own differ from one start of the server to the next.
    config = config.replace(seed=secrets.randbits(62))
    return config.replace(**dict(EngineConfig.parse_setting(text) for text in settings))

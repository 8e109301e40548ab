"""Tiny models on the disk, and one of them loaded; a cache folder of the test's own."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

import pytest

from scheduler_core.backends import model_store
from tests.backends.tiny import save_tiny_folder, save_tiny_gguf


@pytest.fixture(scope="session")
def tiny_folder_kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_folder(tmp_path_factory.mktemp("tiny") / "tiny-llama")


@pytest.fixture(scope="session", params=["compiled", "transformers"])
def tiny(tiny_folder_kept: Path, request: pytest.FixtureRequest) -> model_store.LoadedModel:
    """The tiny model in memory, on the CPU, under each of its two forwards."""
    loaded = model_store.load(tiny_folder_kept, device="cpu")
    return dataclasses.replace(loaded, compiled=request.param == "compiled")


@pytest.fixture
def tiny_folder(tiny_folder_kept: Path, tmp_path: Path) -> Path:
    """A copy to spoil."""
    return Path(shutil.copytree(tiny_folder_kept, tmp_path / "tiny-llama"))


@pytest.fixture
def tiny_gguf(tmp_path: Path) -> Path:
    return save_tiny_gguf(tmp_path / "tiny.gguf")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder of its own, and no model named by the environment."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("TICKSCOPE_CACHE", str(folder))
    monkeypatch.delenv("TICKSCOPE_MODEL", raising=False)
    return folder

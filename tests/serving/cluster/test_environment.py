"""What Ray is told by the environment, before it is imported."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from scheduler_core.serving.cluster import environment

NAMES = (
    "RAY_USAGE_STATS_ENABLED",
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER",
    "RAY_AUTH_MODE",
    "RAY_AUTH_TOKEN",
    "PYTHONPATH",
)
ELSEWHERE = "192.0.2.7:6379"


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in NAMES:
        monkeypatch.setenv(name, "")  # so that what is set here is taken back
        monkeypatch.delenv(name)
    monkeypatch.setattr(environment, "_TOKEN_FILE", tmp_path / "auth_token")


def test_a_ray_of_its_own_asks_for_a_token_that_nobody_else_has() -> None:
    environment.prepare(None)
    first = os.environ["RAY_AUTH_TOKEN"]
    environment.prepare(None)
    assert os.environ["RAY_AUTH_MODE"] == "token"
    assert len(first) >= 32
    assert first != os.environ["RAY_AUTH_TOKEN"]
    assert environment.is_local()


def test_a_cluster_is_shown_the_token_that_ray_start_has_written(tmp_path: Path) -> None:
    (tmp_path / "auth_token").write_text("secret")
    environment.prepare(ELSEWHERE)
    assert os.environ["RAY_AUTH_MODE"] == "token"
    assert "RAY_AUTH_TOKEN" not in os.environ
    assert not environment.is_local()


def test_a_cluster_without_a_token_is_asked_without_one() -> None:
    environment.prepare(ELSEWHERE)
    assert "RAY_AUTH_MODE" not in os.environ


def test_what_the_user_says_of_tokens_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    monkeypatch.setenv("RAY_AUTH_TOKEN", "mine")
    environment.prepare(ELSEWHERE)
    assert os.environ["RAY_AUTH_MODE"] == "disabled"

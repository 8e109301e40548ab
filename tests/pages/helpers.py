"""Pages run without a browser: start at home, go on as a visitor does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from pages.components.runs import Workload
from scheduler_core.backends.synthetic import SyntheticRunner
from scheduler_core.config import EngineConfig
from scheduler_core.engine import Engine

ROOT = Path(__file__).resolve().parents[2]
PLAYGROUND = "pages/playground.py"


def open_home() -> AppTest:
    """The home page, as a visitor meets it."""
    return AppTest.from_file(str(ROOT / "app.py"), default_timeout=60).run()


def open_playground(**query: str) -> AppTest:
    """The playground by a link with that query."""
    at = open_home()
    for name, value in query.items():
        at.query_params[name] = value
    at.switch_page(PLAYGROUND)
    return at.run()


def open_page(name: str, **query: str) -> AppTest:
    """Any page by a link with that query."""
    at = open_home()
    for key, value in query.items():
        at.query_params[key] = value
    at.switch_page(f"pages/{name}.py")
    return at.run()


def component(at: AppTest, name: str) -> dict[str, Any]:
    """What a component of ours was sent."""
    found = [element for element in at.get("bidi_component") if element.proto.component_name == name]
    assert found, f"{name} was not drawn"
    data: dict[str, Any] = json.loads(found[0].proto.json)
    return data


def stage_data(at: AppTest) -> dict[str, Any]:
    """What the stage was sent."""
    return component(at, "tickscope.stage")


def state(at: AppTest) -> Any:
    return at.session_state["play"]


def everything_said(at: AppTest) -> str:
    """All messages on the page."""
    return "\n".join(element.value for kind in (at.error, at.warning, at.info, at.caption) for element in kind)


def assert_drawn(at: AppTest) -> None:
    """Without mistake, and with something on it: a page that could not even be read has no exception either."""
    assert not at.exception, at.exception
    assert at.title
    assert stage_data(at)["run"]["ticks"] > 0


def live_runs_of_made_up_tokens(monkeypatch: pytest.MonkeyPatch) -> list[Engine]:
    """Have live runs compute made-up tokens, without weights; the engines made stand in the list."""
    runs: list[Engine] = []

    def factory(chosen: Workload, config: EngineConfig, weights: object) -> Any:
        def make(report: object) -> tuple[Engine, SyntheticRunner]:
            runner = SyntheticRunner(eos_every=5)
            engine = Engine(config, runner)
            for spec in chosen.scenario.specs(runner):
                engine.add_request(spec)
            runs.append(engine)
            return engine, runner

        return make

    monkeypatch.setattr("pages.components.live._factory", factory)
    monkeypatch.setattr("pages.components.live._weights", lambda: None)
    return runs

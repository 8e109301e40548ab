"""In CI (`TICKSCOPE_NO_SKIP`) a skipped test is a failure: nothing is left out silently."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from scheduler_core.backends import model_store
from tests.figures import TOLD

# Before any test imports torch.
model_store.let_threads_sleep()

#: What only some checkouts have beside them, or have built, may be missing; everything else has to run.
MAY_BE_MISSING = ("not beside the project", "the peers' environment is not built: make bench-peers")

#: How many files the summary names with the time that they took.
SLOWEST_FILES = 20

settings.register_profile("suite", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("suite")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    report: Any = yield
    allowed = any(reason in str(report.longrepr) for reason in MAY_BE_MISSING)
    if report.skipped and not allowed and os.environ.get("TICKSCOPE_NO_SKIP"):
        report.outcome = "failed"
        report.longrepr = f"skipped where nothing may be skipped: {report.longrepr}"
    return report


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put what runs the real model first: it takes longest, and at the end the other workers would wait for it."""
    items.sort(key=lambda item: item.get_closest_marker("model") is None)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    terminalreporter.section("slowest files")
    for seconds, file in sorted(_seconds_by_file(terminalreporter), reverse=True)[:SLOWEST_FILES]:
        terminalreporter.write_line(f"{seconds:6.1f}s {file}")
    if TOLD:
        terminalreporter.section("measured")
        for text in TOLD:
            terminalreporter.write_line(text)


def _seconds_by_file(terminalreporter: Any) -> list[tuple[float, str]]:
    """Set-up and clean-up included, over all workers."""
    total: dict[str, float] = {}
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                file = report.nodeid.split("::")[0]
                total[file] = total.get(file, 0.0) + report.duration
    return [(seconds, file) for file, seconds in total.items()]


@pytest.fixture(scope="session")
def model() -> model_store.LoadedModel:
    """The real model, loaded once."""
    return model_store.load()

"""What came from below memory has a pattern, an entry in the legend and a sentence on the stage."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from scheduler_core.backends.synthetic import SyntheticRunner
from scheduler_core.config import EngineConfig
from scheduler_core.engine import Engine
from scheduler_core.request import RequestSpec, SamplingParams
from scheduler_core.storage.block_store import Tier
from scheduler_core.storage.memory_backing import MemoryBacking
from scheduler_core.trace import Trace
from tests.browser.conftest import Watch, settle

pytestmark = pytest.mark.browser


def above_a_store(times: int) -> Trace:
    """The last of so many runs above one store."""
    store = Tier(MemoryBacking(1 << 20, "disk"))
    for _ in range(times):
        engine = Engine(EngineConfig(num_blocks=12), SyntheticRunner(), title="A run above a store", store=store)
        engine.add_request(RequestSpec("R1", tuple(range(20, 60)), SamplingParams(3)))
        trace = engine.run()
    return trace


def open_file(page: Page, url: str, trace: Trace, name: str) -> None:
    page.goto(f"{url}/playground?panel=Export&scenario=first_steps")
    settle(page)
    field = page.locator('[data-testid="stTabs"] input[type="file"]')
    field.set_input_files({"name": name, "mimeType": "application/json", "buffer": trace.to_json().encode()})
    expect(page.get_by_text(f"A run from the file “{name}”.")).to_be_visible(timeout=30_000)
    settle(page)


def test_a_run_that_loaded_from_disk_shows_it_and_another_one_does_not(page: Page, app_url: str, watch: Watch):
    open_file(page, app_url, above_a_store(1), "cold.json")
    expect(page.locator(".legend li", has_text="from disk")).to_be_hidden()
    expect(page.locator(".lane .part.loaded:not([hidden])")).to_have_count(0)
    open_file(page, app_url, above_a_store(2), "warm.json")
    expect(page.locator(".legend li", has_text="from disk")).to_be_visible()
    expect(page.locator(".lane .part.loaded:not([hidden])")).to_have_count(1)
    expect(page.locator('.block[data-kind="loaded"]')).to_have_count(2)
    expect(page.locator(".said")).to_contain_text("R1 took 32 tokens from the cache on disk.")
    assert watch.problems == []

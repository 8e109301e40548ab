"""The real stage on every page and with every scenario: driven to the end and back, and nothing breaks."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, Page, expect

from pages.components.frame import PAGES
from pages.components.runs import scenario_names
from scheduler_core.lesson import list_lessons
from tests.browser.conftest import Server, Watch, settle

pytestmark = pytest.mark.browser

#: Each page with the address at which it is walked and the number of its stages.
WALKS: dict[str, tuple[str, int]] = {
    "app.py": ("/", 1),
    "pages/from_scratch.py": ("/from_scratch", 2),
    "pages/compare.py": ("/compare", 2),
    "pages/scale_out.py": ("/scale_out", 3),
    **{f"pages/{name}.py": (f"/{name}?step=99", 1) for name in list_lessons()},
}
PLAYGROUND = "pages/playground.py"
WITHOUT_STAGE = {"pages/glossary.py", "pages/operations.py", "pages/workloads.py"}

#: Presses a key until the playhead stands; gives [place of the playhead, state hash] of every instant on the way.
WALK = """async (root, key) => {
  const options = { key, bubbles: true, composed: true, cancelable: true };
  const press = () => root.dispatchEvent(new KeyboardEvent("keydown", options));
  const place = () => root.querySelector(".scrubber input").value;
  const seen = [[place(), root.dataset.stateHash]];
  for (;;) {
    press();
    await new Promise((done) => setTimeout(done, 10));
    if (place() === seen.at(-1)[0]) return seen;
    seen.push([place(), root.dataset.stateHash]);
  }
}"""


def visit(page: Page, url: str) -> None:
    page.goto(url)
    settle(page)
    page.wait_for_selector("[data-state-hash]")


def stages(page: Page) -> Locator:
    return page.locator(".stage[data-state-hash]")


def there_and_back(page: Page, stage: Locator) -> int:
    """Walk a stage from its first tick to its last and back; gives the number of ticks."""
    stage.press("Home")
    settle(page)
    forth = stage.evaluate(WALK, "ArrowRight")
    settle(page)
    assert_sound(page)
    back = stage.evaluate(WALK, "ArrowLeft")
    settle(page)
    assert_sound(page)
    assert back == forth[::-1]
    assert len({state for _, state in forth}) > 1
    return len(forth)


def assert_sound(page: Page) -> None:
    expect(page.get_by_test_id("stException")).to_have_count(0)
    expect(page.locator(".stage[data-broken]")).to_have_count(0)


def assert_calm(watch: Watch, server: Server) -> None:
    assert watch.problems == []
    assert watch.foreign == []
    assert server.complaints() == []


def test_every_page_is_walked_here() -> None:
    assert {*WALKS, PLAYGROUND, *WITHOUT_STAGE} == {entry.path for entry in PAGES}


@pytest.mark.parametrize("name", scenario_names())
def test_every_scenario_goes_to_the_end_and_back(
    name: str, page: Page, app_url: str, watch: Watch, server: Server
) -> None:
    visit(page, f"{app_url}/playground?scenario={name}")
    ticks = there_and_back(page, stages(page).first)
    expect(stages(page).first).to_contain_text(f"of {ticks - 1}")
    assert_calm(watch, server)


@pytest.mark.parametrize("path", WALKS)
def test_every_stage_of_a_page_goes_to_the_end_and_back(
    path: str, page: Page, app_url: str, watch: Watch, server: Server
) -> None:
    address, number = WALKS[path]
    visit(page, app_url + address)
    if path == "pages/from_scratch.py":
        page.get_by_role("button", name="Run it with the mistake").click()
        settle(page)
    expect(stages(page)).to_have_count(number)
    for place in range(number):
        assert there_and_back(page, stages(page).nth(place)) > 1
    assert_calm(watch, server)

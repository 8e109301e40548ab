"""The operations page in a real browser beside a real gateway: figures move, requests fail on purpose, are replayed."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import BrowserContext, Page, expect

from pages.components.operations.client import Gateway as Operated
from tests.browser.conftest import Server, Watch, settle, start_server
from tests.serving.test_serve import Server as Gateway
from tests.serving.test_serve import serve

pytestmark = pytest.mark.browser

Visitors = Callable[..., BrowserContext]


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    folder = tmp_path_factory.mktemp("gateway")
    options = ("--operations", "--store", str(folder / "cache"), "--set", "block_size=4")
    with serve(folder, *options, env={"TICKSCOPE_SERVE_BACKOFF_S": "0"}) as running:
        yield running


@pytest.fixture(scope="module")
def operated(gateway: Gateway, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """An app of its own, that is told of the gateway."""
    log = tmp_path_factory.mktemp("app") / "log.txt"
    running = start_server(log, TICKSCOPE_GATEWAY_URL=gateway.url)
    yield running
    running.stop()


def complete(url: str, prompt: str, max_tokens: int = 4) -> int:
    body = json.dumps({"model": "synthetic", "prompt": prompt, "max_tokens": max_tokens}).encode()
    request = urllib.request.Request(f"{url}/v1/completions", body, {"content-type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as problem:
        return problem.code


def visit(page: Page, url: str) -> None:
    page.goto(url)
    settle(page)
    expect(page.get_by_role("heading", name="Operations")).to_be_visible()


def tile(page: Page, name: str) -> Any:
    """The value under a name."""
    return page.get_by_test_id("stMetric").filter(has_text=name).get_by_test_id("stMetricValue")


def open_panel(page: Page, name: str) -> None:
    page.get_by_role("tab", name=name).click()
    expect(page.get_by_role("tab", name=name)).to_have_attribute("aria-selected", "true")


def test_figures_move_a_fault_makes_dead_letters_and_a_replay_empties_them(
    page: Page, gateway: Gateway, operated: Server, watch: Watch
) -> None:
    visit(page, f"{operated.url}/operations")
    expect(page.get_by_text("answers · synthetic")).to_be_visible()
    expect(page.locator(".trend svg")).to_have_count(3)
    page.evaluate("document.querySelector('[data-testid=stMetric]').dataset.kept = 'yes'")
    load = threading.Thread(target=lambda: [complete(gateway.url, f"number {i} of many words") for i in range(40)])
    load.start()
    # Without a hand on the page.
    expect(tile(page, "Tokens per second")).not_to_have_text("0", timeout=15_000)
    load.join()
    # A fault is switched on by the keyboard.
    open_panel(page, "Planned faults")
    page.get_by_label("again every").first.fill("1")
    page.get_by_label("again every").first.press("Enter")
    page.get_by_role("switch", name="The model raises").or_(page.get_by_label("The model raises")).first.press("Space")
    expect(page.get_by_text("Planned faults on: the model raises")).to_be_visible(timeout=15_000)
    assert [complete(gateway.url, f"<img src=x onerror=alert({i})>") for i in range(2)] == [500, 500]
    expect(tile(page, "Dead letters")).to_have_text("2", timeout=15_000)
    expect(tile(page, "Retries")).to_have_text("4")
    open_panel(page, "Dead letters")
    page.get_by_role("button", name="Details").first.click()
    expect(page.get_by_text("<img src=x onerror=alert(1)>")).to_be_visible()
    assert page.locator("img[src=x]").count() == 0
    open_panel(page, "Planned faults")
    page.get_by_role("button", name="Switch all off").click()
    expect(page.get_by_text("Planned faults on")).to_have_count(0, timeout=15_000)
    open_panel(page, "Dead letters")
    page.get_by_role("button", name="Send all again").click()
    expect(page.get_by_text("There is no dead letter")).to_be_visible(timeout=15_000)
    open_panel(page, "Caches")
    page.get_by_role("button", name="Clear disk…").click()
    expect(page.get_by_text("have to be computed again")).to_be_visible()
    page.get_by_role("button", name="Clear disk", exact=True).click()
    expect(page.get_by_text("The cache disk is empty.")).to_be_visible(timeout=15_000)
    assert page.evaluate("document.querySelector('[data-testid=stMetric]').dataset.kept") == "yes"
    assert watch.problems == []
    assert operated.complaints() == []


@pytest.mark.parametrize(
    ("scheme", "panels"), [("light", ("Caches", "Planned faults")), ("dark", ("Dead letters", "Figures"))]
)
def test_axe_finds_nothing_in_a_panel_and_a_phone_needs_no_sideways_scrolling(
    open_context: Visitors, gateway: Gateway, operated: Server, scheme: Any, panels: tuple[str, ...]
) -> None:
    Operated(gateway.url).write("POST", "faults", {"faults": [{"kind": "raise", "every": 1}]})
    complete(gateway.url, "a letter")
    page = open_context(color_scheme=scheme, viewport={"width": 390, "height": 844}).new_page()
    visit(page, f"{operated.url}/operations")
    expect(page.get_by_text("Planned faults on: the model raises")).to_be_visible()
    expect(page.get_by_test_id("stMetric")).to_have_count(10)
    widths = page.get_by_test_id("stMetric").evaluate_all("all => all.map((one) => one.offsetWidth)")
    assert min(widths) > 150, "two beside each other"
    for panel in panels:
        open_panel(page, panel)
        settle(page)
        page.wait_for_timeout(600)
        found = [f"{panel}: {v['id']}: {v['nodes'][0]['html'][:200]}" for v in Axe().run(page).response["violations"]]
        assert found == []
        assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_without_a_gateway_the_page_says_how_to_start_one(page: Page, app_url: str, watch: Watch) -> None:
    visit(page, f"{app_url}/operations")
    expect(page.get_by_text("serve --backend synthetic --operations")).to_be_visible()
    assert watch.problems == []

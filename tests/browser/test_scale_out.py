"""Many replicas in a real browser: one playhead for all stages, and what a phone and a screen reader get."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import BrowserContext, Locator, Page, expect

from tests.browser.axe import violations
from tests.browser.conftest import Server, Watch, settle

pytestmark = pytest.mark.browser

Visitors = Callable[..., BrowserContext]

#: The top of the first stage, how far the page is scrolled, and the height of the words above the stages.
PLACES = """() => [
  document.querySelector(".st-key-scale_out_stages").getBoundingClientRect().top,
  document.querySelector("[data-testid=stMain]").scrollTop,
  document.querySelector(".st-key-so_told").offsetHeight,
].map(Math.round).join()"""


def visit(page: Page, url: str, count: int = 3) -> Page:
    page.goto(url)
    settle(page)
    expect(stages(page)).to_have_count(count)
    return page


def stages(page: Page) -> Locator:
    return page.locator(".stage[data-state-hash]")


def expect_ticks(page: Page, tick: int) -> None:
    for number in range(stages(page).count()):
        expect(stages(page).nth(number)).to_have_attribute("data-tick", str(tick))


def test_one_playhead_serves_all_stages(page: Page, app_url: str, watch: Watch, server: Server) -> None:
    visit(page, f"{app_url}/scale_out")
    first = stages(page).first
    for _ in range(3):
        first.press("ArrowRight")
    expect_ticks(page, 3)
    settle(page)
    expect(page.get_by_text("Tick 3: r1 → replica 2.")).to_be_visible()
    stages(page).nth(2).press("End")
    last = stages(page).nth(2).get_attribute("data-tick") or ""
    expect_ticks(page, int(last))
    settle(page)
    assert f"tick={last}" in page.url
    assert watch.problems == []
    assert server.complaints() == []


def test_a_step_moves_nothing_on_the_page(page: Page, app_url: str) -> None:
    visit(page, f"{app_url}/scale_out?load=hot&kill=1&kill_at=20&tick=17")
    tops = set()
    for _ in range(6):
        stages(page).first.press("ArrowRight")
        settle(page)
        tops.add(page.evaluate(PLACES))
    assert len(tops) == 1, tops


def test_a_killed_replica_is_empty_and_its_request_goes_on_elsewhere(page: Page, app_url: str) -> None:
    visit(page, f"{app_url}/scale_out?replicas=4&kill=1&kill_at=40&tick=40", 4)
    expect(page.get_by_text("Tick 40: replica 1 is killed.")).to_be_visible()
    expect(page.get_by_text("r17 → replica 4, attempt 2.")).to_be_visible()
    expect(stages(page).first).to_contain_text("0 of 48 in use")
    expect(stages(page).first).to_contain_text("aborted")
    expect(stages(page).nth(3)).to_contain_text("r17")


def test_another_router_keeps_the_tick(page: Page, app_url: str) -> None:
    visit(page, f"{app_url}/scale_out?tick=25")
    page.get_by_role("combobox", name=re.compile("Router")).click()
    page.get_by_role("option", name="Round robin").click()
    settle(page)
    expect_ticks(page, 25)
    assert "router=round_robin" in page.url
    assert "tick=25" in page.url


def tile(page: Page, number: int) -> Locator:
    return page.locator(f".fleet .tile:nth-child({number})")


def test_a_tile_tells_tick_by_tick_that_its_replica_is_gone_starts_and_is_back(page: Page, app_url: str) -> None:
    visit(page, f"{app_url}/scale_out?replicas=8&kill=3&kill_at=30&restart=5&tick=28", 1)
    states = []
    for _ in range(17):
        states.append(tile(page, 3).get_attribute("data-state"))
        page.get_by_role("button", name="Step forward").first.click()
        expect(page.locator(".fleet")).to_have_attribute("data-tick", str(28 + len(states)))
    assert states == ["alive"] * 2 + ["gone"] * 5 + ["starting"] * 8 + ["alive"] * 2
    settle(page)
    expect(page.get_by_text("Tick 43: replica 3 is back.")).to_have_count(0)
    assert "tick=45" in page.url


def test_a_click_on_a_tile_opens_that_stage_at_the_same_tick(page: Page, app_url: str, watch: Watch) -> None:
    visit(page, f"{app_url}/scale_out?replicas=16&tick=20", 1)
    tile(page, 12).click()
    settle(page)
    expect(page.get_by_role("region", name="Stage of replica 12.")).to_have_attribute("data-tick", "20")
    expect(tile(page, 12)).to_have_attribute("aria-pressed", "true")
    assert "open=12" in page.url
    assert watch.problems == []


def test_tiles_go_by_keys_and_follow_what_plays(page: Page, app_url: str) -> None:
    visit(page, f"{app_url}/scale_out?replicas=16&tick=20", 1)
    tile(page, 1).focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    settle(page)
    pressed = page.locator(".fleet .tile[aria-pressed=true]")
    grid = page.locator(".fleet .grid")
    columns = grid.evaluate("node => getComputedStyle(node).gridTemplateColumns.split(' ').length")
    expect(pressed).to_have_attribute("aria-label", re.compile(f"^Replica {columns + 2}: alive"))
    expect(stages(page)).to_have_attribute("aria-label", re.compile(f"replica {columns + 2}"))
    page.locator(".fleet .play").click()
    expect(page.locator(".fleet")).to_have_attribute("data-playing", "true")
    expect(page.locator(".fleet")).to_have_attribute("data-tick", re.compile("^2[3-9]$"))
    page.locator(".fleet .play").click()
    expect(page.locator(".fleet")).to_have_attribute("data-playing", "false")
    tick = stages(page).get_attribute("data-tick") or ""
    expect(page.locator(".fleet")).to_have_attribute("data-tick", tick)


def test_of_few_a_tile_shows_one_stage_and_a_second_click_all_of_them(page: Page, app_url: str) -> None:
    visit(page, f"{app_url}/scale_out?tick=12")
    tile(page, 2).click()
    expect(stages(page)).to_have_count(1)
    settle(page)
    expect_ticks(page, 12)
    tile(page, 2).click()
    expect(stages(page)).to_have_count(3)
    expect_ticks(page, 12)


@pytest.mark.parametrize(
    "query", ["?kill=2&shared=on", "?router=round_robin", "?replicas=16&kill=9&kill_at=30&restart=10&tick=44"]
)
def test_axe_finds_nothing(page: Page, app_url: str, query: str) -> None:
    visit(page, f"{app_url}/scale_out{query}", 1 if "16" in query else 3)
    page.wait_for_timeout(800)
    assert violations(page) == []


def test_a_phone_needs_no_sideways_scrolling(open_context: Visitors, app_url: str) -> None:
    page = open_context(viewport={"width": 390, "height": 844}).new_page()
    visit(page, f"{app_url}/scale_out?replicas=16&kill=2", 1)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    visit(page, f"{app_url}/scale_out?kill=2")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    stages(page).first.press("ArrowRight")
    expect_ticks(page, 1)

"""Two runs side by side in a real browser: one playhead, two stages."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Locator, Page, expect

from pages.components.own_requests import OwnRequest, pack
from scheduler_core.comparison import first_difference
from tests.browser.axe import violations
from tests.browser.conftest import Server, Watch, expect_query, query, settle, start_server
from tests.pages.test_compare import sides_of

pytestmark = pytest.mark.browser

Visitors = Callable[..., BrowserContext]

#: `left` and `right` for every script below: the components' own objects.
FIND = """
const hosts = [...document.querySelectorAll("[data-testid=stBidiComponentIsolated]")];
const [left, right] = hosts.map((host) => host.shadowRoot?.tickscope?.stage).filter(Boolean);
"""

#: Every frame of some milliseconds: the tick on the left, the tick on the right.
FRAMES = """
new Promise((done) => {
  const seen = [], begin = performance.now();
  const look = (now) => {
    seen.push([left.root.dataset.tick, right.root.dataset.tick, left.scrubber.range.value, right.scrubber.range.value]);
    if (now - begin < argument) requestAnimationFrame(look);
    else done(seen);
  };
  requestAnimationFrame(look);
})"""


def script(page: Page, expression: str, argument: Any = None) -> Any:
    """The value of a JavaScript expression in which `left` and `right` are the stages."""
    return page.evaluate(f"(argument) => {{ {FIND} return ({expression.strip()}); }}", argument)


def visit(page: Page, url: str) -> Page:
    page.goto(url)
    settle(page)
    page.wait_for_function("document.querySelectorAll('[data-testid=stBidiComponentIsolated]').length >= 2")
    expect(stages(page)).to_have_count(2)
    return page


def stages(page: Page) -> Locator:
    return page.locator("[data-state-hash]")


def ticks(page: Page) -> list[int]:
    return [int(stages(page).nth(side).get_attribute("data-tick") or -1) for side in (0, 1)]


def expect_ticks(page: Page, tick: int) -> None:
    for side in (0, 1):
        expect(stages(page).nth(side)).to_have_attribute("data-tick", str(tick))


def hashes(page: Page) -> list[str | None]:
    return [stages(page).nth(side).get_attribute("data-state-hash") for side in (0, 1)]


def plays_in_step(page: Page, milliseconds: int) -> int:
    """Play on the left at 8x, see that no frame shows two ticks, pause on the right; the number of ticks shown."""
    script(page, "(left.setSpeed(8), true)")
    stages(page).nth(0).get_by_role("button", name=re.compile("^Play")).click()
    frames = script(page, FRAMES, milliseconds)
    assert [frame for frame in frames if len(set(frame)) > 1] == []
    stages(page).nth(1).get_by_role("button", name=re.compile("^Pause")).click()
    for side in (0, 1):
        expect(stages(page).nth(side)).to_have_attribute("data-playing", "false")
    settle(page)
    left, right = ticks(page)
    assert left == right
    return len({frame[0] for frame in frames})


def assert_calm(watch: Watch, server: Server) -> None:
    assert watch.problems == []
    assert watch.foreign == []
    assert server.complaints() == []


def test_the_playhead_stays_in_step_at_eight_times_the_speed(
    page: Page, app_url: str, watch: Watch, server: Server
) -> None:
    visit(page, f"{app_url}/compare?pair=quantum")
    assert plays_in_step(page, 2_000) >= 10
    page.wait_for_url(f"**tick={ticks(page)[0]}")
    assert_calm(watch, server)


def test_either_side_drives_steps_scrubbing_speed_and_selection(page: Page, app_url: str) -> None:
    visit(page, f"{app_url}/compare?pair=quantum&tick=5")
    expect_ticks(page, 5)
    stages(page).nth(1).press("ArrowRight")
    expect_ticks(page, 6)
    stages(page).nth(0).press("ArrowLeft")
    expect_ticks(page, 5)
    stages(page).nth(1).get_by_role("slider", name="Tick").fill("31")
    expect_ticks(page, 31)
    stages(page).nth(1).get_by_label("Speed").select_option("4")
    expect(stages(page).nth(0).get_by_label("Speed")).to_have_value("4")
    script(page, "(right.select(2), true)")
    for side in (0, 1):
        expect(stages(page).nth(side)).to_have_attribute("data-selected", "R3")
    settle(page)
    expect_query(page, only=True, pair="quantum", tick="31", selected="R3")


def test_only_the_side_that_drives_speaks(page: Page, app_url: str) -> None:
    visit(page, f"{app_url}/compare?pair=quantum")
    script(
        page,
        """(window.spoken = [], [left, right].forEach((stage, side) => {
          const { state } = stage.emit;
          stage.emit = { ...stage.emit, state: (view) => { window.spoken.push([side, view.tick]); state(view); } };
        }), true)""",
    )
    stages(page).nth(1).press("ArrowRight")
    expect_ticks(page, 1)
    page.wait_for_function("window.spoken.length > 0")
    settle(page)
    assert page.evaluate("window.spoken") == [[1, 1]]


def test_the_shorter_run_says_that_it_has_ended(page: Page, app_url: str) -> None:
    visit(page, f"{app_url}/compare?pair=batching")
    left, right = sides_of("batching")
    assert len(left.records) > len(right.records)
    stages(page).nth(1).press("End")
    expect(stages(page).nth(0)).to_have_attribute("data-tick", str(len(left.records) - 1))
    expect(stages(page).nth(1)).to_have_attribute("data-tick", str(len(right.records) - 1))
    expect(stages(page).nth(1)).to_contain_text(f"ended · the other is at tick {len(left.records) - 1}")
    settle(page)
    expect_query(page, tick=str(len(left.records) - 1))
    page.reload()
    settle(page)
    expect(stages(page).nth(0)).to_have_attribute("data-tick", str(len(left.records) - 1))
    expect(stages(page).nth(1)).to_have_attribute("data-tick", str(len(right.records) - 1))


@pytest.mark.parametrize("key", ["swap"])
def test_both_scrubbers_flag_the_first_difference_and_the_button_leads_there(
    key: str, page: Page, app_url: str, watch: Watch, server: Server
) -> None:
    visit(page, f"{app_url}/compare?pair={key}&tick=7")
    first = first_difference(*sides_of(key))
    assert first is not None
    flags = [stages(page).nth(side).locator(".flag") for side in (0, 1)]
    for flag in flags:
        expect(flag).to_be_visible()
    boxes = [flag.bounding_box() for flag in flags]
    outer = [stages(page).nth(side).bounding_box() for side in (0, 1)]
    at = [box["x"] - around["x"] for box, around in zip(boxes, outer, strict=True) if box and around]
    assert at[0] == pytest.approx(at[1], abs=1)
    page.get_by_role("button", name=f"Go to tick {first.tick}").click()
    expect_ticks(page, first.tick)
    slider = stages(page).nth(0).get_by_role("slider", name="Tick")
    expect(slider).to_have_attribute("aria-valuetext", re.compile("the first that differs"))
    settle(page)
    assert_calm(watch, server)


def test_equal_configurations_show_the_same_on_both_sides(page: Page, app_url: str) -> None:
    visit(page, f"{app_url}/compare?scenario=first_steps&tick=9")
    expect(page.locator(".st-key-compare_banner")).to_contain_text("Both sides are equal")
    for tick in (9, 10, 11):
        expect_ticks(page, tick)
        assert len(set(hashes(page))) == 1
        stages(page).nth(0).press("ArrowRight")
    expect(stages(page).nth(0).locator(".flag")).to_be_hidden()


def test_swapped_sides_trade_places_and_the_playhead_stays(page: Page, app_url: str) -> None:
    visit(page, f"{app_url}/compare?pair=quantum&tick=20")
    before = hashes(page)
    page.get_by_role("button", name="Swap sides").click()
    settle(page)
    expect_ticks(page, 20)
    expect(stages(page).nth(0)).to_have_attribute("data-state-hash", before[1] or "")
    assert hashes(page) == before[::-1]
    expect_query(page, swap="on")
    stages(page).nth(0).press("ArrowRight")
    expect_ticks(page, 21)


def test_a_shared_link_opens_the_same_instant(page: Page, open_context: Visitors, app_url: str) -> None:
    visit(page, f"{app_url}/compare?scenario=time_slices&a_quantum=2&b_preset=vllm")
    for _ in range(3):
        stages(page).nth(1).press("ArrowRight")
    expect_ticks(page, 3)
    settle(page)
    page.wait_for_url("**tick=3*")
    other = visit(open_context().new_page(), page.url)
    expect_ticks(other, 3)
    assert hashes(other) == hashes(page)


def test_a_setting_changed_on_one_side_moves_that_side_only(page: Page, app_url: str, watch: Watch) -> None:
    visit(page, f"{app_url}/compare?scenario=time_slices&tick=12")
    before = hashes(page)
    page.get_by_role("button", name="Settings").nth(1).click()
    page.get_by_role("slider", name="Quantum").press("Home")
    settle(page)
    expect(page.locator(".st-key-compare_banner")).to_contain_text("is the first that differs")
    expect(stages(page).nth(1)).not_to_have_attribute("data-state-hash", before[1] or "")
    expect_ticks(page, 12)
    assert hashes(page)[0] == before[0]
    expect_query(page, only=True, scenario="time_slices", b_quantum="1", tick="12")
    assert watch.problems == []


def test_settings_show_what_stands_also_after_a_swap(page: Page, app_url: str) -> None:
    visit(page, f"{app_url}/compare?scenario=time_slices&b_quantum=9&b_max_num_seqs=2")
    page.get_by_role("button", name="Swap sides").click()
    settle(page)
    page.get_by_role("button", name="Settings").nth(0).click()
    settle(page)
    expect(page.get_by_role("slider", name="Quantum")).to_have_attribute("aria-valuetext", "9 ticks")
    expect(page.get_by_role("spinbutton", name="Lanes")).to_have_value("2")
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Pair").click()
    settle(page)
    expect(page.get_by_role("radio", name="Your own settings")).to_be_checked()


def test_sixty_four_requests_play_in_step(open_context: Visitors, watch: Watch, tmp_path: Path) -> None:
    many = tuple(OwnRequest(f"Q{i}", f"Question number {i}?", 6 + i % 7, arrival=i) for i in range(64))
    server = start_server(tmp_path / "log.txt", TICKSCOPE_MAX_REQUESTS="64")
    try:
        page = open_context().new_page()
        watch.follow(page, server.url)
        visit(page, f"{server.url}/compare?scenario=own&requests={pack(many)}&b_quantum=off&b_policy=shortest")
        expect(stages(page).nth(0)).to_contain_text("64 requests")
        assert plays_in_step(page, 2_000) >= 5
        assert_calm(watch, server)
    finally:
        server.stop()


def test_what_if_from_the_playground_forks_there(page: Page, app_url: str, watch: Watch, server: Server) -> None:
    page.goto(f"{app_url}/playground?scenario=time_slices&tick=12")
    settle(page)
    page.get_by_role("button", name="What if…").click()
    page.wait_for_url("**/compare*")
    expect(stages(page)).to_have_count(2, timeout=30_000)
    settle(page)
    expect_ticks(page, 12)
    expect(page.locator(".st-key-compare_banner")).to_contain_text("are equal")
    page.get_by_role("button", name="Add a request").click()
    page.get_by_role("button", name="Add it at tick 12").click()
    settle(page)
    expect(page.locator(".st-key-compare_banner")).to_contain_text("Tick 12 is the first that differs")
    expect(page.locator(".st-key-what_if")).to_contain_text("R7 added")
    expect(stages(page).nth(1)).to_contain_text("R7")
    settle(page)
    expect_query(page, at="12")
    assert "add" in query(page)
    again = hashes(page)
    page.reload()
    settle(page)
    expect_ticks(page, 12)
    assert hashes(page) == again
    assert_calm(watch, server)


@pytest.mark.parametrize("press", ["click", "Enter"])
def test_a_what_if_pressed_while_the_run_plays_forks_at_the_tick_then_shown(
    page: Page, app_url: str, watch: Watch, server: Server, press: str
) -> None:
    page.goto(f"{app_url}/playground?scenario=time_slices")
    settle(page)
    expect(stages(page)).to_have_count(1)
    script(page, "void addEventListener('click', () => { window.tickAtPress ??= left.tick; }, { capture: true })")
    script(page, "left.play()")
    expect(stages(page).first).to_have_attribute("data-tick", re.compile(r"^([4-9]|\d\d)$"))
    button = page.get_by_role("button", name="What if…")
    button.click() if press == "click" else button.press(press)
    page.wait_for_url("**/compare*")
    expect(stages(page)).to_have_count(2, timeout=30_000)
    settle(page)
    shown = page.evaluate("window.tickAtPress")
    assert shown >= 4
    expect_query(page, at=str(shown), tick=str(shown))
    expect_ticks(page, shown)
    assert_calm(watch, server)


def test_axe_finds_nothing_in_a_what_if(page: Page, app_url: str) -> None:
    visit(page, f"{app_url}/compare?scenario=time_slices&at=12&abort=R1&b_quantum=2&tick=20&nonsense=1")
    assert violations(page) == []
    page.get_by_role("button", name="Settings").nth(1).click()
    settle(page)
    assert violations(page) == [], "settings"
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Add a request").click()
    settle(page)
    assert violations(page) == [], "add a request"


def test_stages_stand_side_by_side_on_a_desk_and_one_above_the_other_on_a_phone(
    open_context: Visitors, app_url: str
) -> None:
    page = visit(open_context().new_page(), f"{app_url}/compare?scenario=time_slices&at=12&abort=R1")
    left, right = (stages(page).nth(side).bounding_box() for side in (0, 1))
    assert left is not None
    assert right is not None
    assert left["y"] == right["y"]
    assert left["x"] + left["width"] < right["x"]
    assert left["height"] == pytest.approx(right["height"], abs=30)
    for size in (1280, 1024, 820):
        page.set_viewport_size({"width": size, "height": 900})
        page.wait_for_timeout(200)
        main = page.get_by_test_id("stMain")
        assert main.evaluate("(node) => node.scrollWidth - node.clientWidth") == 0, size
        assert script(page, "left.root.scrollWidth - left.root.clientWidth") == 0, size
    phone = open_context(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True).new_page()
    visit(phone, page.url)
    left, right = (stages(phone).nth(side).bounding_box() for side in (0, 1))
    assert left is not None
    assert right is not None
    assert left["x"] == right["x"]
    assert left["y"] + left["height"] < right["y"]
    for width in ("document.documentElement.scrollWidth", "document.querySelector('[data-testid=stMain]').scrollWidth"):
        assert phone.evaluate(width) <= 390
    expect(phone.get_by_text("Right · from tick 12 on").last).to_be_visible()

"""The tour of the stage in a real browser: offered once, walked by mouse, finger and keyboard, and out of the way."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import BrowserContext, Locator, Page, expect

from scheduler_core.glossary import terms
from tests.browser.axe import violations
from tests.browser.conftest import Server, Watch, settle

pytestmark = pytest.mark.browser

Visitors = Callable[..., BrowserContext]

PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
#: Each stop with the panels that it lights.
STOPS = (
    ("Drive the run", (".transport", ".scrubber")),
    ("Who waits", (".panel.waiting",)),
    ("What the model computes", (".panel.tick",)),
    ("What it keeps in memory", (".panel.kv", ".panel.host")),
    ("The whole run, and why", (".panel.timeline", ".narration")),
)
BLOCK_STORAGE = """
Object.defineProperty(window, "localStorage", {
  get() { throw new DOMException("The operation is insecure.", "SecurityError"); },
});
"""


def visit(page: Page, url: str) -> Page:
    page.goto(url)
    settle(page)
    page.wait_for_selector("[data-state-hash]")
    return page


def stage(page: Page) -> Locator:
    return page.locator("[data-state-hash]")


def offer(page: Page) -> Locator:
    return page.locator(".offer").get_by_role("button", name="Take the tour")


def card(page: Page) -> Locator:
    return page.locator(".tour-card")


IS_LIT = """(root, selector) => {
  const frame = root.getBoundingClientRect();
  const box = root.querySelector(selector).getBoundingClientRect();
  const middle = new DOMPoint(box.x + box.width / 2 - frame.x, box.y + box.height / 2 - frame.y);
  return !root.querySelector(".tour svg > path").isPointInFill(middle);
}"""


def is_lit(page: Page, selector: str) -> bool:
    """Whether the middle of a panel lies in a hole of the veil."""
    return bool(stage(page).evaluate(IS_LIT, selector))


def test_a_first_visitor_is_led_through_five_stops_and_not_asked_again(
    page: Page, app_url: str, watch: Watch, server: Server
) -> None:
    visit(page, app_url)
    offer(page).click()
    panels = {panel for _, lit in STOPS for panel in lit} | {".panel.finished"}
    for title, lit in STOPS:
        expect(card(page).get_by_role("heading")).to_have_text(title)
        expect(card(page)).to_be_in_viewport(ratio=1)
        assert {panel for panel in panels if is_lit(page, panel)} == set(lit)
        card(page).locator(".main").click()
    expect(card(page)).to_be_hidden()
    expect(stage(page)).to_be_focused()
    expect(offer(page)).to_be_hidden()
    page.reload()
    settle(page)
    expect(stage(page)).to_be_visible()
    expect(offer(page)).to_be_hidden()
    visit(page, f"{app_url}/playground")
    expect(offer(page)).to_be_hidden()
    assert watch.problems == []
    assert server.complaints() == []


@pytest.mark.parametrize("way", ["Escape", "Skip", "No tour, thank you"])
def test_who_leaves_the_tour_or_declines_it_is_not_asked_again(way: str, page: Page, app_url: str) -> None:
    visit(page, f"{app_url}/playground")
    if way == "No tour, thank you":
        page.get_by_role("button", name=way).click()
    else:
        offer(page).click()
        card(page).get_by_role("button", name="Next").click()
        if way == "Escape":
            page.keyboard.press(way)
        else:
            card(page).get_by_role("button", name=way).click()
    expect(card(page)).to_be_hidden()
    expect(offer(page)).to_be_hidden()
    visit(page, app_url)
    expect(offer(page)).to_be_hidden()


@pytest.mark.parametrize("address", ["/chunked_prefill", "/compare", "/playground?tick=3"])
def test_nobody_is_asked_in_a_lesson_a_comparison_or_behind_a_shared_link(
    address: str, page: Page, app_url: str
) -> None:
    page.goto(app_url + address)
    settle(page)
    page.wait_for_selector("[data-state-hash]")
    expect(page.locator(".offer:visible")).to_have_count(0)
    expect(page.locator(".tour-card:visible")).to_have_count(0)


def test_the_tour_leaves_the_run_as_it_was(page: Page, app_url: str) -> None:
    visit(page, f"{app_url}/playground")
    stage(page).press("ArrowRight")
    expect(stage(page)).to_have_attribute("data-tick", "1")
    settle(page)
    address = page.url
    before = stage(page).get_attribute("data-state-hash")
    offer(page).click()
    expect(card(page)).to_be_visible()
    assert int(stage(page).get_attribute("data-tick") or 0) > 1, "a tick in which there is something to see"
    for key in ("End", "n", "5"):
        page.keyboard.press(key)
    page.keyboard.press("Escape")
    expect(stage(page)).to_have_attribute("data-tick", "1")
    assert stage(page).get_attribute("data-state-hash") == before
    assert stage(page).get_attribute("data-playing") == "false"
    assert page.url == address


def test_the_tour_is_walked_by_keyboard_and_gives_the_focus_back(page: Page, app_url: str) -> None:
    visit(page, f"{app_url}/playground?tick=5")
    help_button = page.get_by_role("button", name="Help (question mark)")
    help_button.focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    again = page.locator(".help").get_by_role("button", name="Take the tour")
    expect(again).to_be_focused()
    page.keyboard.press("Enter")
    names = ("Skip", "Back", "Next")
    buttons = {name: card(page).get_by_role("button", name=name) for name in names}
    expect(buttons["Next"]).to_be_focused()
    page.keyboard.press("Enter")
    expect(card(page).get_by_role("heading")).to_have_text(STOPS[1][0])
    for name in names:
        page.keyboard.press("Tab")
        expect(buttons[name]).to_be_focused()
    page.keyboard.press("Shift+Tab")
    expect(buttons["Back"]).to_be_focused()
    page.keyboard.press("ArrowRight")
    expect(card(page).get_by_role("heading")).to_have_text(STOPS[2][0])
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    expect(card(page).get_by_role("heading")).to_have_text(STOPS[0][0])
    expect(buttons["Back"]).to_be_disabled()
    page.keyboard.press("Escape")
    expect(help_button).to_be_focused()


def test_a_screen_reader_hears_where_the_tour_is(page: Page, app_url: str) -> None:
    visit(page, app_url)
    offer(page).click()
    dialog = page.get_by_role("dialog", name=STOPS[0][0])
    expect(dialog).to_have_attribute("aria-modal", "true")
    expect(dialog.locator("[aria-live=polite]")).to_contain_text("Stop 1 of 5.")
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("dialog", name=STOPS[1][0])).to_contain_text("Stop 2 of 5.")


def test_on_a_phone_every_card_is_on_the_screen(open_context: Visitors, app_url: str, watch: Watch) -> None:
    page = open_context(**PHONE).new_page()
    watch.follow(page, app_url)
    visit(page, app_url)
    offer(page).tap()
    for title, lit in STOPS:
        expect(card(page).get_by_role("heading")).to_have_text(title)
        expect(card(page)).to_be_in_viewport(ratio=0.99)
        assert all(is_lit(page, panel) for panel in lit)
        assert page.evaluate("document.querySelector('[data-testid=stMain]').scrollWidth") <= 390
        card(page).locator(".main").tap()
    expect(card(page)).to_be_hidden()
    assert watch.problems == []


def test_where_storage_is_blocked_the_visit_remembers(open_context: Visitors, app_url: str, watch: Watch) -> None:
    context = open_context()
    context.add_init_script(BLOCK_STORAGE)
    page = context.new_page()
    watch.follow(page, app_url)
    visit(page, app_url)
    page.get_by_role("button", name="No tour, thank you").click()
    page.get_by_test_id("stSidebar").get_by_role("link", name="Playground").click()
    page.wait_for_url("**/playground*")
    settle(page)
    expect(stage(page)).to_be_visible()
    expect(offer(page)).to_be_hidden()
    assert watch.problems == []


def test_with_reduced_motion_nothing_glides(open_context: Visitors, app_url: str) -> None:
    page = visit(open_context(reduced_motion="reduce").new_page(), app_url)
    offer(page).click()
    assert card(page).evaluate("(e) => getComputedStyle(e).transitionDuration") == "0s"


def test_axe_finds_nothing_in_the_tour_or_the_help(page: Page, app_url: str) -> None:
    visit(page, app_url)
    assert violations(page) == [], "the offer"
    stage(page).press("?")
    expect(page.locator(".help")).to_be_visible()
    assert violations(page) == [], "the help"
    page.keyboard.press("Escape")
    offer(page).click()
    assert violations(page) == [], STOPS[0][0]
    for _ in STOPS[1:]:
        page.keyboard.press("ArrowRight")
    expect(card(page).get_by_role("button", name="Done")).to_be_visible()
    assert violations(page) == [], STOPS[-1][0]


def test_the_legend_and_the_headings_say_what_they_mean(page: Page, open_context: Visitors, app_url: str) -> None:
    visit(page, app_url)
    page.locator(".legend li", has_text="preempted").hover()
    expect(page.locator(".tip")).to_contain_text(terms()["preemption"].text)
    page.locator(".panel.kv h2").hover()
    expect(page.locator(".tip")).to_contain_text(terms()["kv-cache"].text)
    stage(page).press("?")
    for key in ("hit", "prefill", "chunk", "decode", "preemption"):
        expect(page.locator(".help .meanings")).to_contain_text(terms()[key].text)
    phone = visit(open_context(**PHONE).new_page(), app_url)
    phone.locator(".legend li", has_text="cached").tap()
    expect(phone.locator(".tip")).to_contain_text(terms()["hit"].text)
    phone.locator(".panel.tick .count").tap()
    expect(phone.locator(".tip")).to_be_hidden()

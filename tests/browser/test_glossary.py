"""Definitions in a real browser: under the pointer, at the focus, on a tap, in a screen reader, and on their page."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import BrowserContext, Locator, Page, expect

from scheduler_core.glossary import terms
from tests.browser.axe import violations
from tests.browser.conftest import Server, Watch, settle

pytestmark = pytest.mark.browser

Visitors = Callable[..., BrowserContext]

PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
TERMS = terms()


def visit(page: Page, url: str) -> Page:
    page.goto(url)
    settle(page)
    page.wait_for_selector("[data-state-hash], [data-glossary]")
    return page


def term(page: Page, key: str) -> Locator:
    return page.locator(f'.st-key-lesson_band a[href="glossary?term={key}"]')


def card(page: Page) -> Locator:
    return page.locator(".ts-term-card")


def test_a_term_tells_its_definition_under_the_pointer(page: Page, app_url: str, watch: Watch, server: Server) -> None:
    visit(page, f"{app_url}/chunked_prefill")
    expect(card(page)).to_be_hidden()
    term(page, "prefill").hover()
    expect(card(page)).to_contain_text(TERMS["prefill"].text)
    # The pointer may move on to the card, and the card stays.
    card(page).hover()
    page.wait_for_timeout(400)
    expect(card(page)).to_be_visible()
    page.keyboard.press("Escape")
    expect(card(page)).to_be_hidden()
    term(page, "lane").hover()
    expect(card(page)).to_contain_text(TERMS["lane"].text)
    page.mouse.move(5, 5)
    expect(card(page)).to_be_hidden()
    assert watch.problems == []
    assert server.complaints() == []


def test_a_term_tells_its_definition_at_the_focus(page: Page, app_url: str) -> None:
    visit(page, f"{app_url}/chunked_prefill")
    links = page.locator('.st-key-lesson_band a[href^="glossary?term="]')
    keys = [(link.get_attribute("href") or "").split("=")[1] for link in links.all()]
    links.first.focus()
    page.keyboard.press("Tab")
    expect(links.nth(1)).to_be_focused()
    expect(card(page)).to_contain_text(TERMS[keys[1]].text)
    page.keyboard.press("Escape")
    expect(card(page)).to_be_hidden()
    expect(links.nth(1)).to_be_focused()
    page.keyboard.press("Tab")
    expect(card(page)).to_contain_text(TERMS[keys[2]].text)


def test_a_tap_shows_the_definition_inside_the_screen_and_another_hides_it(
    open_context: Visitors, app_url: str
) -> None:
    page = visit(open_context(**PHONE).new_page(), f"{app_url}/chunked_prefill?step=6")
    links = page.locator('.st-key-lesson_band a[href^="glossary"]').all()
    assert links
    for link in links:
        link.tap()
        expect(card(page)).to_be_visible()
        box = card(page).bounding_box()
        assert box is not None
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 390
        link.tap()
        expect(card(page)).to_be_hidden()
    assert len(page.context.pages) == 1


def test_a_click_opens_the_term_in_the_glossary_and_keeps_the_lesson(page: Page, app_url: str) -> None:
    visit(page, f"{app_url}/chunked_prefill")
    with page.expect_popup() as opened:
        term(page, "decode").click()
    settle(opened.value)
    expect(opened.value.locator(".entry.wanted")).to_contain_text(TERMS["decode"].text)
    expect(opened.value.locator(".entry.wanted")).to_be_in_viewport()
    expect(page.get_by_role("heading", name="Who is here")).to_be_visible()


def test_a_screen_reader_hears_the_definition_of_every_marked_term(page: Page, app_url: str) -> None:
    visit(page, f"{app_url}/preemption?step=10")
    page.get_by_role("button", name="skip").click()
    expect(page.locator(".st-key-lesson_verdict")).to_be_visible()
    links = page.locator('a[href^="glossary?term="]')
    expect(links.first).to_be_visible()
    assert links.count() >= 3
    for link in links.all():
        key = (link.get_attribute("href") or "").split("=")[1]
        expect(link).to_have_accessible_description(TERMS[key].text)


def test_the_glossary_is_searched_as_one_types(page: Page, app_url: str, watch: Watch, server: Server) -> None:
    visit(page, f"{app_url}/glossary")
    entries = page.locator(".entry:visible")
    expect(entries).to_have_count(len(TERMS))
    box = page.get_by_role("searchbox")
    box.press_sequentially("inter token")
    expect(entries.locator("b")).to_contain_text(["ITL"])
    expect(page.get_by_role("status")).to_have_text(f"1 of {len(TERMS)} terms")
    box.fill("<img src=x onerror=alert(1)>")
    expect(entries).to_have_count(0)
    expect(page.locator("[data-glossary]")).to_contain_text("No term matches “<img src=x onerror=alert(1)>”")
    page.get_by_role("button", name="Show all terms").click()
    expect(entries).to_have_count(len(TERMS))
    expect(box).to_be_focused()
    page.get_by_role("button", name="KV memory").click()
    expect(page.get_by_role("heading", name="KV memory")).to_be_focused()
    assert watch.problems == []
    assert server.complaints() == []


def test_a_term_leads_to_the_step_that_shows_it_within_the_visit(page: Page, app_url: str) -> None:
    visit(page, f"{app_url}/chunked_prefill?step=3")
    page.get_by_test_id("stSidebar").get_by_role("link", name="Glossary").click()
    page.wait_for_url("**/glossary*")
    page.evaluate("window.sameVisit = true")
    page.locator('.entry[data-term="quantum"]').get_by_role("link", name=re.compile("Lesson 3, step 5")).click()
    page.wait_for_url("**/preemption*")
    settle(page)
    expect(page.get_by_role("heading", name="How long should a slice be?")).to_be_visible()
    assert page.evaluate("window.sameVisit")


def test_axe_finds_nothing_while_a_definition_is_shown(page: Page, app_url: str) -> None:
    visit(page, f"{app_url}/chunked_prefill")
    term(page, "token").hover()
    expect(card(page)).to_be_visible()
    assert violations(page) == [], "a card"
    visit(page, f"{app_url}/glossary?term=chunk")
    page.get_by_role("searchbox").fill("cache")
    assert violations(page) == [], "a search"
    page.get_by_role("searchbox").fill("nothing of the kind")
    assert violations(page) == [], "a search without a result"

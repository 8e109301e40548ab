"""Predict in a real browser: a quiz walked with right and wrong answers, by mouse, by keyboard, on a phone."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import BrowserContext, Locator, Page, expect

from pages.components.lesson_question import grade_of
from pages.components.runs import recording
from scheduler_core.predictions import Question, right_values
from scheduler_core.quiz import next_in_quiz
from scheduler_core.trace import Trace
from tests.browser.conftest import Server, Watch, settle

pytestmark = pytest.mark.browser

Visitors = Callable[..., BrowserContext]

SCENARIO = "memory_pressure"
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
WIDTHS = ("document.documentElement.scrollWidth", "document.querySelector('[data-testid=stMain]').scrollWidth")


@pytest.fixture(scope="module")
def trace() -> Trace:
    found = recording(SCENARIO)
    assert found is not None
    return found


def visit(page: Page, url: str) -> Page:
    page.goto(url)
    settle(page)
    page.wait_for_selector("[data-state-hash]")
    return page


def stage(page: Page) -> Locator:
    return page.locator("[data-state-hash]").first


def card(page: Page) -> Locator:
    return page.locator(".st-key-predict_card")


def reveal(page: Page) -> Locator:
    return page.get_by_role("button", name="Reveal the tick")


def place_of(asked: Question, trace: Trace, *, right: bool) -> int:
    good = right_values(trace, asked)
    return next(place for place, choice in enumerate(asked.choices) if (choice.value in good) is right)


def shows(page: Page, tick: int) -> None:
    expect(stage(page)).to_have_attribute("data-tick", str(tick))


def is_asked(page: Page, asked: Question) -> None:
    """The stage stands before the tick, and the card asks."""
    shows(page, asked.tick - 1)
    expect(card(page)).to_contain_text(asked.text)
    expect(reveal(page)).to_be_disabled()


def step_to(page: Page, tick: int) -> None:
    """By the arrow key, tick by tick."""
    while (at := int(stage(page).get_attribute("data-tick") or 0)) < tick:
        page.keyboard.press("ArrowRight")
        shows(page, at + 1)


def test_a_quiz_is_walked_with_right_and_wrong_answers(
    page: Page, app_url: str, trace: Trace, watch: Watch, server: Server
) -> None:
    visit(page, f"{app_url}/playground?scenario={SCENARIO}&predict=on")
    entries = page.evaluate("history.length")
    told: list[Question] = []
    for number in range(4):
        asked = next_in_quiz(trace, 1, told)
        assert asked is not None
        stage(page).focus()
        step_to(page, asked.tick - 1)
        # The run stops before the tick: neither a step nor the end leads past it.
        page.keyboard.press("ArrowRight")
        page.keyboard.press("End")
        is_asked(page, asked)
        settle(page)  # the choices may come after the question
        place = place_of(asked, trace, right=number % 2 == 0)
        card(page).get_by_test_id("stRadioOption").nth(place).click()
        expect(reveal(page)).to_be_enabled()
        reveal(page).click()
        shows(page, asked.tick)
        expect(card(page)).to_contain_text("Right." if number % 2 == 0 else "Not so.")
        expect(card(page)).to_contain_text(grade_of(asked, trace, asked.choices[place].value).reason)
        told.append(asked)
    settle(page)
    card(page).get_by_role("button", name="2 of 4 right").click()
    board = page.get_by_role("dialog", name="Score")
    expect(board).to_contain_text("2 of 4 right")
    expect(board.get_by_role("row")).to_have_count(1 + len({question.kind for question in told}))
    page.keyboard.press("Escape")
    settle(page)
    # Afterwards the curves under the sliders ask for their runs, and Streamlit warns where they speak with the stage.
    assert watch.problems == []
    card(page).get_by_role("button", name="Leave").click()
    expect(card(page)).to_have_count(0)
    settle(page)
    shows(page, told[-1].tick)
    page.wait_for_function("() => !location.search.includes('predict')")
    stage(page).focus()
    page.keyboard.press("End")
    shows(page, len(trace.records) - 1)
    assert page.evaluate("history.length") == entries
    assert server.complaints() == []


def test_play_runs_up_to_the_question_and_stops(page: Page, app_url: str, trace: Trace) -> None:
    visit(page, f"{app_url}/playground?scenario={SCENARIO}")
    page.get_by_role("button", name="Predict").click()
    asked = next_in_quiz(trace, 1, [])
    assert asked is not None
    is_asked(page, asked)
    card(page).get_by_role("button", name="skip", exact=True).click()
    shows(page, asked.tick)
    following = next_in_quiz(trace, 1, [asked])
    assert following is not None
    # What lies ahead is not told in words either.
    expect(stage(page).locator(".waiting")).to_contain_text("Nobody waits.")
    expect(stage(page).locator(".host")).to_contain_text("Nothing saved.")
    expect(stage(page).locator(".timeline .count")).to_contain_text(f"ticks 0 to {asked.tick}")
    stage(page).focus()
    page.keyboard.press("Space")
    expect(stage(page)).to_have_attribute("data-playing", "false")
    is_asked(page, following)
    card(page).get_by_role("button", name="skip", exact=True).click()
    shows(page, following.tick)
    third = next_in_quiz(trace, 1, [asked, following])
    assert third is not None
    for _ in range(third.tick - following.tick):
        # To the next decision: as far as may be seen, without a word on whether there is one.
        stage(page).press("n")
    is_asked(page, third)


def test_a_quiz_begun_while_the_run_plays_asks_about_what_was_not_yet_shown(
    page: Page, app_url: str, trace: Trace
) -> None:
    visit(page, f"{app_url}/playground?scenario={SCENARIO}")
    stage(page).focus()
    page.keyboard.press("Space")
    expect(stage(page)).to_have_attribute("data-tick", re.compile(r"^([4-9]|\d\d)$"))
    page.get_by_role("button", name="Predict").click()
    settle(page)
    shown = int(stage(page).get_attribute("data-tick") or -1)
    assert shown >= 4
    asked = next_in_quiz(trace, shown + 1, [])
    assert asked is not None
    stage(page).focus()
    if asked.tick > shown + 1:
        page.keyboard.press("Space")
    is_asked(page, asked)


def test_a_question_is_answered_by_keyboard_alone_and_the_focus_goes_on_to_the_stage(
    page: Page, app_url: str, trace: Trace
) -> None:
    visit(page, f"{app_url}/playground?scenario={SCENARIO}&predict=on")
    asked = next_in_quiz(trace, 1, [])
    assert asked is not None
    is_asked(page, asked)
    status = page.get_by_role("status").filter(has_text=re.compile("Question|Right|Not so"))
    expect(status).to_contain_text(asked.text)
    page.locator(".st-key-predict button").first.focus()
    radio = card(page).get_by_role("radio")
    for _ in range(8):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.type === 'radio'"):
            break
    page.keyboard.press("Space")
    place = place_of(asked, trace, right=True)
    for _ in range(place):
        page.keyboard.press("ArrowRight")
    expect(radio.nth(place)).to_be_checked()
    expect(reveal(page)).to_be_enabled()
    page.keyboard.press("Tab")
    expect(reveal(page)).to_be_focused()
    page.keyboard.press("Enter")
    shows(page, asked.tick)
    expect(status).to_contain_text("Right. You said")
    expect(stage(page)).to_be_focused()
    page.keyboard.press("ArrowRight")
    shows(page, asked.tick + 1)


def test_a_clicker_steps_reveals_and_skips(page: Page, app_url: str, trace: Trace, watch: Watch) -> None:
    visit(page, f"{app_url}/playground?scenario={SCENARIO}&predict=on&teach=on")
    asked = next_in_quiz(trace, 1, [])
    assert asked is not None
    is_asked(page, asked)
    card(page).get_by_test_id("stRadioOption").nth(place_of(asked, trace, right=True)).click()
    expect(reveal(page)).to_be_enabled()
    page.keyboard.press("PageDown")
    expect(card(page)).to_contain_text("Right.")
    following = next_in_quiz(trace, 1, [asked])
    assert following is not None
    for tick in range(asked.tick, following.tick):
        shows(page, tick)
        if tick < following.tick - 1:
            page.keyboard.press("PageDown")
    is_asked(page, following)
    page.keyboard.press("PageDown")
    expect(card(page)).to_contain_text("You skipped it.")
    shows(page, following.tick)
    page.keyboard.press("PageUp")
    shows(page, following.tick - 1)
    assert watch.problems == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", ["wide", "phone"])
def test_the_card_is_accessible_and_fits(
    size: str, scheme: str, open_context: Visitors, app_url: str, trace: Trace, watch: Watch
) -> None:
    page = open_context(**(PHONE if size == "phone" else {}), color_scheme=scheme).new_page()
    watch.follow(page, app_url)
    visit(page, f"{app_url}/playground?scenario={SCENARIO}&predict=on")
    asked = next_in_quiz(trace, 1, [])
    assert asked is not None
    wide = 390 if size == "phone" else None
    for _ in range(2):
        if wide:
            assert [page.evaluate(width) for width in WIDTHS] == [wide, wide]
        # The help of whatever lies under the pointer, where the last click left it, stands outside the page's regions.
        page.mouse.move(2, 2)
        expect(page.locator("#stFloatingOverlayPortal > *")).to_have_count(0)
        found = Axe().run(page).response["violations"]
        assert [(each["id"], [node["target"] for node in each["nodes"]]) for each in found] == []
        if reveal(page).count():
            card(page).get_by_test_id("stRadioOption").nth(place_of(asked, trace, right=False)).click()
            expect(reveal(page)).to_be_enabled()
            reveal(page).click()
            expect(card(page)).to_contain_text("Not so.")
            settle(page)
    assert watch.problems == []

"""The teacher view in a real browser: a clicker's keys, large type on every projector, the QR code, the score."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable

import cv2
import numpy as np
import pytest
from playwright.sync_api import BrowserContext, Locator, Page, expect

from pages.components.lesson_question import question_of
from pages.components.lesson_runs import LessonRuns
from scheduler_core.lesson import load_lesson
from tests.browser.axe import violations
from tests.browser.conftest import Server, Watch, settle

pytestmark = pytest.mark.browser

Visitors = Callable[..., BrowserContext]

SIZES = [(1920, 1080), (1440, 900), (1280, 720), (1024, 768)]
#: Where what is drawn wider than the screen would show.
WIDTHS = ("document.documentElement.scrollWidth", "document.querySelector('[data-testid=stMain]').scrollWidth")
#: Pixels on the screen of an element's type.
TYPE = "e => parseFloat(getComputedStyle(e).fontSize) * (e.currentCSSZoom ?? 1)"


def visit(page: Page, url: str) -> Page:
    page.goto(url)
    settle(page)
    page.wait_for_selector("[data-state-hash]")
    return page


def stage(page: Page) -> Locator:
    return page.locator("[data-state-hash]").first


def shows(page: Page, tick: int) -> None:
    expect(stage(page)).to_have_attribute("data-tick", str(tick))


def leave(page: Page) -> Locator:
    return page.get_by_role("button", name="Leave teacher view")


def menu(page: Page) -> Locator:
    """The teacher's popover, opened."""
    page.locator(".st-key-pop_teach button").first.click()
    opened = page.get_by_test_id("stPopoverBody")
    expect(opened).to_be_visible()
    settle(page)
    return opened


def black(page: Page) -> Locator:
    return page.get_by_role("dialog", name="Black screen")


def large(page: Page) -> None:
    """Wait until the stage has its size."""
    settle(page)
    expect(page.get_by_test_id("stSidebar")).to_be_hidden()
    expect(stage(page)).to_have_attribute("style", re.compile("zoom"))
    page.wait_for_timeout(200)


# --- the clicker ------------------------------------------------------------------------------------------------------


def test_a_clicker_walks_a_run_wherever_the_focus_is(page: Page, app_url: str, watch: Watch, server: Server) -> None:
    visit(page, f"{app_url}/playground?tick=5&teach=on")
    assert page.evaluate("document.activeElement === document.body")
    page.keyboard.press("PageDown")
    shows(page, 6)
    page.locator(".st-key-pop_teach button").first.focus()
    page.keyboard.press("PageDown")
    page.keyboard.press("PageDown")
    shows(page, 8)
    page.keyboard.press("PageUp")
    shows(page, 7)
    page.wait_for_function("() => new URLSearchParams(location.search).get('tick') === '7'")
    assert page.evaluate("document.querySelector('[data-testid=stMain]').scrollTop") == 0
    assert watch.problems == []
    assert server.complaints() == []


@pytest.mark.parametrize("key", [".", "b"])
def test_the_screen_goes_black_and_any_key_brings_it_back(key: str, page: Page, app_url: str) -> None:
    visit(page, f"{app_url}/playground?tick=5&teach=on")
    page.keyboard.press(key)
    expect(black(page)).to_be_visible()
    shot = cv2.imdecode(np.frombuffer(page.screenshot(), np.uint8), cv2.IMREAD_COLOR)
    assert shot.max() == 0
    page.keyboard.press("PageDown")
    expect(black(page)).to_have_count(0)
    shows(page, 5)
    page.keyboard.press(key)
    expect(black(page)).to_be_visible()
    page.keyboard.press(key)
    expect(black(page)).to_have_count(0)


def test_start_and_stop_of_a_clicker_play_and_pause_and_do_not_reload(page: Page, app_url: str) -> None:
    visit(page, f"{app_url}/playground?tick=5&teach=on")
    page.evaluate("window.sameDocument = true")
    page.keyboard.press("F5")
    expect(stage(page)).to_have_attribute("data-playing", "true")
    page.keyboard.press("Escape")
    expect(stage(page)).to_have_attribute("data-playing", "false")
    assert page.evaluate("window.sameDocument")
    expect(leave(page)).not_to_be_focused()


def test_escape_leads_to_the_way_out_and_then_out(page: Page, app_url: str, watch: Watch) -> None:
    visit(page, f"{app_url}/playground?tick=5&teach=on")
    expect(page.get_by_test_id("stSidebar")).to_be_hidden()
    page.keyboard.press("Escape")
    expect(leave(page)).to_be_focused()
    page.keyboard.press("Escape")
    expect(leave(page)).to_have_count(0)
    settle(page)
    expect(page.get_by_test_id("stSidebar").get_by_role("link", name="Playground")).to_be_visible()
    page.wait_for_function("() => location.search === '?tick=5'")
    shows(page, 5)
    page.keyboard.press("PageDown")
    page.wait_for_timeout(200)
    shows(page, 5)
    assert watch.problems == []


def test_what_is_typed_is_no_clicker(page: Page, app_url: str) -> None:
    visit(page, f"{app_url}/playground?tick=5&teach=settings")
    page.get_by_role("button", name=re.compile("^Requests")).click()
    box = page.get_by_role("textbox", name="Prompt of R1")
    box.click()
    before = box.input_value()
    page.keyboard.press("End")
    page.keyboard.type(" b.")
    page.keyboard.press("PageDown")
    expect(black(page)).to_have_count(0)
    assert "b." in box.input_value()
    assert len(box.input_value()) == len(before) + 3
    shows(page, 5)


def test_two_stages_take_one_step_a_click(page: Page, app_url: str, watch: Watch) -> None:
    visit(page, f"{app_url}/compare?tick=5&teach=on")
    page.keyboard.press("PageDown")
    for side in (0, 1):
        expect(page.locator("[data-state-hash]").nth(side)).to_have_attribute("data-tick", "6")
    page.keyboard.press("b")
    expect(black(page)).to_have_count(1)
    assert watch.problems == []


def test_a_clicker_walks_a_lesson_and_skips_what_nobody_answers(
    page: Page, app_url: str, watch: Watch, server: Server
) -> None:
    lesson = load_lesson("prefix_caching")
    traces = LessonRuns(lesson)
    visit(page, f"{app_url}/prefix_caching?teach=on")
    for step in lesson.steps:
        expect(page.get_by_role("heading", name=step.title, exact=True)).to_be_visible()
        settle(page)
        if question_of(step, traces) is not None:
            page.keyboard.press("PageDown")
            expect(page.locator(".st-key-lesson_verdict")).to_contain_text("You skipped it")
            settle(page)
        page.keyboard.press("PageDown")
    expect(page.get_by_role("heading", name="Check yourself")).to_be_visible()
    settle(page)
    page.keyboard.press("PageUp")
    expect(page.get_by_role("heading", name=lesson.steps[-1].title, exact=True)).to_be_visible()
    assert watch.problems == []
    assert server.complaints() == []


def test_a_clicker_reads_a_long_text_to_its_end_before_it_goes_on(page: Page, app_url: str) -> None:
    visit(page, f"{app_url}/preemption?step=5&teach=on")
    page.get_by_test_id("stRadioOption").first.click()
    expect(page.get_by_role("button", name="Reveal the tick")).to_be_enabled()
    page.keyboard.press("PageDown")
    expect(page.locator(".st-key-lesson_verdict")).to_contain_text("You said")
    settle(page)
    heading = page.get_by_role("heading", name=load_lesson("preemption").steps[4].title, exact=True)
    presses = 0
    while heading.count():
        expect(heading).to_have_count(1)
        end = page.locator(".st-key-lesson_band").evaluate("e => e.scrollHeight - e.clientHeight - e.scrollTop")
        page.keyboard.press("PageDown")
        presses += 1
        if end < 24:
            expect(heading).to_have_count(0)
    assert presses > 1


# --- what is shown ----------------------------------------------------------------------------------------------------


def test_what_is_hidden_is_not_there_for_keys_and_screen_readers(page: Page, app_url: str) -> None:
    visit(page, f"{app_url}/playground?tick=5&teach=buttons,scrubber,blocks,timeline,narration,tips,panels")
    for role, name in (("button", re.compile("^Play")), ("slider", "Tick"), ("group", "KV blocks"), ("button", "Why")):
        expect(stage(page).get_by_role(role, name=name)).to_have_count(0)
    for part in (".scrubber", ".kv", ".host", ".timeline", ".narration"):
        expect(stage(page).locator(part)).to_be_hidden()
    stage(page).locator(".lane").first.hover()
    expect(stage(page).get_by_role("tooltip")).to_have_count(0)
    expect(page.get_by_role("tab")).to_have_count(0)
    page.keyboard.press("PageDown")
    shows(page, 6)


def test_the_teacher_chooses_and_the_address_carries_it(
    page: Page, open_context: Visitors, app_url: str, watch: Watch
) -> None:
    visit(page, f"{app_url}/playground?tick=5")
    opened = menu(page)
    opened.get_by_role("button", name="Timeline").click()
    settle(page)
    opened.get_by_role("button", name="Start teacher view").click()
    expect(leave(page)).to_be_visible()
    page.wait_for_function("() => location.search.includes('teach=settings%2Cchoices%2Ctimeline%2Cpanels')")
    expect(stage(page).locator(".timeline")).to_be_hidden()
    other = visit(open_context().new_page(), page.url)
    expect(other.locator(".stage .timeline")).to_be_hidden()
    expect(leave(other)).to_be_visible()
    opened = menu(page)
    opened.get_by_role("button", name="Timeline").click()
    expect(stage(page).locator(".timeline")).to_be_visible()
    page.wait_for_function("() => new URLSearchParams(location.search).get('teach') === 'on'")
    assert watch.problems == []


def test_the_settings_that_are_kept_stand_behind_a_pill(page: Page, app_url: str) -> None:
    visit(page, f"{app_url}/playground?tick=5&teach=choices,panels")
    page.get_by_role("button", name="Settings").click()
    settle(page)
    quantum = page.get_by_role("slider", name="Quantum")
    quantum.press("ArrowRight")
    page.wait_for_function("() => new URLSearchParams(location.search).get('quantum') === '5'")
    expect(quantum).to_be_visible()


def test_the_teacher_view_goes_on_from_lesson_to_lesson(page: Page, app_url: str, watch: Watch) -> None:
    visit(page, f"{app_url}/chunked_prefill?step=99&teach=on")
    page.get_by_role("link", name=re.compile("Lesson 2")).click()
    page.wait_for_url("**/prefix_caching*")
    settle(page)
    expect(leave(page)).to_be_visible()
    page.wait_for_function("() => location.search === '?teach=on'")
    assert watch.problems == []


# --- size -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_everything_is_on_the_screen_in_type_that_can_be_read(
    width: int, height: int, open_context: Visitors, app_url: str
) -> None:
    page = open_context(viewport={"width": width, "height": height}).new_page()
    parts = (".narration", ".lane .name", ".card .name", ".tick-line", ".panel h2")
    visit(page, f"{app_url}/playground?tick=14")
    usual = {part: stage(page).locator(part).first.evaluate(TYPE) for part in parts}
    menu(page).get_by_role("button", name="Start teacher view").click()
    large(page)
    for part in parts:
        assert stage(page).locator(part).first.evaluate(TYPE) > 1.08 * usual[part], part
    assert stage(page).locator(".lane .name").first.evaluate(TYPE) >= 0.02 * height
    assert stage(page).locator(".narration").evaluate(TYPE) >= 0.022 * height
    fits(page, width, height)


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_a_lesson_is_on_the_screen_beside_its_text(
    width: int, height: int, open_context: Visitors, app_url: str
) -> None:
    page = open_context(viewport={"width": width, "height": height}).new_page()
    visit(page, f"{app_url}/chunked_prefill?step=3&teach=on")
    large(page)
    fits(page, width, height)
    assert page.locator(".st-key-lesson_body p").first.evaluate(TYPE) >= 0.022 * height
    assert stage(page).locator(".lane .name").first.evaluate(TYPE) >= 0.016 * height


def fits(page: Page, width: int, height: int) -> None:
    """All of the page and all of the stage is on the screen."""
    assert [page.evaluate(one) for one in WIDTHS] == [width, width]
    box = stage(page).bounding_box()
    assert box is not None
    assert box["y"] + box["height"] <= height
    assert page.evaluate("(e => e.scrollHeight - e.clientHeight)(document.querySelector('[data-testid=stMain]'))") == 0
    assert outside(page) == []


@pytest.mark.parametrize(("width", "height"), SIZES[1::2])
def test_two_stages_are_no_wider_than_the_screen(width: int, height: int, open_context: Visitors, app_url: str) -> None:
    page = open_context(viewport={"width": width, "height": height}).new_page()
    visit(page, f"{app_url}/compare?tick=9&teach=on")
    large(page)
    assert [page.evaluate(one) for one in WIDTHS] == [width, width]
    assert outside(page) == []


def outside(page: Page) -> list[str]:
    """What sticks out of the stage."""
    found: list[str] = stage(page).evaluate(
        """root => {
          const frame = root.getBoundingClientRect();
          const parts = ".panel, .round, .jump, .speed, .clock, .legend li, .narration, .lane, .block";
          const shown = [...root.querySelectorAll(parts)];
          return shown.filter((e) => e.checkVisibility()).filter((e) => {
            const box = e.getBoundingClientRect();
            return box.left < frame.left - 1 || box.right > frame.right + 1 || box.bottom > frame.bottom + 1;
          }).map((e) => e.className);
        }"""
    )
    return found


def test_what_is_hidden_makes_room_for_larger_type(page: Page, app_url: str) -> None:
    visit(page, f"{app_url}/playground?tick=14&teach=on")
    large(page)
    before = stage(page).locator(".lane .name").first.evaluate(TYPE)
    visit(page, f"{app_url}/playground?tick=14&teach=settings,choices,panels,blocks,timeline")
    large(page)
    assert stage(page).locator(".lane .name").first.evaluate(TYPE) > 1.2 * before


def test_the_pointer_hits_what_it_points_at_on_a_scaled_stage(page: Page, app_url: str) -> None:
    visit(page, f"{app_url}/playground?tick=14&teach=on")
    large(page)
    axis = stage(page).locator(".axis")
    box = axis.bounding_box()
    assert box is not None
    last = int(stage(page).get_by_role("slider", name="Tick").get_attribute("max") or 0)
    axis.click(position={"x": box["width"] * (30.5 / (last + 1)), "y": box["height"] / 2})
    shows(page, 30)
    lane = stage(page).locator(".lane:not([data-idle])").first
    lane.hover()
    tip = stage(page).get_by_role("tooltip")
    expect(tip).to_be_visible()
    at, near = tip.bounding_box(), lane.bounding_box()
    assert at is not None
    assert near is not None
    gap = min(abs(at["y"] + at["height"] - near["y"]), abs(at["y"] - near["y"] - near["height"]))
    assert gap < 20


# --- QR code and score ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_code_leads_to_this_very_instant(scheme: str, open_context: Visitors, app_url: str) -> None:
    page = visit(open_context(color_scheme=scheme).new_page(), f"{app_url}/playground?quantum=2&teach=on")
    for _ in range(3):
        page.keyboard.press("PageDown")
    shows(page, 3)
    page.keyboard.press("F5")
    expect(stage(page)).to_have_attribute("data-playing", "true")
    menu(page).get_by_role("button", name="QR code").press("Enter")
    code = page.get_by_role("dialog").get_by_role("img", name=re.compile("QR code"))
    expect(code).to_be_visible()
    tick = stage(page).get_attribute("data-tick")
    expect(page.get_by_role("dialog").get_by_text(f"{app_url}/playground?quantum=2&tick={tick}")).to_be_visible()
    shot = cv2.imdecode(np.frombuffer(code.screenshot(), np.uint8), cv2.IMREAD_COLOR)
    assert cv2.QRCodeDetector().detectAndDecode(shot)[0] == f"{app_url}/playground?quantum=2&tick={tick}"
    assert shot.shape[0] >= 0.5 * 900
    expect(page.get_by_role("dialog")).to_contain_text("make run HOST=0.0.0.0")
    other = visit(open_context().new_page(), f"{app_url}/playground?quantum=2&tick={tick}")
    assert stage(other).get_attribute("data-state-hash") == stage(page).get_attribute("data-state-hash")
    expect(leave(other)).to_have_count(0)


@pytest.mark.parametrize("address", ["playground?quantum=2&tick=3", "compare?tick=3"])
def test_an_open_code_follows_a_stage_that_says_late_where_it_stopped(page: Page, app_url: str, address: str) -> None:
    visit(page, f"{app_url}/{address}&teach=on")
    menu(page).get_by_role("button", name="QR code").press("Enter")
    shown = page.get_by_role("dialog").get_by_text(f"{app_url}/{address}", exact=True)
    expect(shown).to_be_visible()
    page.get_by_role("button", name="Forward one tick").first.dispatch_event("click")
    shows(page, 4)
    expect(page.get_by_role("dialog").get_by_text(f"{app_url}/{address[:-1]}4", exact=True)).to_be_visible()
    expect(shown).to_have_count(0)


def test_the_score_is_shown_taken_away_and_begun_anew(page: Page, app_url: str, watch: Watch) -> None:
    visit(page, f"{app_url}/preemption?step=5&teach=on")
    page.get_by_test_id("stRadioOption").first.click()
    expect(page.get_by_role("button", name="Reveal the tick")).to_be_enabled()
    page.keyboard.press("PageDown")
    verdict = page.locator(".st-key-lesson_verdict")
    expect(verdict).to_contain_text("You said")
    right = int("Right" in verdict.inner_text())
    menu(page).get_by_role("button", name="Score").click()
    board = page.get_by_role("dialog")
    expect(board).to_contain_text(f"{right} of 1 right")
    expect(board.get_by_role("row", name=re.compile("When the first token comes"))).to_contain_text("1")
    with page.expect_download() as taken:
        board.get_by_role("button", name="Download (CSV)").click()
    rows = list(csv.DictReader(taken.value.path().read_text(encoding="utf-8").splitlines()))
    assert [(row["lesson"], row["step"], row["result"]) for row in rows] == [
        ("Preemption", "5", "right" if right else "wrong")
    ]
    board.get_by_role("button", name="Begin a new score").click()
    expect(board).to_contain_text("No question was answered yet")
    # The button that had the focus is gone; the dialog takes the focus in the next frame.
    expect(board.locator(":focus")).to_have_count(1)
    page.keyboard.press("Escape")
    expect(board).to_have_count(0)
    expect(page.get_by_role("button", name="Reveal the tick")).to_be_visible()
    assert watch.problems == []


# --- accessibility ----------------------------------------------------------------------------------------------------


def test_axe_finds_nothing_in_the_teacher_view(page: Page, app_url: str) -> None:
    visit(page, f"{app_url}/playground?tick=14&teach=on,walls")
    assert violations(page) == [], "a stage, and a message about the address"
    menu(page)
    assert violations(page) == [], "the teacher's choices"
    page.get_by_test_id("stPopoverBody").get_by_role("button", name="QR code").click()
    expect(page.get_by_role("dialog").get_by_role("img", name=re.compile("QR code"))).to_be_visible()
    settle(page)
    assert violations(page) == [], "a QR code"
    visit(page, f"{app_url}/compare?tick=9&teach=on")
    assert violations(page) == [], "two stages"
    visit(page, f"{app_url}/preemption?step=5&teach=on")
    assert violations(page) == [], "a question"
    page.get_by_test_id("stRadioOption").first.click()
    expect(page.get_by_role("button", name="Reveal the tick")).to_be_enabled()
    page.keyboard.press("PageDown")
    expect(page.locator(".st-key-lesson_verdict")).to_be_visible()
    menu(page).get_by_role("button", name="Score").click()
    expect(page.get_by_role("dialog")).to_contain_text("of 1 right")
    settle(page)
    assert violations(page) == [], "the score"
    page.keyboard.press("b")

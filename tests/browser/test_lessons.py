"""The lessons in a real browser: walked from start to end, by mouse, by finger and by keyboard."""

from __future__ import annotations

import re
from collections.abc import Callable
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import BrowserContext, Locator, Page, expect

from pages.components.lesson_question import grade_of, question_of
from pages.components.lesson_runs import LessonRuns
from scheduler_core.lesson import Lesson, Step, load_lesson
from scheduler_core.predictions import Question, right_values
from tests.browser.axe import violations
from tests.browser.conftest import Server, Watch, settle

pytestmark = pytest.mark.browser

Visitors = Callable[..., BrowserContext]

PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
WIDTHS = ("document.documentElement.scrollWidth", "document.querySelector('[data-testid=stMain]').scrollWidth")


def visit(page: Page, url: str) -> Page:
    page.goto(url)
    settle(page)
    page.wait_for_selector("[data-state-hash]")
    return page


def stage(page: Page) -> Locator:
    return page.locator("[data-state-hash]")


def next_button(page: Page) -> Locator:
    return page.get_by_role("button", name="Next ›", exact=True)


def heading(page: Page, step: Step) -> Locator:
    return page.get_by_role("heading", name=step.title, exact=True)


def spoken(page: Page) -> Locator:
    return page.locator("[role=status]", has_text=re.compile("Step|Check|Right|Not so|The run"))


def answer(page: Page, asked: Question, value: str) -> None:
    """Choose an answer and reveal the tick."""
    place = [choice.value for choice in asked.choices].index(value)
    reveal = page.get_by_role("button", name="Reveal the tick")
    expect(reveal).to_be_disabled()
    page.get_by_test_id("stRadioOption").nth(place).click()
    expect(reveal).to_be_enabled()
    reveal.click()


def an_answer(asked: Question, traces: LessonRuns, step: Step, *, right: bool) -> str:
    good = right_values(traces[step.run], asked)
    return next(choice.value for choice in asked.choices if (choice.value in good) is right)


def walk(page: Page, lesson: Lesson, *, right: bool, look: Callable[[], None]) -> int:
    """Every step to the end, every question answered rightly or wrongly; gives the number of questions."""
    traces = LessonRuns(lesson)
    questions = 0
    for step in lesson.steps:
        expect(heading(page, step)).to_be_visible()
        tick = step.stop.find(traces[step.run])
        asked = question_of(step, traces)
        if asked is None:
            expect(stage(page)).to_have_attribute("data-tick", str(tick))
        else:
            questions += 1
            expect(stage(page)).to_have_attribute("data-tick", str(tick - 1))
            value = an_answer(asked, traces, step, right=right)
            answer(page, asked, value)
            verdict = page.locator(".st-key-lesson_verdict")
            expect(verdict).to_contain_text("Right" if right else "Not so")
            grade = grade_of(asked, traces[step.run], value)
            expect(verdict).to_contain_text(grade.reason)
            expect(stage(page)).to_have_attribute("data-tick", str(grade.reveal_tick))
        look()
        next_button(page).click()
    expect(page.get_by_role("heading", name="Check yourself")).to_be_visible()
    look()
    return questions


def expected_score(questions: int, *, right: bool) -> str:
    return f"{questions if right else 0} of {questions} right."


def test_a_lesson_is_walked_with_right_answers(page: Page, app_url: str, watch: Watch, server: Server) -> None:
    visit(page, f"{app_url}/preemption")
    entries = page.evaluate("history.length")
    questions = walk(page, load_lesson("preemption"), right=True, look=lambda: None)
    expect(page.locator(".st-key-lesson_band")).to_contain_text(expected_score(questions, right=True))
    expect(next_button(page)).to_be_disabled()
    assert page.evaluate("history.length") == entries
    assert watch.problems == []
    assert watch.foreign == []
    assert server.complaints() == []


@pytest.mark.parametrize("name", ["chunked_prefill", "prefix_caching", "preemption"])
def test_a_lesson_is_walked_on_a_phone_with_wrong_answers(
    name: str, open_context: Visitors, app_url: str, watch: Watch
) -> None:
    page = open_context(**PHONE).new_page()
    watch.follow(page, app_url)
    visit(page, f"{app_url}/{name}")

    def look() -> None:
        assert [page.evaluate(width) for width in WIDTHS] == [390, 390]

    questions = walk(page, load_lesson(name), right=False, look=look)
    if questions:
        expect(page.locator(".st-key-lesson_band")).to_contain_text(expected_score(questions, right=False))
    assert watch.problems == []


def press_until(page: Page, key: str, wanted: Locator, most: int = 40) -> None:
    """Press a key until the focus is on what is wanted."""
    for _ in range(most):
        if wanted.evaluate("(e) => e === document.activeElement"):
            return
        page.keyboard.press(key)
    raise AssertionError(f"{most} times {key} did not lead to {wanted}")


def test_a_lesson_is_walked_by_keyboard_alone(page: Page, app_url: str, watch: Watch) -> None:
    lesson = load_lesson("prefix_caching")
    traces = LessonRuns(lesson)
    visit(page, f"{app_url}/prefix_caching")
    press_until(page, "Tab", next_button(page))
    for number, step in enumerate(lesson.steps, 1):
        expect(heading(page, step)).to_be_visible()
        expect(spoken(page)).to_contain_text(f"Step {number} of {len(lesson.steps)}: {step.title}")
        asked = question_of(step, traces)
        if asked is not None:
            options = page.get_by_role("radiogroup").get_by_role("radio")
            # Backwards, the way into a group of which nothing is chosen is by its last.
            press_until(page, "Shift+Tab", options.last)
            page.keyboard.press("Space")
            value = an_answer(asked, traces, step, right=True)
            for _ in range([choice.value for choice in asked.choices].index(value) + 1):
                page.keyboard.press("ArrowRight")
            reveal = page.get_by_role("button", name="Reveal the tick")
            expect(reveal).to_be_enabled()
            press_until(page, "Tab", reveal)
            page.keyboard.press("Enter")
            expect(spoken(page)).to_contain_text("Right. You said")
            # The button that was pressed is gone; the focus must not be lost with it.
            expect(next_button(page)).to_be_focused()
        expect(next_button(page)).to_be_focused()
        page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Check yourself")).to_be_visible()
    expect(page.locator(".st-key-lesson_band")).to_contain_text("2 of 2 right.")
    question = page.locator("summary").first
    press_until(page, "Shift+Tab", question)
    page.keyboard.press("Enter")
    expect(page.locator("details").first).to_have_attribute("open", "")
    assert watch.problems == []


def test_a_reload_keeps_the_step_and_so_does_a_way_there_and_back(page: Page, app_url: str) -> None:
    lesson = load_lesson("preemption")
    visit(page, f"{app_url}/preemption")
    for step in lesson.steps[:3]:
        expect(heading(page, step)).to_be_visible()
        next_button(page).click()
    expect(heading(page, lesson.steps[3])).to_be_visible()
    page.wait_for_function("() => location.search === '?step=4'")
    page.reload()
    settle(page)
    expect(heading(page, lesson.steps[3])).to_be_visible()
    page.get_by_test_id("stSidebar").get_by_role("link", name="Chunked prefill").click()
    page.wait_for_url("**/chunked_prefill*")
    settle(page)
    page.go_back()
    page.wait_for_function("() => location.pathname === '/preemption'")
    settle(page)
    expect(heading(page, lesson.steps[3])).to_be_visible()
    page.get_by_role("button", name="‹ Back", exact=True).click()
    expect(heading(page, lesson.steps[2])).to_be_visible()
    page.wait_for_function("() => location.search === '?step=3'")


def test_nothing_of_the_future_is_drawn_before_an_answer(page: Page, app_url: str) -> None:
    lesson = load_lesson("preemption")
    traces = LessonRuns(lesson)
    visit(page, f"{app_url}/preemption?step=2")
    tick = lesson.steps[1].stop.find(traces["base"])
    stage(page).press("End")
    expect(stage(page)).to_have_attribute("data-tick", str(tick - 1))
    expect(stage(page).locator(".card", has_text="preempted")).to_have_count(0)
    expect(stage(page).locator(".timeline .count")).to_contain_text(f"ticks 0 to {tick - 1}")
    expect(page.get_by_role("button", name=re.compile("^Why"))).to_have_count(0)
    page.get_by_role("button", name="skip").click()
    expect(stage(page).locator(".card", has_text="preempted")).to_have_count(1)
    expect(stage(page)).to_have_attribute("data-tick", str(tick))


def test_another_setting_is_tried_on_the_stage(page: Page, app_url: str) -> None:
    traces = LessonRuns(load_lesson("chunked_prefill"))
    visit(page, f"{app_url}/chunked_prefill?step=7")
    expect(stage(page)).to_contain_text(f"of {len(traces['base'].records) - 1}")
    page.get_by_role("radio", name="whole prompts").click()
    expect(stage(page)).to_contain_text(f"of {len(traces['whole'].records) - 1}")
    expect(page.locator(".st-key-lesson_try")).to_contain_text("With whole prompts R4 has its first token")


def test_why_leads_to_the_same_instant_on_the_playground(page: Page, app_url: str) -> None:
    visit(page, f"{app_url}/chunked_prefill?step=8")
    before = stage(page).get_attribute("data-state-hash")
    page.get_by_role("button", name=re.compile("^Why")).first.click()
    page.wait_for_url("**/playground*")
    settle(page)
    query = {name: values[0] for name, values in parse_qs(urlsplit(page.url).query).items()}
    assert (query["scenario"], query["chunk_size"]) == ("long_prompt_meets_chat", "4")
    assert stage(page).get_attribute("data-state-hash") == before


def test_axe_finds_nothing_in_a_lesson(page: Page, app_url: str) -> None:
    visit(page, f"{app_url}/preemption?step=5")
    assert violations(page) == [], "a question"
    page.get_by_test_id("stRadioOption").first.click()
    expect(page.get_by_role("button", name="Reveal the tick")).to_be_enabled()
    assert violations(page) == [], "a chosen answer"
    page.get_by_role("button", name="Reveal the tick").click()
    expect(page.locator(".st-key-lesson_verdict")).to_be_visible()
    settle(page)
    assert violations(page) == [], "a verdict, with a table and other runs to try"
    visit(page, f"{app_url}/chunked_prefill?step=99")
    for question in page.locator("summary").all():
        question.click()
    assert violations(page) == [], "the end, and a message about the address"

"""The page from scratch in a real browser: every flaw run, a law that turns red, and the same without the mistake."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import BrowserContext, Locator, Page, expect

from scheduler_core.faults import FAULTS
from scheduler_core.scratch.experiments import EXPERIMENTS
from scheduler_core.scratch.growth import STAGES, stage_run
from scheduler_core.scratch.museum import exhibit, law_break
from tests.browser.axe import violations
from tests.browser.conftest import Server, Watch, settle

pytestmark = pytest.mark.browser

Visitors = Callable[..., BrowserContext]

PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
WIDTHS = ("document.documentElement.scrollWidth", "document.querySelector('[data-testid=stMain]').scrollWidth")


def visit(page: Page, app_url: str) -> Page:
    page.goto(f"{app_url}/from_scratch")
    settle(page)
    expect(stages(page)).to_have_count(1)
    return page


def stages(page: Page) -> Locator:
    return page.locator("[data-state-hash]")


def press(page: Page, name: str) -> None:
    page.get_by_role("button", name=name, exact=True).click()
    settle(page)


def assert_calm(watch: Watch, server: Server) -> None:
    assert watch.problems == []
    assert watch.foreign == []
    assert server.complaints() == []


def test_every_flaw_is_run_in_turn_and_told_to_a_screen_reader(
    page: Page, app_url: str, watch: Watch, server: Server
) -> None:
    visit(page, app_url)
    for step, experiment in enumerate(EXPERIMENTS, 1):
        expect(page.get_by_role("heading", name=experiment.title, exact=True)).to_be_visible()
        expect(page.get_by_text(f"Flaw {step} of {len(EXPERIMENTS)}", exact=True)).to_be_visible()
        press(page, "Run it")
        happened = experiment.run().happened
        expect(page.locator(".st-key-scratch_result")).to_contain_text(happened)
        expect(page.get_by_role("status").filter(has_text=happened)).to_have_count(1)
        if step < len(EXPERIMENTS):
            press(page, "Next ›")
    expect(page.get_by_role("button", name="Next ›")).to_be_disabled()
    assert_calm(watch, server)


def test_the_real_one_grows_part_by_part_on_the_stage(page: Page, app_url: str, watch: Watch, server: Server) -> None:
    visit(page, app_url)
    stages(page).press("End")
    expect(stages(page)).to_have_attribute("data-tick", str(len(stage_run(0).records) - 1))
    page.get_by_role("radio", name=re.compile("priorities")).click()
    expect(page.locator(".st-key-scratch_growth")).to_contain_text(STAGES[-1].text)
    expect(stages(page)).to_have_attribute("data-tick", "0")
    expect(stages(page)).to_contain_text(f"of {len(stage_run(len(STAGES) - 1).records) - 1}")
    assert_calm(watch, server)


def test_the_law_turns_red_at_its_tick_and_holds_without_the_mistake(
    page: Page, app_url: str, watch: Watch, server: Server
) -> None:
    name = "admit_by_first_chunk"
    found = law_break(exhibit(name, is_on=True))
    assert found is not None
    visit(page, app_url)
    page.get_by_role("radio", name=FAULTS[name].title).click()
    settle(page)
    press(page, "Run it with the mistake")
    broken = page.locator(".st-key-museum_law_broken")
    expect(broken).to_contain_text(f"A law broke at tick {found.tick}", timeout=20_000)
    expect(broken).to_contain_text(found.law.text)
    expect(broken).to_contain_text(found.detail)
    expect(stages(page).nth(1)).to_have_attribute("data-tick", str(found.tick))
    press(page, "Switch the mistake off")
    expect(broken).to_have_count(0)
    last = len(exhibit(name, is_on=False).records) - 1
    press(page, f"Go to tick {last}")
    expect(stages(page).nth(1)).to_have_attribute("data-tick", str(last))
    expect(page.locator(".st-key-museum_law_held")).to_contain_text(f"The law held in all {last + 1} ticks")
    assert_calm(watch, server)


def test_all_that_was_run_is_sound_for_axe_and_fits_a_phone(open_context: Visitors, app_url: str) -> None:
    page = visit(open_context(**PHONE).new_page(), app_url)
    page.get_by_text("The whole code").click()
    press(page, "Run it")
    page.get_by_role("radio", name=re.compile("priorities")).click()
    settle(page)
    press(page, "Run it with the mistake")
    expect(page.locator(".st-key-museum_law_broken")).to_be_visible(timeout=20_000)
    settle(page)
    assert violations(page) == []
    for width in WIDTHS:
        assert page.evaluate(width) <= 390

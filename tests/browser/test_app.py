"""The app in a real browser, as visitors meet it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import BrowserContext, Locator, Page, expect

from pages.components.frame import PAGES
from pages.components.runs import recording, scenario_names
from scheduler_core.backends.replay import ReplayRunner
from scheduler_core.engine import Engine
from scheduler_core.trace import Trace
from tests.browser.axe import violations
from tests.browser.conftest import Server, Watch, expect_query, query, settle, start_server

pytestmark = pytest.mark.browser

Visitors = Callable[..., BrowserContext]

ADDRESSES = ["/" if entry.path == "app.py" else "/" + Path(entry.path).stem for entry in PAGES]
#: The stage, or what stands in its place on a page without one.
DRAWN = "[data-state-hash], [data-glossary], .st-key-wl_step_run, .op-line"
PANELS = ("Why?", "Tokens", "Blocks", "Charts", "Events", "Export")


def visit(page: Page, url: str) -> Page:
    page.goto(url)
    settle(page)
    page.wait_for_selector(DRAWN)
    return page


def stage(page: Page) -> Locator:
    return page.locator("[data-state-hash]")


def instant(page: Page) -> tuple[str | None, str | None]:
    """The tick that is shown, and a digest of all that is shown of it."""
    return stage(page).get_attribute("data-tick"), stage(page).get_attribute("data-state-hash")


def step(page: Page, times: int = 1) -> None:
    """Steps of the stage by its key, each shown before the next."""
    for _ in range(times):
        before = int(stage(page).get_attribute("data-tick") or 0)
        stage(page).press("ArrowRight")
        expect(stage(page)).to_have_attribute("data-tick", str(before + 1))


def dial(page: Page, name: str, key: str, times: int = 1) -> None:
    for _ in range(times):
        page.get_by_role("slider", name=name).press(key)
        settle(page)


def replayed(name: str, **changes: object) -> Trace:
    """The core's own run of a scenario on its recorded tokens."""
    recorded = recording(name)
    assert recorded is not None
    engine = Engine(recorded.config.replace(**changes), ReplayRunner(recorded))
    for spec in recorded.requests:
        engine.add_request(spec)
    return engine.run()


def assert_calm(watch: Watch, server: Server) -> None:
    assert watch.problems == []
    assert watch.foreign == []
    assert server.complaints() == []


@pytest.mark.parametrize("address", ADDRESSES)
def test_a_fresh_server_answers_a_deep_link(address: str, open_context: Visitors, watch: Watch, tmp_path: Path) -> None:
    fresh = start_server(tmp_path / "log.txt")
    try:
        page = open_context().new_page()
        watch.follow(page, fresh.url)
        visit(page, fresh.url + address)
        assert urlsplit(page.url).path == address
        assert page.locator(DRAWN).count() >= 1
        assert_calm(watch, fresh)
    finally:
        fresh.stop()


def test_home_plays_with_one_click(page: Page, app_url: str, watch: Watch, server: Server) -> None:
    visit(page, app_url)
    page.get_by_role("button", name=re.compile("^Play")).click()
    page.wait_for_function(
        "() => [...document.querySelectorAll('*')].some((e) => e.shadowRoot &&"
        " Number(e.shadowRoot.querySelector('[data-tick]')?.dataset.tick) >= 3)"
    )
    assert_calm(watch, server)


def test_the_pages_lead_to_each_other(page: Page, app_url: str, watch: Watch, server: Server) -> None:
    visit(page, app_url)
    page.get_by_test_id("stSidebar").get_by_role("link", name="Playground").click()
    page.wait_for_url("**/playground*")
    settle(page)
    expect(page.get_by_role("heading", name="Playground", level=1)).to_be_visible()
    page.get_by_test_id("stSidebar").get_by_role("link", name="Home").click()
    page.wait_for_url(app_url + "/")
    settle(page)
    expect(page.get_by_role("heading", level=1)).to_contain_text("who runs next")
    assert_calm(watch, server)


def test_a_card_opens_its_scenario(page: Page, app_url: str) -> None:
    visit(page, app_url)
    name = scenario_names()[-1]
    page.locator(f".st-key-card_{name}").get_by_role("link").click()
    page.wait_for_url(f"**/playground?scenario={name}*")
    settle(page)
    expect(page.get_by_role("button", name=re.compile(f"Scenario.*{name}"))).to_be_visible()


def test_numbers_on_screen_are_the_core_s(page: Page, app_url: str) -> None:
    visit(page, f"{app_url}/playground?scenario=time_slices&quantum=2&tick=20")
    trace = replayed("time_slices", quantum=2)
    record = trace.records[20]
    assert stage(page).get_attribute("data-tick") == "20"
    expect(stage(page)).to_contain_text(f"of {len(trace.records) - 1}")
    expect(stage(page)).to_contain_text(f"{record.counts.scheduled_tokens} of {trace.config.max_num_batched_tokens}")
    expect(stage(page)).to_contain_text(f"{record.counts.used_blocks} of {trace.config.num_blocks} in use")


def test_a_slider_recomputes_the_run_and_keeps_the_playhead(
    page: Page, app_url: str, watch: Watch, server: Server
) -> None:
    visit(page, f"{app_url}/playground?scenario=time_slices&tick=9")
    before = instant(page)
    node = stage(page).element_handle()
    dial(page, "Quantum", "ArrowLeft", 2)
    changed = replayed("time_slices", quantum=2)
    expect(stage(page)).to_contain_text(f"of {len(changed.records) - 1}")
    assert instant(page)[0] == "9"
    assert instant(page)[1] != before[1]
    assert node is not None
    assert node.evaluate("(e) => e.isConnected")
    expect_query(page, quantum="2")
    assert_calm(watch, server)


def test_two_visitors_do_not_touch_each_other(open_context: Visitors, app_url: str) -> None:
    one, other = (visit(open_context().new_page(), f"{app_url}/playground?scenario=time_slices") for _ in range(2))
    dial(one, "Quantum", "ArrowLeft", 2)
    dial(other, "Quantum", "ArrowRight", 2)
    settle(one)
    assert query(one)["quantum"] == "2"
    assert query(other)["quantum"] == "6"
    expect(stage(one)).to_contain_text(f"of {len(replayed('time_slices', quantum=2).records) - 1}")
    expect(stage(other)).to_contain_text(f"of {len(replayed('time_slices', quantum=6).records) - 1}")


def test_a_shared_link_opens_the_same_instant(page: Page, open_context: Visitors, app_url: str) -> None:
    visit(page, f"{app_url}/playground?scenario=memory_pressure")
    dial(page, "Chunk size", "ArrowLeft")
    step(page, 7)
    page.get_by_role("tab", name="Tokens").click()
    settle(page)
    page.get_by_role("radio", name="R5").click()
    settle(page)
    expect(stage(page)).to_have_attribute("data-selected", "R5")
    # The page may have sent the stage to where it last heard of it; the stage then sets the address right again.
    page.wait_for_timeout(1500)
    assert query(page) | {"tick": "7", "selected": "R5", "panel": "Tokens"} == query(page)
    friend = visit(open_context().new_page(), page.url)
    assert instant(friend) == instant(page)
    assert stage(friend).get_attribute("data-selected") == "R5"
    expect(friend.get_by_role("tab", name="Tokens")).to_have_attribute("aria-selected", "true")
    assert urlsplit(friend.url).query == urlsplit(page.url).query


def test_the_link_in_export_is_the_address(page: Page, app_url: str) -> None:
    visit(page, f"{app_url}/playground?scenario=first_steps&quantum=3&panel=Export&tick=5")
    shown = page.get_by_test_id("stCode").inner_text().strip()
    assert parse_qs(urlsplit(shown).query) == parse_qs(urlsplit(page.url).query)


def test_steps_and_settings_add_no_entry_to_the_history(page: Page, app_url: str) -> None:
    visit(page, f"{app_url}/playground")
    before = page.evaluate("history.length")
    step(page, 5)
    dial(page, "Quantum", "ArrowRight")
    page.get_by_role("tab", name="Events").click()
    settle(page)
    assert page.evaluate("history.length") == before
    expect_query(page, tick="5")


def test_back_works_after_a_change(page: Page, app_url: str) -> None:
    visit(page, app_url)
    page.get_by_test_id("stSidebar").get_by_role("link", name="Playground").click()
    page.wait_for_url("**/playground*")
    settle(page)
    dial(page, "Quantum", "ArrowLeft", 2)
    step(page, 3)
    settle(page)
    wanted = instant(page)
    page.go_back()
    page.wait_for_function("() => location.pathname === '/'")
    settle(page)
    expect(page.get_by_role("heading", level=1)).to_contain_text("who runs next")
    page.go_forward()
    page.wait_for_url("**/playground*")
    settle(page)
    expect(stage(page)).to_have_attribute("data-tick", "3")
    assert instant(page) == wanted
    expect_query(page, quantum="2")


def test_what_was_chosen_outlives_a_visit_to_another_page(page: Page, app_url: str) -> None:
    visit(page, f"{app_url}/playground?scenario=first_steps&quantum=3&tick=4")
    sidebar = page.get_by_test_id("stSidebar")
    sidebar.get_by_role("link", name="Home").click()
    page.wait_for_url(app_url + "/")
    settle(page)
    sidebar.get_by_role("link", name="Playground").click()
    page.wait_for_url("**/playground*")
    settle(page)
    expect(stage(page)).to_have_attribute("data-tick", "4")
    expect_query(page, only=True, scenario="first_steps", quantum="3", tick="4")


GARBAGE = (
    "scenario=%3Cscript%3Ealert(1)%3C/script%3E&backend=x&preset=%00&tick=-1e99&selected=%F0%9F%92%A9&panel=nope"
    "&quantum=99999999&chunk_size=none,none&policy=![x](http://example.com/x.png)&num_blocks=-1&block_size=NaN"
    "&seed=9&seed=9e9&requests=AAAA&cost=moon&enable_prefix_caching=perhaps&what=ever"
)


def test_garbage_in_the_address_is_told_in_words(page: Page, app_url: str, watch: Watch, server: Server) -> None:
    visit(page, f"{app_url}/playground?{GARBAGE}")
    notice = page.locator(".st-key-link_messages")
    expect(notice).to_contain_text("<script>alert(1)</script>")
    expect(notice).to_contain_text("from 1 to 1000")
    expect(notice.locator("img, script")).to_have_count(0)
    assert stage(page).get_attribute("data-tick") == "0"
    notice.get_by_role("button", name="Got it").click()
    settle(page)
    expect(notice).to_have_count(0)
    assert_calm(watch, server)


def test_garbage_on_the_home_page_does_no_harm(page: Page, app_url: str, watch: Watch, server: Server) -> None:
    visit(page, f"{app_url}/?tick=<b>&scenario=1")
    assert stage(page).get_attribute("data-tick") == "0"
    assert_calm(watch, server)


def test_the_page_stands_still_while_one_steps(page: Page, app_url: str) -> None:
    visit(page, f"{app_url}/playground?panel=Events")
    main = page.get_by_test_id("stMain")
    stage(page).focus()
    main.evaluate("(e) => e.scrollTo(0, 150)")
    before = main.evaluate("(e) => e.scrollTop")
    assert before > 0
    for tick in range(1, 5):
        page.keyboard.press("ArrowRight")
        expect(stage(page)).to_have_attribute("data-tick", str(tick))
    settle(page)
    assert main.evaluate("(e) => e.scrollTop") == before


def test_requests_of_ones_own_are_written_run_and_kept(
    page: Page, app_url: str, watch: Watch, server: Server, open_context: Visitors
) -> None:
    visit(page, f"{app_url}/playground?scenario=first_steps&backend=synthetic")
    page.get_by_role("button", name=re.compile("^Requests")).click()
    box = page.get_by_role("dialog")
    box.get_by_role("button", name="Delete all").click()
    expect(box).to_contain_text("There is no request yet")
    settle(page)
    box.get_by_role("button", name="Add a request").click()
    prompt = box.get_by_label("Prompt of R0")
    prompt.fill("<script>alert('x')</script> Wer fragt, lernt. 🌊")
    box.get_by_label("Max tokens").fill("1000000000")
    box.get_by_label("Max tokens").press("Tab")
    expect(box).to_contain_text("1,000,000,000; it must be from 1 to 256")
    expect(box.get_by_role("button", name="Run these")).to_be_disabled()
    expect(prompt).to_have_value("<script>alert('x')</script> Wer fragt, lernt. 🌊")
    box.get_by_label("Max tokens").fill("6")
    box.get_by_label("Max tokens").press("Tab")
    box.get_by_role("button", name="Run these").click()
    expect(box).to_have_count(0)
    settle(page)
    expect(page.get_by_role("button", name="Requests 1")).to_be_visible()
    page.wait_for_function("() => location.search.includes('requests=')")
    friend = visit(open_context().new_page(), page.url)
    expect(friend.get_by_role("button", name="Requests 1")).to_be_visible()
    assert instant(friend) == instant(page)
    assert_calm(watch, server)


def test_a_change_without_effect_is_explained(page: Page, app_url: str) -> None:
    visit(page, f"{app_url}/playground?scenario=first_steps&quantum=off&max_num_seqs=20")
    lanes = page.get_by_role("spinbutton", name="Lanes")
    lanes.fill("30")
    lanes.press("Enter")
    settle(page)
    expect(page.get_by_test_id("stSidebar")).to_contain_text("ever ran at once")


def test_why_leads_from_the_story_to_the_rules(page: Page, app_url: str) -> None:
    visit(page, f"{app_url}/playground?scenario=time_slices&panel=Events")
    page.get_by_role("button", name=re.compile("^Why")).first.click()
    settle(page)
    expect(page.get_by_role("tab", name="Why?")).to_have_attribute("aria-selected", "true")
    expect(page.locator(".st-key-why")).to_be_visible()


def test_a_click_on_a_block_shows_its_life_and_the_link_keeps_it(
    page: Page, open_context: Visitors, app_url: str
) -> None:
    visit(page, f"{app_url}/playground?scenario=memory_pressure&tick=20")
    page.locator(".panel.kv .block").nth(6).click()
    settle(page)
    expect(page.get_by_role("tab", name="Blocks")).to_have_attribute("aria-selected", "true")
    expect(page.get_by_text(re.compile("^Block 6 was taken 5 times"))).to_be_visible()
    expect(stage(page)).to_have_attribute("data-selected", "R3")
    expect_query(page, panel="Blocks", block="6", selected="R3", tick="20")
    friend = visit(open_context().new_page(), page.url)
    expect(friend.get_by_text(re.compile("^Block 6 was taken 5 times"))).to_be_visible()


def test_tokens_tell_where_they_came_from(page: Page, app_url: str) -> None:
    visit(page, f"{app_url}/playground?scenario=first_steps&panel=Tokens&selected=R1&tick=30")
    chips = page.get_by_role("list", name="Answer").get_by_role("listitem")
    expect(chips.first).to_be_visible()
    chips.first.hover()
    expect(page.get_by_text(re.compile(r"token 1, generated in tick \d+"))).to_be_visible()
    expect(page.get_by_text(re.compile(r"^\d+\.\d %$")).first).to_be_visible()


@pytest.mark.parametrize("address", ADDRESSES)
def test_axe_finds_nothing_on_any_page(address: str, page: Page, app_url: str) -> None:
    visit(page, app_url + address)
    assert violations(page) == []


def test_axe_finds_nothing_in_any_panel(page: Page, app_url: str) -> None:
    visit(page, f"{app_url}/playground?scenario=first_steps&tick=20")
    page.get_by_text("All settings").click()
    for panel in PANELS:
        page.get_by_role("tab", name=panel).click()
        settle(page)
        if panel == "Charts":
            page.wait_for_selector(".js-plotly-plot .legend", state="attached")
        assert violations(page) == [], panel
    page.get_by_role("button", name=re.compile("^Requests")).click()
    expect(page.get_by_role("dialog")).to_be_visible()
    settle(page)
    assert violations(page) == [], "dialog"


def test_axe_finds_nothing_in_any_message(page: Page, app_url: str) -> None:
    visit(page, f"{app_url}/playground?quantum=x&scenario=first_steps&tick=99999")
    budget = page.get_by_role("spinbutton", name="Budget")
    budget.fill("1")
    budget.press("Enter")
    settle(page)
    expect(page.get_by_text("These settings cannot run")).to_be_visible()
    assert violations(page) == []


@pytest.mark.parametrize("address", ADDRESSES)
def test_a_phone_shows_all_without_sideways_scrolling(
    address: str, open_context: Visitors, app_url: str, watch: Watch
) -> None:
    page = open_context(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True).new_page()
    watch.follow(page, app_url)
    visit(page, app_url + address)
    for width in ("document.documentElement.scrollWidth", "document.querySelector('[data-testid=stMain]').scrollWidth"):
        assert page.evaluate(width) <= 390
    expect(page.get_by_test_id("stSidebar")).to_have_attribute("data-collapsed", "true")
    assert watch.problems == []


def test_on_a_phone_the_sidebar_closes_after_a_link(open_context: Visitors, app_url: str) -> None:
    page = open_context(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True).new_page()
    visit(page, app_url)
    page.get_by_test_id("stExpandSidebarButton").click()
    sidebar = page.get_by_test_id("stSidebar")
    expect(sidebar).to_have_attribute("data-collapsed", "false")
    sidebar.get_by_role("link", name="Playground").click()
    page.wait_for_url("**/playground*")
    settle(page)
    expect(sidebar).to_have_attribute("data-collapsed", "true")


def test_nothing_is_asked_of_other_hosts(page: Page, app_url: str, watch: Watch) -> None:
    for address in ADDRESSES:
        visit(page, app_url + address)
    visit(page, f"{app_url}/playground")
    page.get_by_role("tab", name="Charts").click()
    settle(page)
    page.wait_for_selector(".js-plotly-plot .legend", state="attached")
    assert watch.foreign == []
    assert page.evaluate("document.fonts.check('16px \"Inter Variable\"')")


@pytest.mark.model
@pytest.mark.timeout(1200)
def test_two_visitors_run_the_model_at_once_and_each_gets_what_one_alone_gets(
    open_context: Visitors, app_url: str, server: Server
) -> None:
    names = ("first_steps", "priorities")
    pages = [visit(open_context().new_page(), f"{app_url}/playground?scenario={name}&backend=live") for name in names]
    for page in pages:
        page.get_by_role("button", name="Run on the model").click()
    for page in pages:
        # While it computes, the stage plays what is there, and its buttons answer.
        expect(page.locator(".st-key-live_bar")).to_contain_text(re.compile("computes tick [2-9]"), timeout=300_000)
        expect(stage(page)).not_to_have_attribute("data-tick", "0", timeout=30_000)
        stage(page).press(" ")
        expect(stage(page)).to_have_attribute("data-playing", "false")
    for page, name in zip(pages, names, strict=True):
        expect(page.locator(".st-key-live_bar")).to_contain_text("The run is done", timeout=600_000)
        recorded = recording(name)
        assert recorded is not None
        expect(stage(page)).to_contain_text(f"of {len(recorded.records) - 1}", timeout=30_000)
        stage(page).press("End")
        last = stage(page).get_attribute("data-state-hash")
        settle(page)
        alone = visit(
            open_context().new_page(), f"{app_url}/playground?scenario={name}&tick={len(recorded.records) - 1}"
        )
        assert stage(alone).get_attribute("data-state-hash") == last
    assert server.complaints() == []


@pytest.mark.model
@pytest.mark.timeout(1200)
def test_a_prompt_sent_to_a_live_run_is_answered(page: Page, app_url: str, watch: Watch, server: Server) -> None:
    visit(page, f"{app_url}/playground?scenario=priorities&backend=live")
    page.get_by_role("button", name="Run on the model").click()
    bar = page.locator(".st-key-live_bar")
    expect(bar.get_by_label("Send a prompt now")).to_be_visible(timeout=240_000)
    bar.get_by_role("button", name="Send").click()
    expect(bar).to_contain_text("empty prompt")
    page.wait_for_timeout(2_000)  # several looks at the run later
    expect(bar).to_contain_text("empty prompt")
    bar.get_by_label("Send a prompt now").fill("Say <b>hello</b>.")
    bar.get_by_label("Max tokens").fill("4")
    bar.get_by_role("button", name="Send").click()
    expect(stage(page)).to_contain_text("R0", timeout=240_000)
    expect(bar).not_to_contain_text("empty prompt")
    expect(bar).to_contain_text("The run is done", timeout=600_000)
    assert_calm(watch, server)


@pytest.mark.model
@pytest.mark.timeout(1200)
def test_a_stopped_run_keeps_what_was_computed(page: Page, app_url: str, watch: Watch, server: Server) -> None:
    visit(page, f"{app_url}/playground?scenario=memory_pressure&max_num_seqs=1&backend=live")
    page.get_by_role("button", name="Run on the model").click()
    bar = page.locator(".st-key-live_bar")
    expect(bar).to_contain_text(re.compile(r"computes tick [2-9]"), timeout=240_000)
    bar.get_by_role("button", name="Stop").click()
    expect(bar).to_contain_text("The run was stopped", timeout=60_000)
    settle(page)
    stage(page).press("End")
    assert int(stage(page).get_attribute("data-tick") or 0) >= 1
    assert_calm(watch, server)

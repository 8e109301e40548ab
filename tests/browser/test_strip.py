"""The strips under the sliders, in a real browser."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import BrowserContext, Locator, Page, expect

from scheduler_core.sensitivity import read
from scheduler_core.words import number
from tests.browser.axe import FORGIVEN
from tests.browser.conftest import Server, Watch, expect_query, settle
from tests.browser.test_app import assert_calm, dial, instant, replayed, step, visit

pytestmark = pytest.mark.browser

ROOT = Path(__file__).resolve().parents[2]

COMPUTED = re.compile(r"^(?!computing)")


def strip(page: Page, field: str) -> Locator:
    """The strip under a slider, once all is computed."""
    found = page.locator(f".st-key-dial_{field} .sparkline")
    expect(found.locator("summary")).to_have_text(COMPUTED, timeout=30_000)
    settle(page)
    return found


def test_a_figure_is_chosen_by_keyboard_and_travels_in_the_link(
    page: Page, app_url: str, watch: Watch, server: Server
) -> None:
    visit(page, f"{app_url}/playground?scenario=first_steps&quantum=24&tick=6")
    quantum = strip(page, "quantum")
    expect(quantum.locator("summary")).to_have_text("24 to off: the same run")
    chooser = quantum.get_by_role("combobox", name="Figure over all positions of Quantum")
    before = instant(page)
    chooser.focus()
    chooser.press("ArrowDown")
    chooser.press("ArrowDown")
    page.wait_for_url("**curve_quantum=mean_ttft*")
    settle(page)
    figures = read(replayed("first_steps", quantum=24)).figures
    assert figures["mean_ttft"] is not None
    expect(quantum.locator(".value")).to_have_text(f"{number(figures['mean_ttft'])} s")
    expect(chooser).to_be_focused()
    assert instant(page) == before
    page.goto(page.url)
    settle(page)
    expect(strip(page, "quantum").get_by_role("combobox")).to_have_value("mean_ttft")
    assert_calm(watch, server)


def test_the_table_says_what_the_curve_shows(page: Page, app_url: str, watch: Watch, server: Server) -> None:
    visit(page, f"{app_url}/playground?scenario=long_prompt_meets_chat&chunk_size=64")
    chunks = strip(page, "chunk_size")
    expect(chunks.locator("summary")).to_have_text("64 to the budget: the same run")
    chunks.locator("summary").focus()
    page.keyboard.press("Enter")
    table = chunks.get_by_role("table")
    expect(table.get_by_role("row").filter(has_text="here")).to_contain_text("64 tokens to the budget")
    expect(table.get_by_role("row")).to_have_count(15)
    expect(chunks).to_contain_text("No more than 61 tokens of a prompt could enter a tick anyway.")
    expect(chunks.get_by_role("img")).to_have_attribute("aria-label", re.compile("at each position of Chunk size"))
    every = strip(page, "quantum")
    expect(every.locator("summary")).to_have_text("every position: the same run")
    assert_calm(watch, server)


def test_a_slider_moves_the_mark_at_once_and_redraws_the_other_curve(
    page: Page, app_url: str, watch: Watch, server: Server
) -> None:
    visit(page, f"{app_url}/playground?scenario=memory_pressure&tick=9")
    mark = strip(page, "quantum").locator(".mark")
    curve = strip(page, "chunk_size").locator(".curve")
    before, drawn = mark.get_attribute("x1"), curve.first.get_attribute("points")
    dial(page, "Quantum", "Home")
    assert strip(page, "quantum").locator(".mark").get_attribute("x1") != before
    assert strip(page, "chunk_size").locator(".curve").first.get_attribute("points") != drawn
    assert instant(page)[0] == "9"
    step(page)
    settle(page)
    expect_query(page, tick="10")
    assert_calm(watch, server)


def test_two_visitors_each_have_their_own_strips(
    open_context: Callable[..., BrowserContext], app_url: str, watch: Watch, server: Server
) -> None:
    pages = [open_context().new_page() for _ in range(2)]
    for page, name in zip(pages, ("priorities", "shared_system_prompt"), strict=True):
        watch.follow(page, app_url)
        page.goto(f"{app_url}/playground?scenario={name}&max_num_batched_tokens=63&chunk_size=48")
    lines = [strip(page, "chunk_size").locator("summary").text_content() for page in pages]
    assert lines == ["48 to the budget: the same run", "no other position runs the same"]
    assert_calm(watch, server)


SCRIPT = "\n".join(
    (ROOT / "assets" / "page" / name).read_text(encoding="utf-8") for name in ("turns.js", "sparkline.js")
)

#: Strips on an empty page. As with Streamlit, what is said in one instant is one message: sent in a timer of no delay.
LOADED = """async (text) => {
  const blob = new Blob([text], { type: "text/javascript" });
  const { default: draw } = await import(URL.createObjectURL(blob));
  const rest = { values: [1, null], holes: ["", ""], same: [], at: 0, positions: [1, 2], texts: ["1", ""], rows: [] };
  const words = { label: "", note: "", line: "computing", why: "", meaning: "", notes: [], field: "" };
  window.messages = [];
  window.chooser = (place) => document.querySelector(`#${place} select`);
  let message = null;
  const say = (part) => {
    if (!message) {
      messages.push((message = []));
      setTimeout(() => (message = null), 0);
    }
    message.push(part);
    window.afterWord?.();
  };
  window.say = say;
  const options = ["x", "y", "z"].map((name) => ({ name, words: name }));
  window.show = (place, look, figure = "x") => {
    const parentElement = document.getElementById(place) ?? document.createElement("div");
    parentElement.id = place;
    document.body.append(parentElement);
    const setTriggerValue = (name, value) => say(`${place} ${value}`);
    draw({ parentElement, data: { ...rest, ...words, options, figure, look }, setTriggerValue });
  };
}"""


#: Where Streamlit says whether it runs the page's script.
APP = '<div data-testid="stApp" data-test-script-state="notRunning"></div>'


def empty(page: Page, html: str) -> Page:
    # Time stands still but for what a test lets pass.
    page.clock.install(time=0)
    page.goto("about:blank")
    page.clock.pause_at(10_000)
    page.evaluate("(html) => { document.body.innerHTML = html; }", html)
    page.evaluate(LOADED, SCRIPT)
    return page


@pytest.fixture
def blank(page: Page) -> Page:
    return empty(page, "")


@pytest.fixture
def blank_app(page: Page) -> Page:
    return empty(page, APP)


def say_state(page: Page, state: str) -> None:
    page.evaluate(
        "(state) => { document.querySelector('[data-testid=stApp]').dataset.testScriptState = state; }", state
    )
    page.clock.run_for(1)


def test_a_question_that_the_server_has_not_heard_is_asked_again_until_it_answers(blank: Page) -> None:
    blank.evaluate("show('a', 7)")
    blank.clock.run_for(2_000)
    assert blank.evaluate("messages") == [["a 7"]]
    blank.clock.run_for(8_000)
    assert blank.evaluate("messages") == [["a 7"]] * 3
    blank.evaluate("show('a', 0)")
    blank.clock.run_for(20_000)
    assert blank.evaluate("messages") == [["a 7"]] * 3


def test_parts_that_would_speak_in_one_instant_each_get_a_message_of_their_own(blank: Page) -> None:
    blank.evaluate("() => { for (const place of ['a', 'b', 'c']) show(place, 1); }")
    blank.clock.run_for(1_000)
    assert blank.evaluate("messages") == [["a 1"], ["b 1"], ["c 1"]]


def test_a_part_waits_while_a_field_elsewhere_may_speak_and_not_for_its_own_hands(blank: Page) -> None:
    blank.evaluate("() => { show('a', 1); document.body.append(document.createElement('input')); }")
    blank.clock.run_for(200)
    blank.locator("input").dispatch_event("pointerup")
    blank.clock.run_for(250)
    assert blank.evaluate("messages") == [], "the field may be about to speak"
    blank.clock.run_for(200)
    assert blank.evaluate("messages") == [["a 1"]]
    blank.evaluate("show('a', 2)")
    blank.clock.run_for(200)
    blank.locator("#a svg").dispatch_event("pointerup")
    blank.clock.run_for(100)
    assert blank.evaluate("messages") == [["a 1"], ["a 2"]]


def test_a_press_while_a_word_is_on_its_way_goes_through_in_a_message_of_its_own(blank: Page) -> None:
    blank.evaluate(
        """() => {
          document.body.insertAdjacentHTML("afterbegin", "<button><b>Stop</b></button>");
          document.querySelector("button").onclick = () => say("pressed");
          window.afterWord = () => { delete window.afterWord; document.querySelector("b").click(); };
          show('a', 1);
        }"""
    )
    blank.clock.run_for(1_000)
    assert blank.evaluate("messages") == [["a 1"], ["pressed"]]
    blank.locator("b").click()
    blank.clock.run_for(100)
    assert blank.evaluate("messages") == [["a 1"], ["pressed"], ["pressed"]]


def test_a_part_waits_until_the_page_is_drawn_after_the_word_before(blank_app: Page) -> None:
    blank_app.evaluate("() => { show('a', 1); show('b', 1); }")
    blank_app.clock.run_for(400)
    assert blank_app.evaluate("messages") == [["a 1"]], "the answer to the first is still to come"
    say_state(blank_app, "running")
    blank_app.clock.run_for(1_500)
    say_state(blank_app, "notRunning")
    say_state(blank_app, "running")
    blank_app.clock.run_for(500)
    assert blank_app.evaluate("messages") == [["a 1"]], "a run that asked for another is not the end"
    say_state(blank_app, "notRunning")
    blank_app.clock.run_for(200)
    assert blank_app.evaluate("messages") == [["a 1"], ["b 1"]]


def test_no_part_waits_for_ever_for_a_page_that_runs_or_that_nobody_saw_running(blank_app: Page) -> None:
    blank_app.evaluate("() => { show('a', 1); show('b', 1); }")
    blank_app.clock.run_for(1_500)
    assert blank_app.evaluate("messages") == [["a 1"], ["b 1"]]
    say_state(blank_app, "running")
    blank_app.evaluate("() => { show('a', 0); show('b', 0); show('c', 1); }")
    blank_app.clock.run_for(2_500)
    assert blank_app.evaluate("messages") == [["a 1"], ["b 1"]]
    blank_app.clock.run_for(1_000)
    assert blank_app.evaluate("messages") == [["a 1"], ["b 1"], ["c 1"]]


def test_of_quick_choices_only_the_last_is_said(blank_app: Page) -> None:
    blank_app.evaluate("show('a', 0)")
    for name in ("y", "z"):
        blank_app.evaluate(
            "(name) => { chooser('a').value = name; chooser('a').dispatchEvent(new Event('change')); }", name
        )
    blank_app.clock.run_for(1_500)
    assert blank_app.evaluate("messages") == [["a z"]]


def test_a_part_waits_while_a_file_is_sent(blank: Page) -> None:
    blank.evaluate("""() => {
      const field = document.body.appendChild(document.createElement("input"));
      field.type = "file";
      field.dispatchEvent(new Event("change", { bubbles: true }));
      show("a", 1);
    }""")
    blank.clock.run_for(2_000)
    assert blank.evaluate("messages") == []
    blank.evaluate("document.querySelector('input').remove()")
    blank.clock.run_for(200)
    assert blank.evaluate("messages") == [["a 1"]]


def test_a_part_that_has_its_answer_says_nothing_more(blank: Page) -> None:
    blank.evaluate("() => { show('a', 1); show('b', 1); }")
    blank.clock.run_for(200)
    blank.evaluate("show('a', 0)")
    blank.clock.run_for(9_000)
    assert {said for message in blank.evaluate("messages") for said in message} == {"b 1"}


def test_a_choice_is_not_taken_back_by_an_answer_to_an_earlier_question(blank: Page) -> None:
    def chosen(then: str) -> str:
        shown: str = blank.evaluate(f"() => {{ {then}; return chooser('a').value; }}")
        return shown

    def choose(name: str) -> str:
        return chosen(f"chooser('a').value = '{name}'; chooser('a').dispatchEvent(new Event('change'))")

    assert chosen("show('a', 1)") == "x"
    assert choose("y") == "y"
    assert chosen("show('a', 2, 'x')") == "y"
    assert choose("z") == "z"
    assert chosen("show('a', 3, 'y')") == "z"
    assert chosen("show('a', 0, 'z')") == "z"
    assert chosen("show('a', 0, 'x')") == "x", "the page has chosen another since"
    blank.clock.run_for(200)
    assert blank.evaluate("messages") == [["a y"], ["a z"]]
    assert choose("y") == "y"
    blank.clock.run_for(5_000)
    assert chosen("show('a', 0, 'x')") == "x", "the choice was not heard"


@pytest.mark.parametrize(("scheme", "width"), [("light", 1440), ("dark", 390)])
def test_the_strips_are_accessible_and_fit(
    scheme: str, width: int, open_context: Callable[..., BrowserContext], app_url: str
) -> None:
    page = open_context(color_scheme=scheme, viewport={"width": width, "height": 844}).new_page()
    visit(page, f"{app_url}/playground?scenario=first_steps&quantum=24")
    if width < 700:
        page.get_by_test_id("stExpandSidebarButton").click()
    for field in ("quantum", "chunk_size"):
        strip(page, field).locator("summary").click()
    strip(page, "quantum").get_by_role("combobox").focus()
    wide = page.evaluate(
        "() => [...document.querySelectorAll('*')].flatMap((e) => e.shadowRoot?.querySelector('.sparkline') ?? [])"
        ".filter((e) => e.scrollWidth > e.clientWidth).length"
    )
    assert wide == 0
    found = Axe().run(page, context=".stSidebar").response
    assert found["passes"]
    assert [problem["id"] for problem in found["violations"] if problem["id"] not in FORGIVEN] == []

"""The stage in a real browser: it plays smoothly, answers at once, and shows what the core did."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, Locator, Page

from pages.components.player_payload import payload
from scheduler_core.backends.synthetic import SyntheticRunner
from scheduler_core.engine import Engine
from scheduler_core.events import RequestPreempted
from scheduler_core.request import RequestStatus
from scheduler_core.trace import Trace
from scheduler_core.workload import load_scenario
from tests.browser.conftest import Watch, settle
from tests.figures import tell

pytestmark = pytest.mark.browser

SCENARIO = "time_slices"
#: A run whose tokens do not depend on what has been recorded, so that the test can compute it as well.
PATH = f"/playground?scenario={SCENARIO}&backend=synthetic"

#: `stage` for every script below: the component's own object.
FIND = """
const hosts = [...document.querySelectorAll("[data-testid=stBidiComponentIsolated]")];
const stage = hosts.map((host) => host.shadowRoot?.tickscope?.stage).find(Boolean);
"""

WATCH_FRAMES = """
new Promise((done) => {
  const { root } = stage;
  const frames = [], ticks = [], blanks = [];
  let last = root.dataset.tick;
  new MutationObserver(() => {
    if (root.dataset.tick !== last) ticks.push(performance.now());
    last = root.dataset.tick;
  }).observe(root, { attributes: true, attributeFilter: ["data-tick"] });
  const begin = performance.now();
  const look = (now) => {
    frames.push(now);
    const isBlank = !root.isConnected || root.clientHeight < 200 || !root.querySelector(".lane") ||
      root.querySelector(".said").textContent.trim() === "";
    if (isBlank) blanks.push(now);
    if (now - begin < MILLISECONDS) requestAnimationFrame(look);
    else done({ frames, ticks, blanks: blanks.length });
  };
  requestAnimationFrame(look);
})"""

#: All that is drawn, in an order of its own; what is hidden or only says where the focus may go is left out.
DRAWING = """
(() => {
  const words = (node) => {
    if (node.nodeType === Node.TEXT_NODE) return node.data;
    if (node.hidden) return "";
    const kept = [...node.attributes].filter(({ name }) => !["tabindex", "data-glide"].includes(name));
    const attributes = kept.map(({ name, value }) => `${name}=${value}`).sort().join(" ");
    return `<${node.nodeName} ${attributes}>${[...node.childNodes].map(words).join("")}`;
  };
  const canvas = stage.timeline.canvas.toDataURL();
  return [".transport", ".board", ".said"].map((part) => words(stage.root.querySelector(part))).join("") + canvas;
})()"""


def script(page: Page, expression: str, argument: Any = None) -> Any:
    """The value of a JavaScript expression in which `stage` is the stage and `argument` what is given."""
    return page.evaluate(f"(argument) => {{ {FIND} return ({expression.strip()}); }}", argument)


def stage(page: Page) -> Locator:
    return page.locator(".stage")


def tick(page: Page) -> int:
    return int(stage(page).get_attribute("data-tick") or -1)


def is_playing(page: Page) -> bool:
    return stage(page).get_attribute("data-playing") == "true"


def open_stage(page: Page, address: str) -> Page:
    page.goto(address)
    page.wait_for_selector(".stage[data-tick]", timeout=60_000)
    settle(page)
    stage(page).focus()
    return page


def go(page: Page, to: int) -> None:
    script(page, "stage.seek(argument)", to)
    settle(page)


def query(page: Page, name: str) -> str:
    """A part of the address, once Python has written it there."""
    page.wait_for_url(lambda url: name in parse_qs(urlsplit(url).query), timeout=10_000)
    return parse_qs(urlsplit(page.url).query)[name][0]


def percentile(values: list[float], share: float) -> float:
    """The smallest of the values that `share` of them do not pass."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def gaps(moments: list[float]) -> list[float]:
    return [after - before for before, after in pairwise(moments)]


@pytest.fixture(scope="module")
def trace() -> Trace:
    """What the core makes of the scenario, computed here."""
    scenario, runner = load_scenario(SCENARIO), SyntheticRunner()
    engine = Engine(scenario.config, runner, scenario=scenario.name, title=scenario.title)
    for spec in scenario.specs(runner):
        engine.add_request(spec)
    return engine.run()


@pytest.fixture
def play(page: Page, app_url: str) -> Page:
    return open_stage(page, app_url + PATH)


@pytest.fixture(scope="module")
def shared_play(browser: Browser, app_url: str) -> Iterator[Page]:
    """One page for tests that leave nothing behind."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    yield open_stage(context.new_page(), app_url + PATH)
    context.close()


def preemption(trace: Trace) -> int:
    """A tick in which somebody is preempted."""
    return next(r.tick for r in trace.records for e in r.events if isinstance(e, RequestPreempted))


# --- at rest ------------------------------------------------------------------------------------------------------


def test_it_starts_paused_at_tick_0_and_tells_nobody(page: Page, app_url: str) -> None:
    page.add_init_script(
        "window.sent = []; const send = WebSocket.prototype.send;"
        "WebSocket.prototype.send = function (data) { window.sent.push(performance.now()); send.call(this, data); };"
    )
    open_stage(page, app_url + "/")
    assert (tick(page), is_playing(page)) == (0, False)
    assert "tick" not in parse_qs(urlsplit(page.url).query)
    sent = page.evaluate("window.sent.length")
    page.wait_for_timeout(1_500)
    assert page.evaluate("window.sent.length") == sent


def test_numbers_on_screen_are_the_cores(play: Page, trace: Trace) -> None:
    for record in trace.records[::5]:
        go(play, record.tick)
        snapshot = record.snapshot
        assert snapshot is not None
        assert tick(play) == record.tick
        budget = trace.config.max_num_batched_tokens
        scheduled = record.output.num_scheduled_tokens
        assert play.locator(".panel.tick .count").inner_text() == f"{scheduled} of {budget} tokens"
        running = {state.id for state in snapshot.requests if state.status is RequestStatus.RUNNING}
        ended_now = {item.request_id for item in record.output.scheduled} - running
        in_lanes = play.locator(".lane[data-request]").evaluate_all("rows => rows.map(row => row.dataset.request)")
        assert set(in_lanes) == running | ended_now
        waiting = play.locator(".waiting .card").evaluate_all("cards => cards.map(card => card.dataset.request)")
        assert waiting == list(snapshot.waiting)
        used = trace.config.num_blocks - len(snapshot.free_blocks)
        kept = len(set(snapshot.free_blocks) & set(snapshot.published_blocks))
        words = play.locator(".panel.kv .count").inner_text()
        assert words.startswith(f"{used} of {trace.config.num_blocks} in use · {kept} kept for reuse")


def test_the_slider_is_a_slider_with_the_tick_in_words(play: Page, trace: Trace) -> None:
    go(play, 3)
    slider = play.get_by_role("slider", name="Tick", exact=True)
    assert slider.input_value() == "3"
    assert slider.get_attribute("max") == str(len(trace.records) - 1)
    assert (slider.get_attribute("aria-valuetext") or "").startswith(f"tick 3 of {len(trace.records) - 1}: ")


def test_a_square_a_block_each_named(shared_play: Page, trace: Trace) -> None:
    squares = shared_play.locator(".panel.kv .block")
    assert squares.count() == trace.config.num_blocks
    labels = squares.evaluate_all("all => all.map(one => one.getAttribute('aria-label'))")
    assert all(label.startswith(f"block {number}, ") for number, label in enumerate(labels))


def test_only_what_changed_in_the_tick_is_cued(shared_play: Page, trace: Trace) -> None:
    snapshot = trace.records[0].snapshot
    assert snapshot is not None
    taken = {block for state in snapshot.requests for block in state.block_ids}
    cued = script(shared_play, "(stage.seek(0), [...stage.view.changedBlocks])")
    assert set(cued) == taken
    assert shared_play.locator(".panel.kv .block[data-changed]").count() == len(taken)


# --- playing ------------------------------------------------------------------------------------------------------


@pytest.mark.alone
def test_it_plays_smoothly_in_the_same_node_and_never_blank(play: Page) -> None:
    play.evaluate(f"() => {{ {FIND} window.before = stage.root; }}")
    play.keyboard.press("5")
    play.keyboard.press("Space")
    seen = script(play, WATCH_FRAMES.replace("MILLISECONDS", "2500"))
    frame_gaps, ticks = gaps(seen["frames"]), seen["ticks"]
    rate = 1000 * (len(ticks) - 1) / (ticks[-1] - ticks[0])
    p95 = percentile(frame_gaps, 0.95)
    same_node = script(play, "stage.root === window.before && stage.root.isConnected")
    tell(
        f"stage at 8x: {rate:.1f} ticks/s, {1000 * len(frame_gaps) / sum(frame_gaps):.0f} frames/s, frame gap median "
        f"{percentile(frame_gaps, 0.5):.0f} ms, 95th percentile {p95:.0f} ms, longest {max(frame_gaps):.0f} ms, "
        f"tick gap 95th percentile {percentile(gaps(ticks), 0.95):.0f} ms, blank frames {seen['blanks']}, "
        f"remounts {0 if same_node else 'seen'}"
    )
    settle(play)
    assert rate >= 10
    assert p95 <= 150
    assert seen["blanks"] == 0
    assert same_node
    assert play.locator(".stage").count() == 1


@pytest.mark.alone
def test_pause_answers_at_once_and_play_goes_on_from_there(play: Page) -> None:
    play.keyboard.press("4")
    play.keyboard.press("Space")
    play.wait_for_timeout(700)
    took = script(
        play,
        """new Promise((done) => {
          const begin = performance.now();
          stage.root.querySelector("button.play").click();
          requestAnimationFrame(() => done([performance.now() - begin, stage.root.dataset.playing]));
        })""",
    )
    tell(f"stage: pause answered after {took[0]:.0f} ms")
    assert took[0] <= 250
    assert took[1] == "false"
    stopped = tick(play)
    assert stopped > 0
    settle(play)
    play.wait_for_timeout(500)
    assert tick(play) == stopped
    stage(play).focus()
    first = script(
        play,
        """new Promise((done) => {
          new MutationObserver(() => done(Number(stage.root.dataset.tick)))
            .observe(stage.root, { attributes: true, attributeFilter: ["data-tick"] });
          stage.play();
        })""",
    )
    assert first == stopped + 1


@pytest.mark.alone
def test_it_stops_at_the_end_and_plays_again_from_the_start(play: Page, trace: Trace) -> None:
    last = len(trace.records) - 1
    go(play, last - 2)
    stage(play).focus()
    play.keyboard.press("5")
    play.keyboard.press("Space")
    play.wait_for_selector('.stage[data-playing="false"]', timeout=5_000)
    assert tick(play) == last
    settle(play)
    assert parse_qs(urlsplit(play.url).query)["tick"] == [str(last)]
    stage(play).focus()
    play.keyboard.press("Space")
    play.wait_for_timeout(250)
    assert is_playing(play)
    assert tick(play) < last


@pytest.mark.alone
def test_speed_changes_while_playing(play: Page) -> None:
    play.keyboard.press("1")
    play.keyboard.press("Space")
    play.wait_for_timeout(300)
    play.keyboard.press("5")
    before = tick(play)
    play.wait_for_timeout(800)
    assert is_playing(play)
    assert tick(play) - before >= 6
    assert play.get_by_role("combobox", name="Speed").input_value() == "8"


@pytest.mark.alone
def test_a_hidden_tab_pauses(play: Page) -> None:
    play.keyboard.press("Space")
    play.wait_for_timeout(200)
    assert is_playing(play)
    play.evaluate(
        "Object.defineProperty(document, 'hidden', { value: true, configurable: true });"
        "document.dispatchEvent(new Event('visibilitychange'))"
    )
    assert not is_playing(play)
    play.evaluate("delete document.hidden")


@pytest.mark.alone
def test_it_plays_on_while_the_connection_is_lost(play: Page) -> None:
    play.context.set_offline(True)
    play.keyboard.press("5")
    play.keyboard.press("Space")
    play.wait_for_timeout(600)
    assert tick(play) >= 4
    play.context.set_offline(False)


# --- stepping -----------------------------------------------------------------------------------------------------


def test_step_and_back_draw_the_same(play: Page, trace: Trace) -> None:
    for at in (preemption(trace), 0, len(trace.records) // 2):
        go(play, at)
        hashed, drawn = stage(play).get_attribute("data-state-hash"), script(play, DRAWING)
        stage(play).focus()
        play.keyboard.press("ArrowRight")
        assert stage(play).get_attribute("data-state-hash") != hashed
        play.keyboard.press("ArrowLeft")
        assert stage(play).get_attribute("data-state-hash") == hashed
        assert script(play, DRAWING) == drawn


def test_every_way_to_a_tick_draws_the_same(shared_play: Page) -> None:
    ways = script(
        shared_play,
        """(() => {
          const forth = [], back = [];
          const hash = (tick) => (stage.show(tick), stage.view.hash);
          for (let tick = 0; tick < stage.run.length; tick += 1) forth.push(hash(tick));
          for (let tick = stage.run.length - 1; tick >= 0; tick -= 1) back.unshift(hash(tick));
          return [forth, back];
        })()""",
    )
    assert ways[0] == ways[1]
    assert len(set(ways[0])) == len(ways[0])


#: Key, tick before, tick after (negative: from the end).
MOVES = (
    ("ArrowRight", 5, 6),
    ("ArrowLeft", 5, 4),
    ("PageDown", 5, 6),
    ("PageUp", 5, 4),
    ("Home", 5, 0),
    ("End", 5, -1),
    ("ArrowLeft", 0, 0),
)


def test_each_key_moves_the_tick_as_the_help_says(play: Page, trace: Trace) -> None:
    for key, start, end in MOVES:
        script(play, "stage.seek(argument)", start)
        stage(play).focus()
        play.keyboard.press(key)
        assert tick(play) == end % len(trace.records), key


def test_n_goes_to_the_next_event_of_the_kind_in_the_menu(play: Page, trace: Trace) -> None:
    preempted = [r.tick for r in trace.records if any(isinstance(e, RequestPreempted) for e in r.events)]
    play.get_by_role("combobox", name="Kind of event to jump to").select_option("preemption")
    stage(play).focus()
    for expected in preempted[:3]:
        play.keyboard.press("n")
        assert tick(play) == expected
    play.keyboard.press("Shift+N")
    assert tick(play) == preempted[1]
    play.get_by_role("button", name="next preemption").click()
    assert tick(play) == preempted[2]


def test_help_opens_lists_the_keys_and_gives_the_focus_back(play: Page) -> None:
    play.keyboard.press("?")
    help_sheet = play.get_by_role("dialog", name="Help")
    assert help_sheet.is_visible()
    assert "play or pause" in help_sheet.inner_text()
    play.keyboard.press("ArrowRight")
    assert tick(play) == 0
    play.keyboard.press("Escape")
    assert not help_sheet.is_visible()
    play.keyboard.press("ArrowRight")
    assert tick(play) == 1


def test_everything_can_be_reached_by_keyboard_alone(play: Page) -> None:
    script(play, "stage.seek(20)")
    reached = set()
    stage(play).focus()
    for _ in range(40):
        play.keyboard.press("Tab")
        reached.add(script(play, "stage.focused()?.getAttribute('aria-label') ?? stage.focused()?.textContent"))
    wanted = {"First tick (Home)", "Play (space)", "Speed", "Kind of event to jump to", "Tick", "Help (question mark)"}
    assert wanted <= reached
    assert any(str(name).startswith("R1: ") for name in reached)
    assert any(str(name).startswith("block 0, ") for name in reached)


def test_keys_in_a_text_box_do_not_reach_the_stage(play: Page) -> None:
    go(play, 5)
    box = play.locator("[data-testid=stSidebar] input[type=number]").first
    box.focus()
    for key in ("ArrowLeft", "Home", "n", "5", "?", " ", "."):
        play.keyboard.press(key)
    assert (tick(play), is_playing(play)) == (5, False)
    assert play.locator(".help").is_hidden()
    assert script(play, "stage.playback.speed") == 1


def test_keys_do_nothing_while_the_stage_has_no_focus(play: Page) -> None:
    go(play, 5)
    script(play, "document.activeElement.blur()")
    play.keyboard.press("ArrowRight")
    play.keyboard.press("Space")
    assert (tick(play), is_playing(play)) == (5, False)


def test_steps_do_not_scroll_the_page(play: Page) -> None:
    play.set_viewport_size({"width": 1440, "height": 500})
    main = "[data-testid=stMain]"
    play.locator(main).evaluate("node => { node.scrollTop = 120; }")
    before = play.locator(main).evaluate("node => node.scrollTop")
    stage(play).evaluate("node => node.focus({ preventScroll: true })")
    for key in ("ArrowRight", "Space", "Space", "PageDown", "End", "Home", "ArrowRight"):
        play.keyboard.press(key)
        play.wait_for_timeout(60)
    settle(play)
    assert before > 0
    assert play.locator(main).evaluate("node => node.scrollTop") == before


def test_five_steps_add_no_entry_to_the_history_and_the_address_holds_the_tick(play: Page) -> None:
    entries = play.evaluate("history.length")
    for _ in range(5):
        play.keyboard.press("ArrowRight")
        play.wait_for_timeout(80)
    settle(play)
    play.wait_for_timeout(1_500)
    assert play.evaluate("history.length") == entries
    assert tick(play) == 5
    assert query(play, "tick") == "5"


def test_a_shared_address_opens_the_same_instant_elsewhere(
    play: Page, open_context: Callable[..., BrowserContext]
) -> None:
    go(play, 7)
    play.locator(".lane .name").first.click()
    assert query(play, "selected") == stage(play).get_attribute("data-selected")
    settle(play)
    other = open_stage(open_context().new_page(), play.url)
    assert tick(other) == 7
    for name in ("data-state-hash", "data-selected"):
        assert stage(other).get_attribute(name) == stage(play).get_attribute(name)


@pytest.mark.alone
def test_a_step_is_read_aloud_and_playing_is_not(play: Page) -> None:
    live = play.locator(".narration [aria-live=polite]")
    play.keyboard.press("ArrowRight")
    said = live.text_content() or ""
    assert said.startswith("Tick 1. ")
    play.keyboard.press("Space")
    play.wait_for_timeout(1_200)
    assert tick(play) > 1
    assert live.text_content() == said


# --- selecting ----------------------------------------------------------------------------------------------------


def test_a_click_spotlights_the_request_in_every_panel(play: Page, trace: Trace) -> None:
    go(play, preemption(trace))
    play.locator(".lane[data-request]").first.click()
    name = play.locator(".lane[data-spot=on]").get_attribute("data-request")
    assert stage(play).get_attribute("data-selected") == name
    assert play.locator(".lane[data-spot=off]").count() > 0
    assert play.locator(".segment[data-spot=on]").count() == 1
    assert play.locator(".panel.kv .block[data-spot=on]").count() > 0
    assert play.locator(".row-names [data-spot=on]").text_content() == name
    assert play.locator(".row-band").is_visible()
    assert query(play, "selected") == name
    play.keyboard.press("Escape")
    assert stage(play).get_attribute("data-selected") is None


def test_a_waiting_request_is_spotlit_in_queue_and_timeline(play: Page, trace: Trace) -> None:
    go(play, preemption(trace))
    card = play.locator(".waiting .card").last
    card.click()
    assert card.get_attribute("data-spot") == "on"
    assert play.locator(".row-names [data-spot=on]").text_content() == card.get_attribute("data-request")


def test_numbers_of_a_thing_show_under_the_pointer(play: Page) -> None:
    go(play, 20)
    play.locator(".lane[data-request]").first.hover()
    tip = play.get_by_role("tooltip")
    assert tip.is_visible()
    assert "generated" in tip.inner_text()
    play.locator(".panel.kv .block").first.hover()
    assert "Block 0" in tip.inner_text()


def test_why_goes_to_the_reasons_of_the_request(play: Page, trace: Trace) -> None:
    go(play, preemption(trace))
    play.get_by_role("button", name="Why?").click()
    victim = next(e.request_id for e in trace.records[preemption(trace)].events if isinstance(e, RequestPreempted))
    assert query(play, "selected") == victim


# --- motion, themes, sizes ----------------------------------------------------------------------------------------


def flights_after_a_step_into(page: Page, to: int) -> int:
    go(page, to - 1)
    return int(script(page, "(stage.step(1), stage.motion.layer.childElementCount)"))


@pytest.mark.alone
def test_a_preempted_request_flies_to_the_queue(play: Page, trace: Trace) -> None:
    assert flights_after_a_step_into(play, preemption(trace)) > 0
    play.wait_for_timeout(600)
    assert script(play, "stage.motion.layer.childElementCount") == 0


def test_nothing_moves_with_reduced_motion(
    open_context: Callable[..., BrowserContext], app_url: str, trace: Trace
) -> None:
    page = open_stage(open_context(reduced_motion="reduce").new_page(), app_url + PATH)
    assert flights_after_a_step_into(page, preemption(trace)) == 0
    lengths = page.locator(".stage *").evaluate_all(
        "all => all.map(one => getComputedStyle(one))"
        ".filter(style => style.transitionDuration !== '0s' || style.animationName !== 'none').length"
    )
    assert lengths == 0


def test_a_phone_sees_all_of_it_without_sideways_scrolling(
    open_context: Callable[..., BrowserContext], app_url: str
) -> None:
    phone = open_context(viewport={"width": 390, "height": 844}, has_touch=True)
    page = open_stage(phone.new_page(), app_url + PATH + "&tick=20")
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    assert stage(page).evaluate("node => node.scrollWidth <= node.clientWidth")
    targets = page.locator(".transport button:visible, .transport .pick, .transport .speed, .scrubber input, .why")
    sizes = targets.evaluate_all("all => all.map(one => one.getBoundingClientRect()).map(b => [b.width, b.height])")
    assert len(sizes) >= 9
    assert [size for size in sizes if min(size) < 40] == []
    cut = page.locator(".transport button, .tick-line, .tag, .segment b").evaluate_all(
        "all => all.filter(one => one.clientWidth > 0 && one.scrollWidth > one.clientWidth + 1)"
        ".map(one => one.textContent)"
    )
    assert cut == []


@pytest.mark.parametrize("scenario", [SCENARIO, "memory_pressure"], ids=["with slices", "without"])
@pytest.mark.parametrize("width", [390, 1440])
def test_every_bar_has_room_beside_its_text(
    open_context: Callable[..., BrowserContext], app_url: str, width: int, scenario: str
) -> None:
    visitor = open_context(viewport={"width": width, "height": 900})
    page = open_stage(visitor.new_page(), f"{app_url}/playground?scenario={scenario}&backend=synthetic&tick=12")
    tracks = "rows => rows.map(row => row.querySelector('.track-slot').clientWidth)"
    words = "rows => rows.map(row => row.querySelector('.words').clientWidth)"
    lanes = page.locator(".lane[data-request]")
    assert min(lanes.evaluate_all(tracks)) >= 110
    assert min(lanes.evaluate_all(words)) >= 150


def test_the_board_keeps_its_height_from_tick_to_tick(shared_play: Page) -> None:
    heights = script(
        shared_play,
        """(() => {
          const heights = new Set();
          for (let tick = 0; tick < stage.run.length; tick += 1) {
            stage.show(tick);
            heights.add(stage.root.offsetHeight);
          }
          return [...heights];
        })()""",
    )
    assert len(heights) == 1


def contrast(one: list[float], other: list[float]) -> float:
    def luminance(color: list[float]) -> float:
        parts = [c / 255 for c in color[:3]]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_palette_keeps_three_to_one_on_both_grounds(
    open_context: Callable[..., BrowserContext], app_url: str, scheme: str
) -> None:
    page = open_stage(open_context(color_scheme=scheme).new_page(), app_url + PATH)
    assert stage(page).get_attribute("data-theme") == scheme
    names = ["--wait", "--comp", "--gen", "--pre", "--cach", "--cach-edge", "--ground", "--panel"]
    read = "argument.map(name => stage.color(name).match(/[\\d.]+/g).map(Number))"
    *palette, purple, edge, ground, panel = script(page, read, names)
    for name, color in zip(names, palette, strict=False):
        assert contrast(color, ground) >= 3, name
        assert contrast(color, panel) >= 3, name
    # Purple on a tinted ground has an edge of its own.
    assert contrast(purple, ground) >= 3
    assert contrast(edge, panel) >= 3


def test_the_theme_is_followed_live_without_a_new_mount(
    open_context: Callable[..., BrowserContext], app_url: str
) -> None:
    page = open_stage(open_context(color_scheme="light").new_page(), app_url + PATH)
    go(page, 9)
    script(page, "window.before = stage.root")
    read = "[stage.color('--ground'), stage.timeline.full.toDataURL()]"
    light = script(page, read)
    page.emulate_media(color_scheme="dark")
    page.wait_for_selector(".stage[data-theme=dark]", timeout=5_000)
    dark = script(page, read)
    assert script(page, "stage.root === window.before")
    assert tick(page) == 9
    assert light[0] != dark[0]
    assert light[1] != dark[1]


def test_without_spoilers_nothing_after_the_tick_is_drawn(play: Page, trace: Trace) -> None:
    ink = (
        "[stage.timeline.canvas, stage.scrubber.canvas].map((canvas) => {"
        "  const edge = Math.ceil(canvas.width * 0.5);"
        "  const { data } = canvas.getContext('2d').getImageData(edge, 0, canvas.width - edge, canvas.height);"
        "  return data.some((value) => value > 0);"
        "})"
    )
    go(play, 5)
    assert script(play, ink) == [True, True]
    send(play, payload(trace), at=5, spoilers=False)
    assert script(play, ink) == [False, False]


# --- commands of Python -------------------------------------------------------------------------------------------

COMMAND = (
    "(stage.update({ run: { digest: stage.digest }, options: {},"
    " command: { id: stage.command + argument.by, tick: argument.tick, selected: argument.selected,"
    " after: argument.after } }, stage.emit), [stage.tick, stage.root.dataset.selected ?? null])"
)


@pytest.mark.parametrize(
    ("by", "after", "is_obeyed"),
    [(1, None, True), (0, None, False), (1, 0, False), (1, 1_000, True)],
    ids=["a new command", "an old one", "one given before the user moved", "one given after"],
)
def test_a_command_is_obeyed_once_and_never_overtakes_the_user(
    shared_play: Page, by: int, after: int | None, is_obeyed: bool
) -> None:
    script(shared_play, "(stage.select(-1), stage.seek(4))")
    command = {"by": by, "tick": 9, "selected": "R2", "after": after}
    assert script(shared_play, COMMAND, command) == ([9, "R2"] if is_obeyed else [4, None])


# --- data ---------------------------------------------------------------------------------------------------------

UPDATE = (
    "(stage.update({ run: argument.run, options: { ...stage.options, ...argument.options },"
    " command: { id: stage.command + 1, tick: argument.tick, selected: null, play: argument.play } }, stage.emit))"
)


def send(page: Page, run: Any, at: int | None = None, play: bool = False, **options: Any) -> None:
    """Give the stage data as Python would."""
    script(page, UPDATE, {"run": run, "tick": at, "play": play, "options": options})


@pytest.mark.alone
def test_a_live_run_is_followed_and_does_not_end_before_it_is_done(play: Page, trace: Trace) -> None:
    def so_far(ticks: int) -> Any:
        return json.loads(json.dumps(payload(replace(trace, records=trace.records[:ticks]))))

    send(play, so_far(0), at=0, play=True, computing=True, status="live")
    script(play, "stage.setSpeed(8)")
    for ticks in (2, 5, 9):
        script(play, "stage.load(argument)", so_far(ticks))
        play.wait_for_timeout(500)
        assert (tick(play), is_playing(play)) == (ticks - 1, True)
    send(play, so_far(9), play=True, computing=True, status="live")
    assert "computing tick 9" in play.locator(".clock").inner_text()
    assert play.get_by_role("button", name="Stop", exact=True).first.is_visible()
    send(play, so_far(12), play=True, computing=False, status="live")
    play.wait_for_timeout(600)
    assert (tick(play), is_playing(play)) == (11, False)


def test_new_data_keeps_the_playhead_and_the_selection(play: Page, trace: Trace) -> None:
    go(play, 6)
    play.locator(".lane .name").first.click()
    name = stage(play).get_attribute("data-selected")
    script(play, "stage.update({ run: argument, options: {}, command: { id: 0 } }, stage.emit)", payload(trace))
    assert tick(play) == 6
    assert stage(play).get_attribute("data-selected") == name
    short = payload(replace(trace, records=trace.records[:4]))
    script(play, "stage.update({ run: argument, options: {}, command: { id: 0 } }, stage.emit)", short)
    assert tick(play) == 3


@pytest.mark.parametrize("run", [{"v": 2}, None, {"v": 1}, {"v": 1, "message": "Nothing to play."}])
def test_data_it_cannot_read_gives_a_message_instead_of_a_dead_stage(shared_play: Page, run: Any, trace: Trace) -> None:
    send(shared_play, run)
    message = shared_play.locator(".stage .message")
    assert message.is_visible()
    assert len(message.inner_text()) > 10
    send(shared_play, payload(trace))
    assert message.is_hidden()
    assert shared_play.locator(".lane[data-request]").count() > 0


def test_linked_stages_move_together_and_only_one_speaks(play: Page, trace: Trace) -> None:
    script(
        play,
        """(() => {
          const host = document.body.appendChild(document.createElement("div"));
          window.spoken = [];
          window.twin = new stage.constructor(host.attachShadow({ mode: "open" }));
          const data = { run: argument, options: { label: "twin", link: "pair" }, command: { id: 0, tick: 0 } };
          window.twin.update(data, { state: (view) => window.spoken.push(view), action: () => {} });
          stage.update({ run: argument, options: { link: "pair" }, command: { id: 0 } }, stage.emit);
        })()""",
        payload(trace),
    )
    stage(play).first.focus()
    for _ in range(3):
        play.keyboard.press("ArrowRight")
    assert script(play, "[stage.tick, twin.tick]") == [3, 3]
    script(play, "stage.select(1)")
    assert script(play, "twin.selected") == 1
    script(play, "(stage.setSpeed(8), stage.play())")
    play.wait_for_timeout(500)
    assert script(play, "[twin.playback.speed, twin.root.dataset.playing]") == [8, "true"]
    script(play, "stage.pause()")
    play.wait_for_timeout(300)
    assert script(play, "stage.tick === twin.tick && twin.root.dataset.playing === 'false'")
    assert script(play, "window.spoken") == []
    script(play, "window.twin.destroy()")


def test_markup_in_a_prompt_or_a_token_stays_text(play: Page, trace: Trace) -> None:
    data = payload(trace)
    for facts in data["requests"]:
        facts["id"] = f"<img src=x onerror=window.hurt=1>{facts['id']}"
        facts["pieces"] = ["<script>window.hurt=1</script>" for _ in facts["pieces"]]
    data["lines"] = [
        [kind, who, "<b onclick=1>lead</b>", "<img src=x onerror=window.hurt=1>"] for kind, who, *_ in data["lines"]
    ]
    send(play, data, at=20)
    play.wait_for_timeout(200)
    assert play.evaluate("window.hurt") is None
    assert stage(play).locator("img, script").count() == 0
    assert "<img" in play.locator(".said").inner_text()


def test_the_console_stays_clean_through_a_whole_run(play: Page, watch: Watch) -> None:
    play.keyboard.press("5")
    play.keyboard.press("Space")
    play.wait_for_selector('.stage[data-playing="false"]', timeout=20_000)
    settle(play)
    assert watch.problems == []
    assert watch.foreign == []

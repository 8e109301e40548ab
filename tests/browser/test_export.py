"""Taking things away and bringing them, in a real browser: what is downloaded opens, what is dropped plays."""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import parse_qs, urlsplit
from xml.etree import ElementTree

import pytest
from PIL import Image
from playwright.sync_api import BrowserContext, Download, Locator, Page, Route, expect

from pages.components.picture.stage_picture import WIDE
from scheduler_core.trace import Trace
from tests.browser.axe import violations
from tests.browser.conftest import Server, Watch, settle
from tests.helpers import create_engine, create_request, run

pytestmark = pytest.mark.browser

ROOT = Path(__file__).resolve().parents[2]
TRACES = ROOT / "assets" / "traces"


def open_export(page: Page, url: str, query: str = "scenario=first_steps&tick=9") -> Page:
    page.goto(f"{url}/playground?panel=Export&{query}")
    settle(page)
    page.wait_for_selector("[data-state-hash]")
    seen(page.get_by_role("button", name="Make the GIF"))
    return page


def take(page: Page, label: str, folder: Path) -> Path:
    """Press a button and keep what it downloads."""
    settle(page)  # a script that still runs may give the button another file
    with page.expect_download(timeout=60_000) as waiting:
        page.get_by_role("button", name=label, exact=True).click()
    download: Download = waiting.value
    path = folder / download.suggested_filename
    download.save_as(path)
    return path


def seen(thing: Locator) -> None:
    """What takes a round trip or two may take a while on a busy machine."""
    expect(thing).to_be_visible(timeout=60_000)


def stage(page: Page) -> Locator:
    return page.locator("[data-state-hash]")


def drop_on_page(page: Page, name: str, data: bytes | int) -> None:
    """What a browser does when a file is let go over the page; a number is a file of so many bytes."""
    page.evaluate(
        """([name, text, size]) => {
          const bytes = text ? Uint8Array.from(atob(text), (c) => c.charCodeAt(0)) : new Uint8Array(size);
          const carrier = new DataTransfer();
          carrier.items.add(new File([bytes], name));
          for (const kind of ["dragenter", "dragover", "drop"]) {
            document.body.dispatchEvent(
              new DragEvent(kind, { bubbles: true, composed: true, cancelable: true, dataTransfer: carrier }));
          }
        }""",
        [name, "", data] if isinstance(data, int) else [name, base64.b64encode(data).decode("ascii"), 0],
    )


def a_run() -> Trace:
    return run(create_engine(), create_request("Q1"), create_request("Q2"))


def assert_calm(watch: Watch, server: Server) -> None:
    assert watch.problems == []
    assert watch.foreign == []
    assert server.complaints() == []


def test_every_download_opens(page: Page, app_url: str, watch: Watch, server: Server, tmp_path: Path):
    open_export(page, app_url)
    with Image.open(take(page, "Stage (PNG)", tmp_path)) as image:
        assert image.size[0] == 2 * WIDE
        assert len(image.convert("RGB").getcolors(1 << 24) or []) > 200
    with Image.open(take(page, "Timeline (PNG)", tmp_path)) as image:
        assert image.size[0] >= 2 * WIDE
    for label in ("Stage (SVG)", "Timeline (SVG)"):
        root = ElementTree.fromstring(take(page, label, tmp_path).read_text(encoding="utf-8"))
        assert root.tag.endswith("svg")
    trace = Trace.load(take(page, "Trace (JSON, gzipped)", tmp_path))
    assert trace == Trace.load(TRACES / "first_steps.json.gz")
    perfetto = json.loads(take(page, "Perfetto trace", tmp_path).read_text(encoding="utf-8"))
    tracks = {e["args"]["name"] for e in perfetto["traceEvents"] if e["name"] == "thread_name"}
    assert tracks >= {spec.id for spec in trace.requests}
    assert take(page, "Events (CSV)", tmp_path).read_text(encoding="utf-8").startswith("tick,")
    assert_calm(watch, server)


def test_an_animation_is_made_in_view_and_the_stage_answers_meanwhile(
    page: Page, app_url: str, watch: Watch, server: Server, tmp_path: Path
):
    open_export(page, app_url)
    page.get_by_label("From tick").fill("3")
    page.get_by_label("From tick").press("Enter")
    settle(page)
    page.get_by_label("To tick").fill("12")
    page.get_by_label("To tick").press("Enter")
    settle(page)
    page.get_by_role("button", name="Make the GIF").click()
    seen(page.get_by_text("Drawing the frames"))
    stage(page).press("ArrowRight")
    expect(stage(page)).to_have_attribute("data-tick", "10")
    seen(page.get_by_text("Ticks 3 to 12, 10 frames"))
    with Image.open(take(page, "Download the GIF", tmp_path)) as gif:
        assert gif.n_frames == 10
        assert gif.size[0] == WIDE
    assert_calm(watch, server)


def test_copy_link_puts_the_instant_on_the_clipboard_and_says_so(
    open_context: Callable[..., BrowserContext], app_url: str, watch: Watch
):
    context = open_context(permissions=["clipboard-read", "clipboard-write"])
    page = context.new_page()
    watch.follow(page, app_url)
    open_export(page, app_url, "scenario=first_steps&tick=9&quantum=2&selected=R2")
    page.get_by_role("button", name="Copy link", exact=True).click()
    seen(page.get_by_text("Copied."))
    address = page.evaluate("navigator.clipboard.readText()")
    query = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
    assert query == {"scenario": "first_steps", "tick": "9", "quantum": "2", "selected": "R2", "panel": "Export"}
    instant = stage(page).get_attribute("data-state-hash")
    other = open_context().new_page()
    other.goto(address)
    settle(other)
    expect(stage(other)).to_have_attribute("data-state-hash", instant or "", timeout=20_000)
    assert watch.problems == []


def test_a_run_dropped_anywhere_plays(page: Page, app_url: str, watch: Watch, server: Server):
    page.goto(f"{app_url}/playground?panel=Tokens&tick=3")
    settle(page)
    page.wait_for_selector("[data-state-hash]")
    drop_on_page(page, "mine.json.gz", a_run().to_bytes())
    seen(page.get_by_text("A run from the file “mine.json.gz”."))
    settle(page)
    expect(stage(page)).to_have_attribute("data-tick", "0", timeout=20_000)
    stage(page).press("ArrowRight")
    expect(stage(page)).to_have_attribute("data-tick", "1")
    assert "scenario=imported" in page.url
    assert_calm(watch, server)


def test_a_run_dropped_before_the_uploader_has_loaded_plays_all_the_same(
    page: Page, app_url: str, watch: Watch, server: Server
):
    held: list[Route] = []
    page.route("**/FileUploader.*.js", lambda route: held.append(route))
    page.goto(f"{app_url}/playground")
    page.wait_for_selector("[data-state-hash]")
    settle(page)
    drop_on_page(page, "mine.json.gz", a_run().to_bytes())
    page.wait_for_timeout(500)
    assert held, "the uploader's script goes by another name"
    for route in held:
        route.continue_()
    seen(page.get_by_text("A run from the file “mine.json.gz”."))
    assert_calm(watch, server)


def test_a_file_chosen_in_the_panel_opens_and_a_bad_one_leaves_it_standing(
    page: Page, app_url: str, watch: Watch, server: Server
):
    open_export(page, app_url)
    field = page.locator('[data-testid="stTabs"] input[type="file"]')
    field.set_input_files({"name": "mine.json", "mimeType": "application/json", "buffer": a_run().to_json().encode()})
    seen(page.get_by_text("A run from the file “mine.json”."))
    settle(page)
    field = page.locator('[data-testid="stTabs"] input[type="file"]')
    bad = gzip.compress(b'{"schema_version": 7, "records": []}')
    field.set_input_files({"name": "old.json.gz", "mimeType": "application/gzip", "buffer": bad})
    seen(page.get_by_text(re.compile("old.json.gz.*schema version 7")))
    seen(page.get_by_text("A run from the file “mine.json”."))
    assert_calm(watch, server)


def test_what_cannot_be_dropped_is_told_before_it_is_sent(page: Page, app_url: str, watch: Watch):
    open_export(page, app_url)
    sent: list[str] = []
    page.on("request", lambda request: sent.append(request.url) if "upload_file" in request.url else None)
    drop_on_page(page, "photo.png", b"x")
    seen(page.get_by_text("“photo.png” cannot be opened here."))
    drop_on_page(page, "huge.json", 17 * 1024 * 1024)
    seen(page.get_by_text("“huge.json” has 17.0 MiB; at most 16 MiB are taken."))
    assert sent == []
    assert watch.problems == []


def test_a_scenario_is_opened_from_its_file(page: Page, app_url: str, watch: Watch, server: Server):
    open_export(page, app_url)
    drop_on_page(page, "mine.toml", b'title = "x"\n[[requests]]\nid = "A1"\nprompt = "Hello"\n')
    seen(page.get_by_text("What you wrote, under the settings you choose."))
    settle(page)
    assert "scenario=own" in page.url
    assert_calm(watch, server)


@pytest.mark.parametrize("width", [1440, 390])
def test_the_panel_is_accessible_and_fits(open_context: Callable[..., BrowserContext], app_url: str, width: int):
    page = open_context(viewport={"width": width, "height": 900}).new_page()
    open_export(page, app_url)
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")

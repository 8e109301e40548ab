"""The workloads page in a real browser: upload, run, cancel, a window on the stage, and all of it for everybody."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from pages.components.workloads.state import PANELS
from pages.components.workloads.upload import MAX_FILE_MEGABYTES
from tests.browser.axe import violations
from tests.browser.conftest import Server, Watch, settle

pytestmark = pytest.mark.browser

Visitors = Callable[..., BrowserContext]

SMALL = "source=generator&n=60&rate=20&prompt=uniform:50:400&output=uniform:5:40&tenants=%3Cb%3Eloud%3C/b%3E=2,small=1"
LONG = "source=generator&n=4000&rate=20&prompt=uniform:200:900&output=uniform:100:300&servers=vllm"


def visit(page: Page, url: str) -> Page:
    page.goto(url)
    settle(page)
    return page


def run(page: Page) -> None:
    page.get_by_role("button", name="Run the load").click()
    expect(page.get_by_text("The run is done")).to_be_visible(timeout=60_000)
    settle(page)


def show(page: Page, panel: str) -> None:
    page.get_by_role("tab", name=panel, exact=True).click()
    settle(page)


def bring(page: Page, file: Path) -> None:
    page.locator("input[type=file]").set_input_files(file)
    settle(page)


def test_a_file_is_brought_run_and_looked_at(
    page: Page, app_url: str, tmp_path: Path, watch: Watch, server: Server
) -> None:
    rows = "".join(f"{second},{40 + second},8,<i>t{second % 2}</i>\n" for second in range(30))
    file = tmp_path / "<b>mine<b>.csv"
    file.write_text(f"arrival,prompt_tokens,output_tokens,tenant\n{rows}soon,5,5,x\n", encoding="utf-8")
    visit(page, f"{app_url}/workloads?source=upload&servers=vllm")
    bring(page, file)
    expect(page.get_by_text("<b>mine<b>.csv").first).to_be_visible()
    expect(page.get_by_text("1 of 31 rows were left out")).to_be_visible()
    run(page)
    expect(page.get_by_text("fewer than 100 samples")).to_be_visible()
    show(page, "Tenants")
    expect(page.locator(".js-plotly-plot", has_text="<i>t0</i>").last).to_be_visible()
    assert watch.problems == []
    assert watch.foreign == []
    assert server.complaints() == []


def test_a_file_of_200_megabytes_is_refused_before_it_is_sent(page: Page, app_url: str, tmp_path: Path) -> None:
    file = tmp_path / "huge.csv"
    with file.open("wb") as huge:
        huge.truncate(200 * 1024 * 1024)
    sent: list[str] = []
    page.on("request", lambda request: sent.append(request.url) if "upload_file" in request.url else None)
    visit(page, f"{app_url}/workloads?source=upload")
    bring(page, file)
    expect(page.get_by_text(re.compile(rf"{MAX_FILE_MEGABYTES}(\.0)? ?MB or smaller"))).to_be_visible()
    assert sent == []
    assert page.get_by_role("button", name="Run the load").is_disabled()


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"\x1f\x8bnot gzip at all", "cannot be taken"),
        (b"<b>a</b>,<b>b</b>\n1,2\n", "no known kind of workload"),
        (b"arrival,prompt_tokens,output_tokens\nx,y,z\n", "none of its 1 rows could be read"),
    ],
)
def test_a_damaged_file_is_told_in_one_line(page: Page, app_url: str, tmp_path: Path, data: bytes, told: str) -> None:
    file = tmp_path / "bad.csv"
    file.write_bytes(data)
    visit(page, f"{app_url}/workloads?source=upload")
    bring(page, file)
    expect(page.get_by_role("alert").filter(has_text=told)).to_be_visible()
    expect(page.get_by_test_id("stException")).to_have_count(0)


def test_a_run_that_is_cancelled_keeps_partial_figures(page: Page, app_url: str, watch: Watch) -> None:
    visit(page, f"{app_url}/workloads?{LONG}")
    page.get_by_role("button", name="Run the load").click()
    expect(page.get_by_text(re.compile(r"[1-9][\d,]* of 4,000 requests done"))).to_be_visible(timeout=30_000)
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_text("what is below is partial")).to_be_visible(timeout=30_000)
    settle(page)
    expect(page.get_by_text(re.compile(r"partial figures\. [\d,]+ of 4,000 requests have ended"))).to_be_visible()
    assert watch.problems == []


def test_a_window_is_opened_on_the_stage_and_stepped_through(page: Page, app_url: str, watch: Watch) -> None:
    visit(page, f"{app_url}/workloads?{SMALL}&servers=vllm&panel=Over+time")
    run(page)
    page.get_by_role("button", name="Open this window on the stage").click()
    page.wait_for_selector("[data-state-hash]", timeout=30_000)
    settle(page)
    stage = page.locator(".stage[data-state-hash]")
    expect(stage).to_contain_text("blocks more; drawn are those that requests hold in this run")
    assert 0 < stage.locator(".kv .block").count() <= 1_024
    before = stage.get_attribute("data-state-hash")
    stage.press("ArrowRight")
    stage.press("ArrowRight")
    expect(stage).to_have_attribute("data-tick", "2")
    stage.press("ArrowLeft")
    stage.press("ArrowLeft")
    expect(stage).to_have_attribute("data-state-hash", before or "")
    assert watch.problems == []


def test_dragging_over_the_figure_comes_nearer(page: Page, app_url: str) -> None:
    visit(page, f"{app_url}/workloads?{SMALL}&servers=vllm&panel=Over+time")
    run(page)
    plot = page.locator(".js-plotly-plot").last
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    assert box is not None
    y = box["y"] + box["height"] * 0.25
    page.mouse.move(box["x"] + box["width"] * 0.4, y)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.6, y + 40, steps=8)
    page.mouse.up()
    settle(page)
    expect(page.get_by_text(re.compile(r"This window has ticks [1-9]"))).to_be_visible()


def test_axe_finds_nothing_in_any_tab_of_a_run(page: Page, app_url: str) -> None:
    visit(page, f"{app_url}/workloads?{SMALL}&servers=vllm;sarathi")
    run(page)
    for panel in PANELS:
        show(page, panel)
        if panel == "Sweep":
            page.get_by_role("button", name="Run the sweep").click()
            expect(page.get_by_text("the knee is").first).to_be_visible(timeout=60_000)
        if panel == "Cache":
            page.get_by_role("button", name="Measure hit rates").click()
            expect(page.get_by_text("Hit rate by size")).to_be_visible(timeout=60_000)
        settle(page)
        assert violations(page) == [], panel


def test_a_phone_shows_a_run_without_sideways_scrolling(open_context: Visitors, app_url: str) -> None:
    context = open_context(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    page = visit(context.new_page(), f"{app_url}/workloads?{SMALL}&servers=vllm;sarathi")
    run(page)
    for panel in PANELS:
        show(page, panel)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, panel


def test_the_figures_can_be_saved(page: Page, app_url: str) -> None:
    visit(page, f"{app_url}/workloads?{SMALL}&servers=vllm&panel=Export")
    run(page)
    with page.expect_download() as waiting:
        page.get_by_role("button", name="Figures (JSON)").click()
    [document] = json.loads(Path(waiting.value.path()).read_text(encoding="utf-8"))
    assert (document["configuration"], document["completed"]) == ("vLLM", 60)


def test_a_link_brings_back_load_and_servers(page: Page, app_url: str) -> None:
    visit(page, f"{app_url}/workloads?example=bursts&seed=5&machine=smollm2-cpu&servers=sarathi;vllm:chunk_size=64")
    expect(page.get_by_text("seed 5: the same seed")).to_be_visible()
    page.get_by_text("Three tenants", exact=True).click()
    settle(page)
    assert "example=tenants" in page.url
    page.reload()
    settle(page)
    assert "example=tenants" in page.url
    assert "chunk_size" in page.url

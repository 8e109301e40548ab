"""What axe finds on a page, in the light and in the dark theme."""

from __future__ import annotations

from typing import Literal

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

from tests.browser.conftest import settle

#: Streamlit's own file uploader has this one; nothing else is forgiven.
FORGIVEN = {"presentation-role-conflict"}
_IS_DARK = "matchMedia('(prefers-color-scheme: dark)').matches"
#: The app follows the system's theme at once; its ground tells which one is shown.
_GROUND = """scheme => {
  const ground = getComputedStyle(document.querySelector("[data-testid=stApp]")).backgroundColor;
  return (Number(ground.match(/\\d+/)[0]) < 128) === (scheme === "dark");
}"""
#: Colours of buttons fade from one theme to the other.
_FADED_MS = 600

Scheme = Literal["light", "dark"]


def violations(page: Page) -> list[str]:
    """Theme, rule, place and reason of each; [] where all is well. Leaves the page in the other theme."""
    now: Scheme = "dark" if page.evaluate(_IS_DARK) else "light"
    other: Scheme = "light" if now == "dark" else "dark"
    found = _in_theme(page, now)
    page.emulate_media(color_scheme=other)
    page.wait_for_function(_GROUND, arg=other)
    page.wait_for_timeout(_FADED_MS)
    settle(page)
    return found + _in_theme(page, other)


def _in_theme(page: Page, scheme: Scheme) -> list[str]:
    return [
        f"{scheme}: {rule['id']}: {node['target']} {node.get('failureSummary', '')}"
        for rule in Axe().run(page).response["violations"]
        if rule["id"] not in FORGIVEN
        for node in rule["nodes"]
    ]

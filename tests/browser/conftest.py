"""A server of the app's own on a free port, and the system's Chromium, with console and log under watch."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Playwright, sync_playwright

ROOT = Path(__file__).resolve().parents[2]
#: The shell is Chromium without its own windows and menus, and takes a quarter less time; either will do.
_PROGRAMS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
CHROMIUM = os.environ.get("TICKSCOPE_CHROMIUM") or next(filter(None, map(shutil.which, _PROGRAMS)), _PROGRAMS[0])
CHROMIUM_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
READY = "[data-test-connection-state=CONNECTED][data-test-script-state=notRunning]"
#: What parts of ours are about to say to Python, and when they said the last of it (assets/page/turns.js).
SPEECHES = "(({ speeches = [], free = 0 }) => ({ waiting: speeches.length, free }))(window.__tickscopeFloor ?? {})"

#: A word of the stage goes to Python, and from there into the address.
ADDRESS_SECONDS = 10

#: A page opened by its own address asks for two things that only stand at the root; Streamlit's own doing.
ALLOWED_404 = re.compile(r"/[a-z_]+/_stcore/(health|host-config)$")

#: Streamlit's own: a tab that is closed while the server is about to read from it leaves a traceback, and no harm.
LEFT_IN_MID_SENTENCE = re.compile(
    r"^Exception in ASGI application\n(?:Traceback .*\n|During handling .*\n|\n| .*\n|.*WebSocketDisconnected: .*\n)+?"
    r'.*WebSocketDisconnected: Cannot call "send" once a close message has been sent\.\n',
    re.MULTILINE,
)


@dataclass
class Server:
    """A running app: its address, and what it wrote to its log."""

    url: str
    log_path: Path
    process: subprocess.Popen[bytes]

    def log(self) -> str:
        return self.log_path.read_text(encoding="utf-8", errors="replace")

    def complaints(self) -> list[str]:
        """Lines of the log that tell of a mistake, and the places in our own code that they name."""
        marks = ("Traceback", "Error", "Exception", "WARNING", "Warning", "not a valid config", 'File "')
        log = LEFT_IN_MID_SENTENCE.sub("", self.log())
        found = [line for line in log.splitlines() if any(mark in line for mark in marks)]
        return found if any('File "' not in line for line in found) else []

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(10)


def start_server(log_path: Path, **environment: str) -> Server:
    """Serve the app on a free loopback port and wait until it answers."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "streamlit", "run", "app.py", "--server.port", str(port)]
    command += ["--server.address", "127.0.0.1", "--server.headless", "true"]
    with log_path.open("wb") as log:
        process = subprocess.Popen(
            command, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT, env=os.environ | environment
        )
    server = Server(f"http://127.0.0.1:{port}", log_path, process)
    _wait_for(server)
    return server


def _wait_for(server: Server) -> None:
    for _ in range(120):
        if server.process.poll() is not None:
            raise RuntimeError(f"the server ended: {server.log()}")
        try:
            with urllib.request.urlopen(f"{server.url}/_stcore/health", timeout=2):
                return
        except OSError:
            time.sleep(0.25)
    server.stop()
    raise RuntimeError(f"the server does not answer: {server.log()}")


@dataclass
class Watch:
    """What a browser complained about, and what it asked of other hosts."""

    problems: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)

    def follow(self, page: Page, home: str) -> None:
        page.on("pageerror", lambda error: self.problems.append(f"uncaught: {error}"))
        page.on("console", lambda message: self._console(message.type, message.text, message.location.get("url", "")))
        page.on("request", lambda request: self._request(request.url, home))

    def _console(self, kind: str, text: str, url: str) -> None:
        if kind in ("error", "warning") and not ALLOWED_404.search(url):
            self.problems.append(f"{kind}: {text} ({url})")

    def _request(self, url: str, home: str) -> None:
        if url.startswith(("http", "ws")) and home.split("://")[1] not in url:
            self.foreign.append(url)


def settle(page: Page, timeout: float = 60_000) -> None:
    """Wait until the page is connected, its parts have said what they had to say, and its script has run."""
    end = time.monotonic() + timeout / 1000
    page.wait_for_selector(READY, state="attached", timeout=timeout)
    before, now = None, page.evaluate(SPEECHES)
    while now["waiting"] or now != before:
        assert time.monotonic() < end, "the page does not come to rest"
        page.wait_for_timeout(150)
        page.wait_for_selector(READY, state="attached", timeout=timeout)
        before, now = now, page.evaluate(SPEECHES)


def query(page: Page) -> dict[str, str]:
    """What the address says."""
    return {name: values[0] for name, values in parse_qs(urlsplit(page.url).query).items()}


def expect_query(page: Page, *, only: bool = False, **parts: str) -> None:
    """Wait until the address says so, and with `only` nothing else."""
    end = time.monotonic() + ADDRESS_SECONDS
    while (found := query(page)) != parts and (only or not parts.items() <= found.items()) and time.monotonic() < end:
        page.wait_for_timeout(50)
    assert found == (parts if only else found | parts)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One app for the whole session."""
    # Nobody listens on port 9: whatever runs on this machine is not looked at.
    running = start_server(tmp_path_factory.mktemp("server") / "log.txt", TICKSCOPE_GATEWAY_URL="http://127.0.0.1:9")
    yield running
    running.stop()


@pytest.fixture(scope="session")
def app_url(server: Server) -> str:
    return server.url


@pytest.fixture(scope="session")
def playwright_instance() -> Iterator[Playwright]:
    with sync_playwright() as playwright:
        yield playwright


@pytest.fixture(scope="session")
def browser(playwright_instance: Playwright) -> Iterator[Browser]:
    launched = playwright_instance.chromium.launch(executable_path=CHROMIUM, args=list(CHROMIUM_FLAGS))
    yield launched
    launched.close()


@pytest.fixture
def watch() -> Watch:
    """Collects the complaints of every page made by `open_context` and `page`."""
    return Watch()


@pytest.fixture
def open_context(browser: Browser) -> Iterator[Callable[..., BrowserContext]]:
    """Make visitors: each call is a browser of its own, closed after the test."""
    made: list[BrowserContext] = []

    def make(**options: object) -> BrowserContext:
        wanted = {"viewport": {"width": 1440, "height": 900}, "color_scheme": "light"} | options
        made.append(browser.new_context(**wanted))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for context in made:
        context.close()


@pytest.fixture
def page(open_context: Callable[..., BrowserContext], watch: Watch, app_url: str) -> Page:
    """A visitor at 1440 x 900 in the light theme; its console is in `watch`."""
    opened = open_context().new_page()
    watch.follow(opened, app_url)
    return opened

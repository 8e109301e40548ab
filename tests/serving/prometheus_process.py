"""A real Prometheus with the shipped configuration, on a port of its own, for as long as a test needs it."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

SHIPPED = Path(__file__).resolve().parents[2] / "assets/prometheus"
#: Seconds between two scrapes; the shipped file has 5.
INTERVAL = 0.25


class Prometheus:
    """What a running Prometheus answers."""

    def __init__(self, url: str) -> None:
        self.url = url

    def ask(self, path: str, **query: Any) -> Any:
        with urllib.request.urlopen(f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(query)}", timeout=10) as answer:
            return json.load(answer)["data"]

    def now(self, expression: str) -> list[float]:
        """The values of an expression at this moment."""
        return [float(series["value"][1]) for series in self.ask("query", query=expression)["result"]]

    def over(self, expression: str, start: float, end: float) -> list[float]:
        """The values of an expression over a stretch of time, of all its series, as Grafana asks for them."""
        found = self.ask("query_range", query=expression, start=start, end=end, step=INTERVAL)["result"]
        return [float(value) for series in found for _, value in series["values"]]

    def until(self, holds: Callable[[], bool]) -> None:
        end = time.monotonic() + 30
        while not holds():
            assert time.monotonic() < end, "Prometheus never saw what was waited for"
            time.sleep(INTERVAL / 2)


@contextmanager
def prometheus(folder: Path, gateway: str) -> Iterator[Prometheus]:
    """Scrapes the gateway at `host:port`, evaluates the shipped rules, keeps its data in the folder."""
    program = shutil.which("prometheus")
    if program is None:
        pytest.skip("prometheus is not installed")
    address = f"127.0.0.1:{_free_port()}"
    config = folder / "prometheus.yml"
    config.write_text(yaml.safe_dump(_config(gateway, address)))
    options = [f"--config.file={config}", f"--storage.tsdb.path={folder / 'data'}", f"--web.listen-address={address}"]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen([program, *options], stdout=log, stderr=subprocess.STDOUT)
    running = Prometheus(f"http://{address}")
    try:
        running.until(lambda: _is_ready(running, process, folder / "log"))
        yield running
    finally:
        process.kill()
        process.wait()


def _config(gateway: str, own: str) -> dict[str, Any]:
    config: dict[str, Any] = yaml.safe_load((SHIPPED / "prometheus.yml").read_text())
    interval = f"{round(INTERVAL * 1_000)}ms"
    config["global"] = {"scrape_interval": interval, "scrape_timeout": interval, "evaluation_interval": interval}
    config["rule_files"] = [str(SHIPPED / name) for name in config["rule_files"]]
    for job, target in zip(config["scrape_configs"], (gateway, own), strict=True):
        job["static_configs"][0]["targets"] = [target]
    return config


def _is_ready(running: Prometheus, process: subprocess.Popen[bytes], log: Path) -> bool:
    assert process.poll() is None, log.read_text()
    try:
        with urllib.request.urlopen(f"{running.url}/-/ready", timeout=5) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, ConnectionError):
        return False


def _free_port() -> int:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return int(bound.getsockname()[1])

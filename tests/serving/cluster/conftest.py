"""One `serve --replicas 3` for all tests of a file: Ray takes seconds to start, and about ten processes."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import openai
import psutil
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.storage.conftest import RedisServer, redis_process  # noqa: F401

REPLICAS = 3
KEY = "of-the-tests"
SLOW = '[[faults]]\nkind = "slow"\nevery = 1\nseconds = 0.02\n'


class Cluster:
    """A running `serve` with replicas."""

    def __init__(self, process: subprocess.Popen[str], url: str) -> None:
        self.process = process
        self.url = url
        self.said: list[str] = []

    def client(self, **options: Any) -> openai.OpenAI:
        return openai.OpenAI(base_url=f"{self.url}/v1", **{"api_key": KEY, "max_retries": 0, **options})

    def async_client(self) -> openai.AsyncOpenAI:
        return openai.AsyncOpenAI(base_url=f"{self.url}/v1", api_key=KEY, max_retries=0, timeout=60)

    def get(self, path: str) -> str:
        with urllib.request.urlopen(f"{self.url}{path}", timeout=10) as answer:
            return str(answer.read().decode())

    def values(self, name: str, **labels: str) -> dict[tuple[str, str], float]:
        """The samples of a metric by replica and tier."""
        families = text_string_to_metric_families(self.get("/metrics"))
        return {
            (sample.labels["replica"], sample.labels.get("tier", "")): sample.value
            for family in families
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        }

    def total(self, name: str, **labels: str) -> float:
        return sum(self.values(name, **labels).values())

    def processes(self) -> list[psutil.Process]:
        return [each for each in psutil.Process(self.process.pid).children(recursive=True) if each.is_running()]

    def engines(self) -> list[psutil.Process]:
        """The processes of the engines, the busiest first."""
        found = [each for each in self.processes() if "ServeReplica:tickscope:engine" in " ".join(_command(each))]
        return sorted(found, key=lambda each: -sum(each.cpu_times()[:2]))

    def until(self, condition: Any, seconds: float = 40.0) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, "it did not come to it"
            time.sleep(0.1)

    def until_all_live(self) -> None:
        self.until(lambda: f'"replicas":{REPLICAS}' in self.get_health())

    def get_health(self) -> str:
        try:
            return self.get("/health")
        except OSError as problem:
            return str(problem)

    def end(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


@contextmanager
def serve(*options: str, env: dict[str, str] | None = None) -> Iterator[Cluster]:
    command = [sys.executable, "-m", "scheduler_core", "serve", "--port", "0", "--check", *options]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, **(env or {})})
    lines = process.stderr
    assert lines is not None
    said, address, family = list[str](), None, list[psutil.Process]()
    try:
        for line in lines:
            said.append(line)
            if address := re.search(r"on (http://127\.0\.0\.1:\d+)", line):
                break
        family = psutil.Process(process.pid).children(recursive=True)
        assert address, "".join(said)
        cluster = Cluster(process, address[1])
        cluster.said = said
        drain = threading.Thread(target=lambda: said.extend(lines), daemon=True)
        drain.start()
        yield cluster
        if process.poll() is None:
            cluster.end()
        drain.join(10)
    finally:
        for left in family:
            with contextlib.suppress(psutil.Error):
                left.kill()
        process.kill()
        process.wait()
        lines.close()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, redis_process: RedisServer) -> Iterator[Cluster]:  # noqa: F811
    folder = tmp_path_factory.mktemp("cluster")
    plan = folder / "slow.toml"
    plan.write_text(SLOW)
    with serve(
        *("--backend", "synthetic", "--replicas", str(REPLICAS), "--cpus-per-replica", "0.1"),
        *("--redis", redis_process.url, "--state", str(folder / "state"), "--fault-plan", str(plan)),
        env={"TICKSCOPE_SERVE_API_KEYS": KEY},
    ) as running:
        yield running

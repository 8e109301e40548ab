"""Every expression of the dashboard and of the alerts, on a real Prometheus that reads a real gateway under load."""

from __future__ import annotations

import asyncio
import math
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import openai
import promql_parser
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.serving.helpers import in_a_loop_of_its_own
from tests.serving.prometheus_process import Prometheus, prometheus
from tests.serving.test_operations_files import ALERTS, DASHBOARD
from tests.serving.test_serve import Server, serve

#: What Grafana puts in place of its variables when all models and replicas are chosen.
VARIABLES = {"$model": ".+", "$replica": ".+", "$__rate_interval": "15s"}

TARGETS = [
    pytest.param(target["expr"], id=f"{panel['title']}: {target['legendFormat']}")
    for panel in DASHBOARD["panels"]
    for target in panel.get("targets", [])
]

#: Metrics that may stay at zero in this load, and why; the expressions made of them have data, but perhaps no more.
MAY_BE_ZERO = {
    "engine_restarts_total": "the engine does not fail",
    "late_tokens_dropped_total": "whether a token is drawn just after its client left is a matter of moments",
    "cache_store_errors_total": "the disk works",
    "cache_store_unusable_total": "nobody damages the store",
    "cache_store_drops_total": "the disk is fast enough for so few blocks",
    "cache_store_evictions_total": "so few blocks fit into the limit",
}

#: The first request fails at every attempt; calls then take long enough for a queue to be seen by a scrape.
PLAN = """
[[faults]]
kind = "raise"
count = 3

[[faults]]
kind = "slow"
every = 1
seconds = 0.01
"""


@dataclass(frozen=True)
class Watched:
    """A load that is over, and the Prometheus that saw it."""

    prometheus: Prometheus
    server: Server
    start: float
    end: float


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    folder = tmp_path_factory.mktemp("watched")
    (folder / "plan.toml").write_text(PLAN)
    # Four requests of 100 tokens and more need 33 blocks together: some will be preempted, whoever comes first.
    small = ("--set", "num_blocks=24", "--set", "max_num_seqs=4", "--store", str(folder / "kv"))
    with (
        serve(folder, "--fault-plan", str(folder / "plan.toml"), *small) as server,
        prometheus(folder, server.url.removeprefix("http://")) as watcher,
    ):
        watcher.until(lambda: watcher.now("requests_submitted_total") == [0])
        start = time.time()
        in_a_loop_of_its_own(load(server))
        watcher.until(lambda: watcher.now("requests_submitted_total") == [server.value("requests_submitted_total")])
        time.sleep(1)  # some scrapes more, so that rates have something behind the last change
        yield Watched(watcher, server, start, time.time())


async def load(server: Server) -> None:
    """A request that fails for good, one that is refused, one whose client leaves, and sixteen that share a start."""
    async with server.async_client() as client:
        with pytest.raises(openai.InternalServerError, match="kept as dead letter"):
            await ask(client, "fails", 3)
        with pytest.raises(openai.BadRequestError):
            await ask(client, "word " * 900, 3)
        parts = await client.completions.create(model="synthetic", prompt="leaves", max_tokens=200, stream=True)
        await anext(aiter(parts))
        await parts.close()
        shared = "a start that all of them share, word for word, " * 8
        await asyncio.gather(*(ask(client, f"{shared} and number {i}", 100) for i in range(16)))


async def ask(client: openai.AsyncOpenAI, prompt: str, max_tokens: int) -> None:
    await client.completions.create(model="synthetic", prompt=prompt, max_tokens=max_tokens)


def filled(expression: str) -> str:
    for name, value in VARIABLES.items():
        expression = expression.replace(name, value)
    return expression


def metrics_of(expression: str) -> set[str]:
    """The names of the metrics in an expression."""
    names: set[str] = set()

    def visit(node: Any) -> bool:
        if isinstance(node, promql_parser.MatrixSelector):
            node = node.vector_selector
        if isinstance(node, promql_parser.VectorSelector):
            names.add(node.name)
        return True

    promql_parser.walk(promql_parser.parse(filled(expression)), visit)
    return names


@pytest.mark.parametrize("expression", TARGETS)
def test_every_panel_has_data_after_a_short_load(watched: Watched, expression: str) -> None:
    values = watched.prometheus.over(filled(expression), watched.start, watched.end)
    finite = [value for value in values if math.isfinite(value)]
    assert finite
    assert max(finite) > 0 or metrics_of(expression) <= set(MAY_BE_ZERO)


@pytest.mark.parametrize("expression", [alert["expr"] for alert in ALERTS], ids=[alert["alert"] for alert in ALERTS])
def test_alerts_speak_of_metrics_that_there_are(watched: Watched, expression: str) -> None:
    assert metrics_of(expression) <= exposed(watched.server) | {"up"}


def test_the_dashboard_shows_every_metric_that_there_is(watched: Watched) -> None:
    shown = {name for target in TARGETS for name in metrics_of(str(target.values[0]))}
    families = {re.sub("_(bucket|sum|count)$", "", name) for name in exposed(watched.server)}
    missing = families - {re.sub("_(bucket|sum|count)$", "", name) for name in shown}
    # A ratio of one engine; that of several is made of the counters. Blocks are as their bytes.
    assert missing == {"cache_hit_ratio", "cache_store_blocks"}
    assert shown <= exposed(watched.server) | {"up"}


def test_the_variables_offer_the_model_and_its_replica(watched: Watched) -> None:
    for variable in DASHBOARD["templating"]["list"][1:]:
        found = re.fullmatch(r"label_values\((.+), (\w+)\)", variable["query"]["query"])
        assert found
        values = watched.prometheus.ask(f"label/{found[2]}/values", **{"match[]": filled(found[1])})
        assert values == [{"model": "synthetic", "replica": "0"}[variable["name"]]]
        assert variable["allValue"] == VARIABLES[f"${variable['name']}"]


def test_the_rules_are_evaluated_and_the_request_that_failed_is_told_of(watched: Watched) -> None:
    groups = watched.prometheus.ask("rules")["groups"]
    assert {rule["health"] for group in groups for rule in group["rules"]} == {"ok"}
    firing = [alert for alert in watched.prometheus.ask("alerts")["alerts"] if alert["state"] == "firing"]
    assert [alert["labels"]["alertname"] for alert in firing] == ["RequestsFailed"]
    assert firing[0]["annotations"]["summary"] == "Requests to synthetic, replica 0, failed for good"


def exposed(server: Server) -> set[str]:
    """The names of the samples that a live /metrics has."""
    return {sample.name for family in text_string_to_metric_families(server.metrics()) for sample in family.samples}

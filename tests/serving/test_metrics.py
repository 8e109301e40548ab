"""What Prometheus reads agrees with what happened, under few labels and names that promtool accepts."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from scheduler_core.serving.fault_plan import PlannedFault
from scheduler_core.storage.open_store import open_store
from tests.serving.helpers import Served, planned, run, served, until

LABELS = {"model": "toy", "replica": "0"}


def scrape(*calls: Any, **options: Any) -> str:
    async def work() -> str:
        async with served(**options) as what:
            for call in calls:
                await call(what)
            await until(lambda: not what.engine.has_work)
            return (await what.client.get("/metrics")).text

    return run(work())


def values(text: str) -> dict[str, float]:
    """Sample name -> value, for samples whose only labels are those that all have, and the tier."""
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            assert {name: sample.labels[name] for name in LABELS} == LABELS
            assert set(sample.labels) - set(LABELS) <= {"tier", "le"}
            if "le" not in sample.labels:
                found[sample.name + (f"/{sample.labels['tier']}" if "tier" in sample.labels else "")] = sample.value
    return found


async def complete_twice(what: Served) -> None:
    for _ in range(2):
        await what.complete(list(range(100, 120)), max_tokens=5)


def test_counters_and_histograms_agree_with_what_was_asked_for() -> None:
    told = values(scrape(complete_twice, lambda s: s.complete(list(range(200)), max_tokens=6), num_blocks=32))
    assert told["requests_submitted_total"] == 3
    assert (told["requests_finished_total"], told["requests_refused_total"]) == (2, 1)
    assert told["prompt_tokens_total"] == 40
    assert told["generation_tokens_total"] == 10
    assert told["cache_query_tokens_total/memory"] == 40
    assert told["cache_hit_tokens_total/memory"] == 16
    assert told["cache_hit_ratio"] == 0.4
    assert told["time_to_first_token_seconds_count"] == told["e2e_request_latency_seconds_count"] == 2
    assert told["request_queue_time_seconds_count"] == 2
    assert told["inter_token_latency_seconds_count"] == 8
    assert told["tick_seconds_count"] >= 10
    assert told["tick_tokens_count"] == told["tick_seconds_count"]
    assert told["tick_tokens_sum"] == 40 - 16 + 2 * 4  # what no cache held, and each drawn token that is fed back
    assert told["scheduler_queue_length"] == told["scheduler_running_requests"] == told["kv_cache_usage_ratio"] == 0


def test_times_add_up() -> None:
    told = values(scrape(complete_twice, runner=planned(PlannedFault("slow", every=1, seconds=0.01))))
    whole = told["e2e_request_latency_seconds_sum"]
    parts = told["time_to_first_token_seconds_sum"] + told["inter_token_latency_seconds_sum"]
    assert parts <= whole
    assert told["request_queue_time_seconds_sum"] <= told["time_to_first_token_seconds_sum"]
    assert told["tick_seconds_sum"] >= 0.1


def test_retries_and_the_dead_are_counted() -> None:
    told = values(scrape(lambda s: s.complete(), runner=planned(PlannedFault("raise", every=1))))
    assert told["model_call_retries_total"] == 2
    assert told["requests_dead_total"] == 1
    assert told["requests_finished_total"] == 0


def test_the_first_token_is_timed_once_also_where_an_attempt_fails_after_it() -> None:
    told = values(scrape(lambda s: s.complete(max_tokens=6), runner=planned(PlannedFault("raise", first=3))))
    assert told["time_to_first_token_seconds_count"] == 1
    assert told["inter_token_latency_seconds_count"] == 5
    assert told["request_queue_time_seconds_count"] == 1


def test_preemptions_are_counted_under_the_name_of_the_dashboards() -> None:
    import asyncio

    async def many(what: Served) -> None:
        await asyncio.gather(*(what.complete([100 * i + j for j in range(20)], max_tokens=12) for i in range(1, 7)))

    told = values(scrape(many, num_blocks=16, quantum=2))
    assert told["preemption_count_total"] > 0


def test_tiers_below_memory_have_figures_of_their_own(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    scrape(complete_twice, store=store)
    store.flush()
    told = values(scrape(complete_twice, store=store))
    assert told["cache_hit_tokens_total/disk"] == 16
    assert told["cache_hit_tokens_total/memory"] == 16
    assert told["cache_query_tokens_total/disk"] >= 16
    assert told["cache_hit_ratio"] == 0.8
    assert told["cache_store_blocks/disk"] >= 5
    assert told["cache_store_errors_total/disk"] == 0
    store.close()


def test_there_are_no_times_of_creation_and_every_metric_has_a_meaning() -> None:
    text = scrape(complete_twice)
    assert "_created" not in text
    assert re.findall(r"^# HELP \S+ *$", text, re.MULTILINE) == []


def test_two_gateways_in_a_process_do_not_share_figures() -> None:
    scrape(complete_twice)
    assert values(scrape())["requests_submitted_total"] == 0


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not beside the project")
def test_promtool_accepts_the_names_and_types() -> None:
    checked = subprocess.run(
        ["promtool", "check", "metrics"], input=scrape(complete_twice).encode(), capture_output=True, timeout=30
    )
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, b"", b"")

from __future__ import annotations

import math
import random
from array import array
from typing import Any

import pytest

from scheduler_core.errors import ConfigError
from scheduler_core.events import PrefixCacheQueried, RequestFinished, RequestPreempted, TokenSampled
from scheduler_core.metrics import request_metrics
from scheduler_core.request import FinishReason
from scheduler_core.request_facts import RequestFacts, facts_of
from scheduler_core.summary import FEWEST_FOR_P99, Targets, fairness, hit_rate, jain_index, span, summarise
from scheduler_core.trace import Trace
from tests.helpers import Workload, create_engine, create_request, random_workload, run


def done(name: str, arrival: float, *times: float, **more: Any) -> RequestFacts:
    """A completed request with tokens at `times`."""
    return RequestFacts(name, arrival, 10, times, times[-1], FinishReason.LENGTH, **more)


# By hand


def test_the_figures_of_one_request_are_those_of_the_definitions() -> None:
    facts = done("a", 1.0, 1.5, 1.7, 2.3)
    assert facts.ttft_s == pytest.approx(0.5)
    assert facts.e2e_s == pytest.approx(1.3)
    assert facts.tpot_s == pytest.approx(0.4)
    assert facts.itls_s == pytest.approx((0.2, 0.6))


def test_a_request_of_one_token_has_no_time_per_output_token_and_no_gap() -> None:
    facts = done("a", 1.0, 1.5)
    assert (facts.tpot_s, facts.itls_s, facts.e2e_s) == (None, (), 0.5)


def test_the_keys_of_vllms_benchmark_are_there() -> None:
    figures = summarise([done("a", 0.0, 1.0, 2.0)])
    expected = {"completed", "failed", "total_input_tokens", "total_output_tokens", "duration", "request_goodput"}
    expected |= {"request_throughput", "output_throughput", "total_token_throughput"}
    expected |= {
        f"{what}_{metric}_ms"
        for what in ("mean", "median", "std", "p50", "p90", "p95", "p99")
        for metric in ("ttft", "tpot", "itl", "e2el")
    }
    assert expected <= figures.keys()


def test_percentiles_are_linear_and_the_deviation_is_that_of_the_population() -> None:
    figures = summarise([done(str(i), 0.0, float(i)) for i in (1, 2, 3, 4)])
    assert figures["median_ttft_ms"] == 2_500
    assert figures["p90_ttft_ms"] == pytest.approx(3_700)
    assert figures["std_ttft_ms"] == pytest.approx(1_000 * math.sqrt(1.25))
    assert figures["num_samples"] == {"ttft": 4, "tpot": 0, "itl": 0, "e2el": 4}
    assert figures["mean_tpot_ms"] is None


def test_those_that_failed_are_counted_beside_and_their_tokens_are_not() -> None:
    failed = RequestFacts("b", 0.0, 99, (1.0, 9.0), 9.0, FinishReason.ERROR)
    refused = RequestFacts("c", 0.0, 99, (), 0.0, FinishReason.REJECTED)
    aborted = RequestFacts("d", 0.0, 99, (1.0,), 2.0, FinishReason.ABORT)
    going_on = RequestFacts("e", 0.0, 99, (1.0,))
    figures = summarise([done("a", 0.0, 1.0, 2.0), failed, refused, aborted, going_on], duration_s=4.0)
    ends = ("completed", "failed", "refused", "aborted", "unfinished", "total_input_tokens", "total_output_tokens")
    assert [figures[name] for name in ends] == [1, 3, 1, 1, 1, 10, 2]
    assert figures["p99_ttft_ms"] == 1_000
    assert (figures["request_throughput"], figures["output_throughput"]) == (0.25, 0.5)
    assert figures["total_token_throughput"] == 3.0


def test_a_99th_percentile_of_few_samples_is_warned_of() -> None:
    few = summarise([done(str(i), 0.0, 1.0, 2.0) for i in range(FEWEST_FOR_P99 - 1)])
    enough = summarise([done(str(i), 0.0, 1.0, 2.0) for i in range(FEWEST_FOR_P99)])
    assert len(few["warnings"]) == 4
    assert f"{FEWEST_FOR_P99 - 1} samples" in few["warnings"][0]
    assert enough["warnings"] == []


def test_no_request_at_all_gives_no_figure_and_no_error() -> None:
    figures = summarise([], targets=Targets(ttft_ms=1.0))
    assert (figures["completed"], figures["duration"], figures["request_goodput"]) == (0, 0.0, 0.0)
    assert figures["p99_ttft_ms"] is figures["prefix_hit_rate"] is figures["fairness"]["jain_speed"] is None


def test_a_run_spans_from_the_first_arrival_to_the_last_end() -> None:
    assert span([done("a", 3.0, 4.0, 9.0), done("b", 2.0, 3.0)]) == 7.0


# Goodput


@pytest.mark.parametrize(
    ("targets", "good"),
    [
        ({"ttft_ms": 500.0}, 2),
        ({"ttft_ms": 499.0}, 1),
        ({"itl_ms": 600.0}, 2),
        ({"itl_ms": 500.0}, 1),
        ({"tpot_ms": 400.5}, 2),
        ({"tpot_ms": 300.0}, 1),
        ({"e2el_ms": 1_000.0}, 1),
        ({"ttft_ms": 499.0, "e2el_ms": 10_000.0}, 1),
    ],
)
def test_goodput_counts_the_completed_requests_that_meet_every_target(targets: dict[str, float], good: int) -> None:
    one, other = done("a", 1.0, 1.5, 1.7, 2.3), done("b", 0.0, 0.25)
    failed = RequestFacts("c", 0.0, 1, (0.1,), 0.1, FinishReason.ERROR)
    assert summarise([one, other, failed], 10.0, Targets(**targets))["request_goodput"] == good / 10


def test_one_long_stall_fails_the_target_for_gaps_that_their_mean_would_meet() -> None:
    stalled = done("a", 0.0, 0.1, 0.2, 0.3, 1.3)
    assert not Targets(itl_ms=500.0).are_met_by(stalled)
    assert Targets(tpot_ms=500.0).are_met_by(stalled)


def test_goodput_is_not_told_without_targets() -> None:
    assert summarise([done("a", 0.0, 1.0)])["request_goodput"] is None


@pytest.mark.parametrize("value", [0.0, -1.0, float("inf"), float("nan")])
def test_an_impossible_target_names_itself(value: float) -> None:
    with pytest.raises(ConfigError, match="the target ttft_ms is"):
        Targets(ttft_ms=value)


# Fairness and the cache


def test_jains_index_is_one_for_equals_and_one_in_n_for_a_monopoly() -> None:
    assert jain_index([5.0, 5.0, 5.0]) == pytest.approx(1.0)
    assert jain_index([9.0, 0.0, 0.0]) == pytest.approx(1 / 3)
    assert jain_index([1.0, 2.0, 3.0]) == pytest.approx(36 / 42)
    assert jain_index([]) is jain_index([0.0]) is None


def test_a_tenant_that_waits_longer_for_the_same_makes_a_run_less_fair() -> None:
    quick, slow = done("a", 0.0, 1.0, 2.0, tenant="x"), done("b", 0.0, 3.0, 4.0, tenant="y")
    figures = fairness([quick, slow])
    assert figures["jain_speed"] == pytest.approx(0.9)
    assert figures["jain_tokens"] == pytest.approx(1.0)
    assert [*figures["tenants"]] == ["x", "y"]
    assert figures["tenants"]["y"]["median_ttft_ms"] == 3_000


def test_the_hit_rate_is_by_tokens_and_over_those_that_asked() -> None:
    asked = done("a", 0.0, 1.0, num_queried_tokens=100, num_cached_tokens=80)
    missed = done("b", 0.0, 1.0, num_queried_tokens=300)
    assert hit_rate([asked, missed, done("c", 0.0, 1.0)]) == 0.2
    assert hit_rate([done("c", 0.0, 1.0)]) is None


# From anything else: the facts are plain numbers


def test_facts_need_no_trace() -> None:
    from_http = RequestFacts("a", 100.0, 3, array("d", [100.25, 100.5]), 100.5, FinishReason.STOP)
    assert summarise([from_http])["mean_itl_ms"] == pytest.approx(250.0)


# Against an independent recomputation from the events


def recomputed(trace: Trace, target_ttft_ms: float) -> dict[str, Any]:
    """The same figures by another way: plain lists over all events, and a percentile by its definition."""
    tokens: dict[str, list[float]] = {spec.id: [] for spec in trace.requests}
    ended: dict[str, tuple[str, float]] = {}
    queried = hits = preempted = 0
    for record in trace.records:
        for event in record.events:
            if isinstance(event, TokenSampled):
                tokens[event.request_id].append(record.end)
            elif isinstance(event, RequestFinished):
                ended[event.request_id] = (event.reason.value, record.end)
            elif isinstance(event, PrefixCacheQueried) and not event.self_hit:
                queried, hits = queried + event.query_tokens, hits + event.hit_tokens
            elif isinstance(event, RequestPreempted):
                preempted += 1
    good = {spec.id: spec for spec in trace.requests if ended[spec.id][0] in ("stop", "length")}
    lists: dict[str, list[float]] = {"ttft": [], "tpot": [], "itl": [], "e2el": []}
    met = 0
    for name, spec in good.items():
        first, last, count = tokens[name][0], tokens[name][-1], len(tokens[name])
        lists["ttft"].append(1e3 * (first - spec.arrival_time))
        lists["e2el"].append(1e3 * (ended[name][1] - spec.arrival_time))
        lists["itl"] += [1e3 * (tokens[name][i] - tokens[name][i - 1]) for i in range(1, count)]
        if count > 1:
            lists["tpot"].append(1e3 * (last - first) / (count - 1))
        met += lists["ttft"][-1] <= target_ttft_ms
    seconds = trace.records[-1].end or math.inf
    output = sum(len(tokens[name]) for name in good)
    given = sum(len(spec.prompt_token_ids) for spec in good.values())
    figures: dict[str, Any] = {
        "completed": len(good),
        "failed": len(trace.requests) - len(good),
        "total_input_tokens": given,
        "total_output_tokens": output,
        "request_throughput": len(good) / seconds,
        "output_throughput": output / seconds,
        "total_token_throughput": (given + output) / seconds,
        "request_goodput": met / seconds,
        "num_preemptions": preempted,
        "prefix_hit_rate": hits / queried if queried else None,
    }
    for metric, values in lists.items():
        mean = sum(values) / len(values) if values else None
        figures[f"mean_{metric}_ms"] = mean
        figures[f"std_{metric}_ms"] = (
            math.sqrt(sum((v - mean) ** 2 for v in values) / len(values)) if mean is not None else None
        )
        for rank in (50, 90, 95, 99):
            figures[f"p{rank}_{metric}_ms"] = ranked(values, rank)
        figures[f"median_{metric}_ms"] = ranked(values, 50)
    return figures


def ranked(values: list[float], rank: int) -> float | None:
    """Between the two values whose places surround rank % of the way from the smallest to the largest."""
    if not values:
        return None
    ordered = sorted(values)
    whole, rest = divmod(rank * (len(ordered) - 1), 100)
    return ordered[whole] if not rest else ordered[whole] * (1 - rest / 100) + ordered[whole + 1] * (rest / 100)


@pytest.mark.parametrize("tens", range(20))
def test_every_figure_equals_an_independent_recomputation_from_the_events(tens: int) -> None:
    for seed in range(10 * tens, 10 * tens + 10):
        workload: Workload = random_workload(seed + 90_000)
        trace = workload.run()
        target = random.Random(seed).choice([1_000.0, 5_000.0, 20_000.0])
        ours = summarise(facts_of(trace), trace.records[-1].end, Targets(ttft_ms=target))
        for name, value in recomputed(trace, target).items():
            expected = None if value is None else pytest.approx(value, rel=1e-9, abs=1e-6)
            assert ours[name] == expected, (seed, name)


def test_the_random_runs_have_what_the_figures_are_about() -> None:
    runs = [summarise(facts_of(random_workload(seed + 90_000).run())) for seed in range(30)]
    for name in ("failed", "num_preemptions", "prefix_hit_rate", "mean_itl_ms"):
        assert sum(bool(figures[name]) for figures in runs) > 2, name


def test_the_figures_of_single_requests_are_those_of_the_metrics() -> None:
    trace = random_workload(90_003).run()
    for facts, metrics in zip(facts_of(trace), request_metrics(trace), strict=True):
        assert (facts.ttft_s, facts.tpot_s, facts.e2e_s, facts.itls_s) == (
            metrics.ttft_s,
            metrics.tpot_s,
            metrics.e2e_s,
            metrics.itls,
        )
        assert facts.num_cached_tokens == metrics.num_cached_tokens


def test_tenants_are_taken_from_what_the_caller_says() -> None:
    trace = run(create_engine(), create_request("a"), create_request("b"))
    assert [facts.tenant for facts in facts_of(trace, {"b": "batch"})] == ["all", "batch"]

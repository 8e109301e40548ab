"""The figures of a run: definitions on traces made by hand, laws on random runs."""

from __future__ import annotations

import random

import numpy as np
import pytest

from scheduler_core.engine import Engine
from scheduler_core.errors import TraceError
from scheduler_core.events import (
    ConfigChanged,
    PreemptReason,
    PrefixCacheQueried,
    RequestAdmitted,
    RequestArrived,
    RequestFinished,
    RequestPreempted,
    RequestScheduled,
)
from scheduler_core.metrics import (
    events_table,
    percentile,
    request_metrics,
    series,
    summary,
    text_of,
    totals,
    waiting_by_cause,
)
from scheduler_core.request import FinishReason, RequestStatus
from scheduler_core.trace import Trace
from tests.helpers import create_engine, create_request, events, outputs, random_workload, run
from tests.trace_builders import decode, item, sampled, spec, tick, trace

SEEDS = range(60)


def admitted(request_id: str, resumed: bool = False, hit: int = 0) -> RequestAdmitted:
    return RequestAdmitted(request_id, hit, 1, 9, 0, resumed)


def preempted(request_id: str, for_request: str, num_bytes: int = 0) -> RequestPreempted:
    return RequestPreempted(request_id, PreemptReason.SLICE, "swap", for_request, 8, 0, 2, num_bytes, 1)


def finished(request_id: str, reason: FinishReason = FinishReason.LENGTH, message: str = "") -> RequestFinished:
    return RequestFinished(request_id, reason, message)


def one_of_everything() -> Trace:
    """A waits a tick, reads in two, generates, is preempted for two ticks, is left out for one, and generates twice."""
    return trace(
        [spec("A", prompt=8, max_tokens=3, arrival=0.5)],
        tick(0, start=0.0, end=1.0),
        tick(1, item("A", 0, 4), events=[PrefixCacheQueried("A", 8, 0, (), False), admitted("A")]),
        tick(2, item("A", 4, 4, samples=True), events=[sampled("A", 0)]),
        tick(3, events=[preempted("A", "B", num_bytes=4096)]),
        tick(4),
        tick(
            5,
            item("A", 4, 4, recomputed=4),
            events=[PrefixCacheQueried("A", 9, 4, (0,), True), admitted("A", resumed=True, hit=4)],
        ),
        tick(6),
        tick(7, decode("A", 8, 1), events=[sampled("A", 1)]),
        tick(8, decode("A", 9, 2), events=[sampled("A", 2), finished("A")], end=10.0),
    )


def test_ttft_is_the_end_of_the_first_sampling_tick_minus_the_arrival():
    assert request_metrics(one_of_everything())[0].ttft_s == 3.0 - 0.5


def test_gaps_are_between_consecutive_tokens_and_tpot_excludes_the_first():
    metrics = request_metrics(one_of_everything())[0]
    assert metrics.itls == (5.0, 2.0)
    assert (metrics.mean_itl_s, metrics.worst_gap_s) == (3.5, 5.0)
    assert metrics.e2e_s == 10.0 - 0.5
    assert metrics.tpot_s == (9.5 - 2.5) / 2


def test_latency_is_split_by_cause():
    waiting = waiting_by_cause(one_of_everything())[0]
    assert waiting.queued_s == 0.5
    assert waiting.prefill_s == 3.0
    assert waiting.preempted_s == 2.0
    assert waiting.skipped_s == 1.0
    assert waiting.decode_s == 3.0
    assert waiting.total_s == request_metrics(one_of_everything())[0].e2e_s
    assert waiting.is_over


def test_counters_of_one_request():
    metrics = request_metrics(one_of_everything())[0]
    assert (metrics.status, metrics.finish_reason) == (RequestStatus.FINISHED, FinishReason.LENGTH)
    assert (metrics.num_prompt_tokens, metrics.num_output_tokens) == (8, 3)
    assert metrics.output_token_ids == (7, 7, 7)
    assert (metrics.num_preemptions, metrics.recomputed_tokens, metrics.num_cached_tokens) == (1, 4, 0)
    assert (metrics.queue_s, metrics.preempted_s) == (0.5, 2.0)


def test_totals_have_exactly_the_keys_of_the_command_line():
    assert totals(one_of_everything()) == {
        "ticks": 9,
        "preemptions": 1,
        "query_tokens": 8,
        "hit_tokens": 0,
        "self_hit_tokens": 4,
        "tier_hit_tokens": 0,
        "recomputed_tokens": 4,
        "bytes_saved": 4096,
        "virtual_seconds": 10.0,
        "wall_seconds": 0.0,
    }


def test_a_request_with_one_token_has_no_gap_and_no_tpot():
    made = trace([spec("A")], tick(0, item("A", 0, 8, samples=True), events=[sampled("A", 0), finished("A")]))
    metrics = request_metrics(made)[0]
    assert (metrics.ttft_s, metrics.e2e_s) == (1.0, 1.0)
    assert (metrics.tpot_s, metrics.mean_itl_s, metrics.worst_gap_s, metrics.itls) == (None, None, None, ())


def test_a_request_that_has_not_begun_has_no_times():
    metrics = request_metrics(trace([spec("A", arrival=5.0)], tick(0)))[0]
    assert metrics.status is RequestStatus.WAITING
    assert (metrics.ttft_s, metrics.e2e_s, metrics.queue_s) == (None, None, 0.0)


def test_an_unfinished_request_has_a_split_but_no_latency():
    made = trace([spec("A")], tick(0), tick(1, item("A", 0, 4), events=[admitted("A")]))
    assert request_metrics(made)[0].e2e_s is None
    assert waiting_by_cause(made)[0].total_s == 2.0
    assert not waiting_by_cause(made)[0].is_over


def test_an_aborted_request_ends_as_its_last_tick_begins_and_has_no_latency():
    made = trace([spec("A")], tick(0), tick(1), tick(2, events=[finished("A", FinishReason.ABORT)]), tick(3))
    assert request_metrics(made)[0].e2e_s is None
    assert waiting_by_cause(made)[0].total_s == 2.0


def test_failed_aborted_and_refused_requests_are_counted_apart_from_percentiles():
    ended = {"A": FinishReason.LENGTH, "B": FinishReason.REJECTED, "C": FinishReason.ABORT, "D": FinishReason.ERROR}
    made = trace(
        [spec(name) for name in (*ended, "E")],
        tick(0, item("A", 0, 8, samples=True), events=[sampled("A", 0), *(finished(n, r) for n, r in ended.items())]),
    )
    result = summary(request_metrics(made), ranks=(50,))
    assert (result.completed, result.refused, result.aborted, result.failed, result.unfinished) == (1, 1, 1, 1, 1)
    assert result.percentiles["e2e_s"] == {50: 1.0}
    assert result.percentiles["tpot_s"] == {50: None}


def test_itl_percentiles_pool_the_gaps_of_all_requests():
    result = summary(request_metrics(one_of_everything()), ranks=(0, 50, 100))
    assert result.percentiles["itl_s"] == {0: 2.0, 50: 3.5, 100: 5.0}


@pytest.mark.parametrize("size", [1, 2, 3, 10, 101])
@pytest.mark.parametrize("q", [0, 1, 25, 50, 90, 99, 99.9, 100])
def test_percentile_is_numpys_linear_one(size: int, q: float):
    rng = random.Random(size)
    values = [rng.uniform(0, 100) for _ in range(size)]
    assert percentile(values, q) == pytest.approx(float(np.percentile(values, q)), rel=1e-12)


def test_percentile_of_nothing_is_none_and_a_rank_outside_is_an_error():
    assert percentile([], 50) is None
    with pytest.raises(ValueError, match="101"):
        percentile([1.0], 101)


def test_the_budget_of_a_series_follows_changes_of_settings():
    change = ConfigChanged((("max_num_batched_tokens", "64", "16"),))
    made = trace([spec("A")], tick(0), tick(1, events=[change]), tick(2))
    assert series(made).token_budget == (64, 16, 16)


def test_a_series_tells_idle_ticks_and_tokens():
    made = run(create_engine(), create_request("A", 8, 1), create_request("B", 8, 1, arrival=9.0))
    result = series(made)
    assert result.is_idle == (False, True, False)
    assert result.scheduled_tokens == (8, 0, 8)
    assert (result.start_s, result.end_s) == ((0.0, 1.0, 9.0), (1.0, 9.0, 10.0))


# Tokens


def test_tokens_are_cached_computed_or_still_to_do_and_say_when():
    made = trace(
        [spec("A", prompt=8)],
        tick(0),
        tick(1, item("A", 4, 2), events=[admitted("A", hit=4)]),
        tick(2, item("A", 6, 2, samples=True), events=[sampled("A", 0, "Paris")]),
    )
    early, late = text_of(made, "A", tick=1), text_of(made, "A")
    assert [chip.kind for chip in early.prompt] == ["cached"] * 4 + ["computed"] * 2 + ["todo"] * 2
    assert early.output == ()
    assert [chip.tick for chip in late.prompt] == [1, 1, 1, 1, 1, 1, 2, 2]
    assert [(chip.text, chip.kind, chip.tick) for chip in late.output] == [("Paris", "generated", 2)]
    assert late.prompt[0].text == "t100"


def test_a_token_keeps_its_first_tick_when_it_is_computed_again():
    chips = text_of(one_of_everything(), "A").prompt
    assert [chip.tick for chip in chips] == [1, 1, 1, 1, 2, 2, 2, 2]
    assert {chip.kind for chip in chips} == {"computed"}


def test_the_text_of_an_unknown_request_is_an_error_that_names_those_there_are():
    with pytest.raises(TraceError, match=r"no request 'X'.*A"):
        text_of(one_of_everything(), "X")


# The table of events


def test_the_table_of_events_has_a_row_in_words_for_every_event():
    made = run(create_engine(quantum=1, max_num_seqs=1), create_request("A"), create_request("B"))
    rows = events_table(made)
    assert [row.event for row in rows] == [type(e).__name__ for r in made.records for e in r.events]
    assert all(row.text for row in rows)
    assert rows[0].text.startswith("A arrived. Its prompt has 8 tokens")


# Records that keep aggregates only


def test_a_summary_record_gives_metrics_but_neither_totals_nor_texts():
    def engine(record: str) -> Engine:
        full = create_engine()
        return Engine(full.config, full._runner, record=record)

    specs = [create_request("A", 20, 6), create_request("B", 30, 3, arrival=2.0)]
    full, brief = run(engine("full"), *specs), run(engine("summary"), *specs)
    for one, other in zip(request_metrics(full), request_metrics(brief), strict=True):
        assert (one.ttft_s, one.e2e_s, one.itls, one.output_token_ids) == (
            other.ttft_s,
            other.e2e_s,
            other.itls,
            other.output_token_ids,
        )
        assert (one.recomputed_tokens, other.recomputed_tokens) == (0, None)
    assert series(full) == series(brief)
    for view in (totals, waiting_by_cause, events_table, lambda t: text_of(t, "A")):
        with pytest.raises(TraceError, match="summary"):
            view(brief)


# Laws on random runs


@pytest.mark.parametrize("seed", SEEDS)
def test_the_parts_of_a_latency_add_up_to_it(seed: int):
    made = random_workload(seed).run()
    for metrics, waiting in zip(request_metrics(made), waiting_by_cause(made), strict=True):
        if metrics.e2e_s is not None:
            assert waiting.total_s == pytest.approx(metrics.e2e_s, rel=1e-12, abs=1e-12)
        assert min(waiting.queued_s, waiting.prefill_s, waiting.decode_s, waiting.skipped_s) >= 0.0


@pytest.mark.parametrize("seed", SEEDS)
def test_metrics_equal_what_the_engine_says_of_itself(seed: int):
    made = random_workload(seed).run()
    texts = outputs(made)
    last = {r.id: r for record in made.records if record.snapshot for r in record.snapshot.requests}
    for metrics in request_metrics(made):
        assert metrics.finish_reason is not None
        assert list(metrics.output_token_ids) == texts[metrics.id]
        if metrics.id in last:
            end = last[metrics.id]
            assert metrics.num_preemptions == end.num_preemptions
            assert metrics.num_cached_tokens == end.num_cached_tokens
            assert metrics.finish_reason is end.finish_reason


@pytest.mark.parametrize("seed", SEEDS)
def test_totals_equal_the_sums_over_requests(seed: int):
    workload = random_workload(seed)
    made = workload.run()
    all_totals, metrics = totals(made), request_metrics(made)
    assert all_totals["preemptions"] == sum(m.num_preemptions for m in metrics)
    assert all_totals["hit_tokens"] == sum(m.num_cached_tokens for m in metrics)
    assert all_totals["recomputed_tokens"] == sum(m.recomputed_tokens or 0 for m in metrics)
    if not workload.fail_copies:
        scheduled = events(made, RequestScheduled)
        assert all_totals["recomputed_tokens"] == sum(e.recomputed_tokens for e in scheduled)


@pytest.mark.parametrize("seed", SEEDS)
def test_every_token_of_a_completed_request_is_accounted_for(seed: int):
    made = random_workload(seed).run()
    for metrics in request_metrics(made):
        if metrics.is_completed:
            text = text_of(made, metrics.id)
            assert "todo" not in {chip.kind for chip in text.prompt}
            assert [chip.token_id for chip in text.output] == list(metrics.output_token_ids)
            assert sum(chip.kind == "cached" for chip in text.prompt) >= min(
                metrics.num_cached_tokens, metrics.num_prompt_tokens
            )


def test_the_random_runs_contain_what_they_are_to_test():
    made = [random_workload(seed).run() for seed in SEEDS]
    assert sum(totals(t)["preemptions"] for t in made) > 50
    assert sum(totals(t)["hit_tokens"] for t in made) > 50
    assert sum(totals(t)["recomputed_tokens"] for t in made) > 50
    assert sum(w.skipped_s for t in made for w in waiting_by_cause(t)) > 0


def test_an_arrival_alone_is_a_wait():
    made = trace([spec("A")], tick(0, events=[RequestArrived("A", 8, 4, 0)]))
    assert waiting_by_cause(made)[0].queued_s == 1.0

"""Known faults of other servers, kept out: texts that end at once, and figures that count twice."""

from __future__ import annotations

import random

import pytest

from scheduler_core.backends.synthetic import SyntheticRunner
from scheduler_core.events import RequestAdmitted
from scheduler_core.metrics import request_metrics, totals, waiting_by_cause
from scheduler_core.request import FinishReason
from scheduler_core.trace import Trace
from tests.helpers import (
    create_engine,
    create_request,
    events,
    finish_reasons,
    outputs,
    preemptions,
    run,
    tokens_per_tick,
)

# That "stop" wins where both apply is test_scheduler.py: test_a_stop_token_ends_a_text_and_wins_over_the_limit.


def ends_at_once() -> SyntheticRunner:
    """A model that ends every text as soon as it may."""
    return SyntheticRunner(eos_every=1)


def test_a_text_may_be_empty_and_its_first_token_is_the_one_that_ended_it() -> None:
    """Case 71a: time to first token is the time to the first drawn token, whatever it is."""
    runner = ends_at_once()
    trace = run(create_engine(runner, chunk_size=4), create_request("a", 10, max_tokens=5), create_request("b", 3))
    assert finish_reasons(trace) == {"a": FinishReason.STOP, "b": FinishReason.STOP}
    assert outputs(trace) == {"a": [runner.eos_token_id], "b": [runner.eos_token_id]}
    assert runner.decode(outputs(trace)["a"]) == ""
    a, b = request_metrics(trace)
    assert (a.ttft_s, a.e2e_s, a.tpot_s, a.itls) == (3.0, 3.0, None, ())
    assert (b.ttft_s, b.is_completed) == (1.0, True)


@pytest.mark.parametrize(("min_tokens", "max_tokens", "length"), [(3, 9, 4), (3, 4, 4), (3, 3, 3), (0, 1, 1)])
def test_no_text_ends_before_its_least_tokens(min_tokens: int, max_tokens: int, length: int) -> None:
    """Case 71b: and one that ends in the tick of its limit ends by "stop", if it may."""
    runner = ends_at_once()
    spec = create_request("a", 4, max_tokens=max_tokens, min_tokens=min_tokens)
    trace = run(create_engine(runner), spec)
    tokens = outputs(trace)["a"]
    assert len(tokens) == length
    assert runner.eos_token_id not in tokens[:min_tokens]
    assert finish_reasons(trace)["a"] is (FinishReason.LENGTH if length == min_tokens else FinishReason.STOP)


def test_hits_of_a_request_on_its_own_blocks_stay_out_of_the_hit_rate() -> None:
    """Case 73: random prompts in tight memory."""
    rng = random.Random(1)
    specs = [create_request(f"r{i}", [rng.randrange(10_000) for _ in range(14)], 14, arrival=i) for i in range(6)]
    trace = run(create_engine(num_blocks=12, preemption_mode="recompute"), *specs)
    assert preemptions(trace)
    counted = totals(trace)
    assert counted["hit_tokens"] == 0
    assert counted["query_tokens"] == 6 * 14
    assert counted["self_hit_tokens"] > 0
    assert all(m.num_cached_tokens == 0 for m in request_metrics(trace))


def times(trace: Trace, request_id: str) -> dict[str, list[float]]:
    """When a request was let in and when its tokens were there."""
    admitted = [
        r.start
        for r in trace.records
        for e in r.events
        if isinstance(e, RequestAdmitted) and e.request_id == request_id
    ]
    drawn = [r.end for r in trace.records for i in r.output.scheduled if i.request_id == request_id and i.samples]
    return {"admitted": admitted, "drawn": drawn}


@pytest.mark.parametrize("mode", ["swap", "recompute"])
@pytest.mark.parametrize(("where", "arrival"), [("in its prompt", 2), ("after three tokens", 6)])
def test_a_preemption_starts_no_clock_again(where: str, arrival: int, mode: str) -> None:
    """Case 75."""
    x = create_request("x", 15, max_tokens=6, priority=5)
    urgent = create_request("u", 3, max_tokens=4, arrival=arrival, priority=1)
    knobs = {"policy": "priority", "max_num_seqs": 1, "chunk_size": 4, "preemption_mode": mode}
    trace = run(create_engine(enable_prefix_caching=False, **knobs), x, urgent)
    [(left, _)] = preemptions(trace)
    before = sum(tick.get("x", 0) for tick in tokens_per_tick(trace)[:left])
    assert (before < 15) == (where == "in its prompt")
    figures = next(m for m in request_metrics(trace) if m.id == "x")
    seen = times(trace, "x")
    assert len(seen["admitted"]) == 2
    assert figures.ttft_s == seen["drawn"][0]
    assert x.arrival_time <= seen["admitted"][0] <= seen["drawn"][0] <= seen["drawn"][-1] == figures.e2e_s
    spent = next(w for w in waiting_by_cause(trace) if w.request_id == "x")
    assert spent.total_s == figures.e2e_s
    assert spent.queued_s == 0
    assert spent.preempted_s == seen["admitted"][1] - left == 4
    assert len(figures.itls) == 5
    assert len(events(trace, RequestAdmitted, "x")) == 2

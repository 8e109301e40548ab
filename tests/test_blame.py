"""The blame ledger: it adds up exactly on random runs, and lays each part where the definition says."""

from __future__ import annotations

import dataclasses
from collections import Counter
from fractions import Fraction

import pytest

from scheduler_core.backends.synthetic import SyntheticRunner
from scheduler_core.blame import Blame, Cause, blame, cost_matrix, total_by_cause
from scheduler_core.config import BATCH_ORDERS, POLICIES, PREEMPTION_MODES, EngineConfig
from scheduler_core.cost_model import machine, tick_seconds
from scheduler_core.engine import Engine
from scheduler_core.errors import TraceError
from scheduler_core.events import FaultInjected, PreemptReason, RequestAdmitted, RequestFinished, RequestPreempted
from scheduler_core.metrics import waiting_by_cause
from scheduler_core.output import ModelRunnerOutput, SchedulerOutput
from scheduler_core.request import FinishReason
from scheduler_core.storage.open_store import open_store
from scheduler_core.trace import Trace
from tests.helpers import Workload, create_engine, create_request, events, random_workload, run
from tests.trace_builders import decode, item, sampled, spec, tick, trace

SEEDS = range(2_000, 2_500)
COSTS = ("unit", "smollm2-cpu", "llama-3.1-8b-a100")
WORKING = (Cause.PREFILL, Cause.DECODE, Cause.OTHERS, Cause.RESTORE, Cause.LOAD, Cause.RECOMPUTE)


class Shaky(SyntheticRunner):
    """A model whose forward fails for one request, or raises, in its eighth tick."""

    def execute_model(self, output: SchedulerOutput) -> ModelRunnerOutput:
        result = super().execute_model(output)
        if output.tick != 8:
            return result
        if len(output.scheduled) == 1:
            raise RuntimeError("out of order")
        return dataclasses.replace(result, failed={output.scheduled[0].request_id: "its logits are not numbers"})


@dataclasses.dataclass(frozen=True)
class Stored(Workload):
    """Above a store that holds what the same requests have left in it before."""

    def engine(self) -> Engine:
        store = open_store("memory")
        earlier, engine = (Engine(self.config, self.runner(), store=store) for _ in range(2))
        for each in self.specs:
            earlier.add_request(each)
            engine.add_request(each)
        earlier.run()
        return engine


@dataclasses.dataclass(frozen=True)
class Troubled(Workload):
    def runner(self) -> SyntheticRunner:
        return Shaky(eos_every=self.eos_every)


def workload(seed: int) -> Workload:
    """A random workload on one of the machines, every tenth with a model that fails, every tenth above a store."""
    made = random_workload(seed)
    config = made.config.replace(cost=COSTS[seed % len(COSTS)])
    if seed % 10 == 5:
        return Stored(config, made.specs, made.aborts, made.eos_every, made.fail_copies, made.fail_restores)
    if seed % 10:
        return dataclasses.replace(made, config=config)
    return Troubled(config, made.specs, made.aborts, made.eos_every)


@pytest.fixture(scope="module")
def runs() -> list[tuple[Trace, tuple[Blame, ...]]]:
    traces = [workload(seed).run() for seed in SEEDS]
    return [(trace, blame(trace)) for trace in traces]


def ends(trace: Trace) -> dict[str, float]:
    """Request -> when it ended, recounted from batches and events."""
    found = {}
    for record in trace.records:
        batch = {part.request_id for part in record.output.scheduled}
        for event in record.events:
            if isinstance(event, RequestFinished):
                found[event.request_id] = record.end if event.request_id in batch else record.start
    return found


def parts(entry: Blame) -> dict[tuple[Cause, str], Fraction]:
    return {(share.cause, share.blamed): share.seconds for share in entry.shares}


def admitted(request_id: str) -> RequestAdmitted:
    return RequestAdmitted(request_id, 0, 1, 9, 0, False)


def finished(request_id: str) -> RequestFinished:
    return RequestFinished(request_id, FinishReason.LENGTH, "")


# Laws on random runs


def test_on_500_random_runs_the_parts_of_every_latency_add_up_to_it_exactly(runs):
    for made, ledger in runs:
        end = ends(made)
        assert [entry.request_id for entry in ledger] == [s.id for s in made.requests]
        for entry, sent in zip(ledger, made.requests, strict=True):
            latency = max(Fraction(0), Fraction(end[sent.id]) - Fraction(sent.arrival_time))
            assert sum((share.seconds for share in entry.shares), Fraction(0)) == latency == entry.latency
            assert entry.is_over


def test_the_random_runs_hold_all_that_can_happen(runs):
    configs = [made.config for made, _ in runs]
    assert {c.policy for c in configs} == set(POLICIES)
    assert {c.batch_order for c in configs} == set(BATCH_ORDERS)
    assert {c.preemption_mode for c in configs} == set(PREEMPTION_MODES)
    assert {c.cost for c in configs} == set(COSTS)
    reasons = Counter(e.reason for made, _ in runs for e in events(made, RequestFinished))
    assert set(reasons) == set(FinishReason)
    assert sum(len(events(made, FaultInjected)) for made, _ in runs) > 0
    causes = Counter(share.cause for _, ledger in runs for entry in ledger for share in entry.shares)
    assert set(causes) >= set(Cause) - {Cause.IDLE}


def test_every_part_is_positive_and_told_once_and_nobody_is_blamed_for_its_own_wait(runs):
    for _, ledger in runs:
        ids = {entry.request_id for entry in ledger}
        for entry in ledger:
            assert len(parts(entry)) == len(entry.shares)
            for share in entry.shares:
                assert share.seconds > 0
                assert share.blamed in ids - {entry.request_id} | {""}


def test_waits_and_others_work_are_laid_on_somebody_and_own_work_on_nobody(runs):
    laid = {Cause.QUEUED, Cause.OTHERS, Cause.SKIPPED, Cause.PREEMPTED}
    for _, ledger in runs:
        for share in (share for entry in ledger for share in entry.shares):
            assert bool(share.blamed) == (share.cause in laid)


def test_only_those_computed_or_copied_while_it_was_there_are_blamed(runs):
    for made, ledger in runs:
        end = ends(made)
        for entry, sent in zip(ledger, made.requests, strict=True):
            beside = set()
            for record in made.records:
                if record.end > sent.arrival_time and record.start < end[sent.id]:
                    output = record.output
                    beside |= {p.request_id for p in (*output.scheduled, *output.copies_out, *output.copies_in)}
            assert set(entry.by_request()) <= beside


def test_the_parts_agree_with_the_waiting_times_of_the_metrics(runs):
    for made, ledger in runs:
        for entry, waiting in zip(ledger, waiting_by_cause(made), strict=True):
            cause = {name: float(seconds) for name, seconds in entry.by_cause().items()}
            working = sum(cause[name] for name in WORKING)
            assert working == pytest.approx(waiting.prefill_s + waiting.decode_s, abs=1e-9)
            out = cause[Cause.QUEUED] + cause[Cause.PREEMPTED] + cause[Cause.SKIPPED] + cause[Cause.IDLE]
            assert out == pytest.approx(waiting.queued_s + waiting.preempted_s + waiting.skipped_s, abs=1e-9)
            assert cause[Cause.QUEUED] <= waiting.queued_s + 1e-9


def test_where_all_ticks_last_alike_nobody_slows_down_anybody_in_the_batch(runs):
    for made, ledger in runs:
        if made.config.cost == "unit":
            assert total_by_cause(ledger)[Cause.OTHERS] == 0


def test_the_matrix_and_the_totals_hold_the_same_seconds_as_the_shares(runs):
    for _, ledger in runs[:100]:
        matrix, totals = cost_matrix(ledger), total_by_cause(ledger)
        shares = [share for entry in ledger for share in entry.shares]
        assert sum(totals.values()) == sum(entry.latency for entry in ledger)
        assert sum(matrix.values()) == sum(share.seconds for share in shares if share.blamed)
        for entry in ledger:
            assert sum(entry.by_cause().values()) == entry.latency
            assert {who: cost for (who, whom), cost in matrix.items() if whom == entry.request_id} == entry.by_request()


# The definitions, by hand


def test_a_wait_in_the_queue_is_laid_in_equal_parts_on_those_in_the_batch():
    made = trace(
        [spec("A"), spec("B"), spec("C")],
        tick(0, item("A", 0, 6), item("B", 0, 2), events=[admitted("A"), admitted("B")]),
        tick(1, item("A", 6, 2), events=[]),
    )
    assert parts(blame(made)[2]) == {(Cause.QUEUED, "A"): Fraction(3, 2), (Cause.QUEUED, "B"): Fraction(1, 2)}


def test_a_request_left_out_blames_those_in_the_batch_in_proportion_to_their_tokens():
    made = trace(
        [spec("A"), spec("B"), spec("C")],
        tick(0, item("A", 0, 6), item("B", 0, 2), events=[admitted("A"), admitted("B"), admitted("C")]),
    )
    assert parts(blame(made)[2]) == {(Cause.SKIPPED, "A"): Fraction(3, 4), (Cause.SKIPPED, "B"): Fraction(1, 4)}


def test_a_preempted_request_blames_whom_it_had_to_leave_for_and_then_those_in_the_batch():
    left = RequestPreempted("A", PreemptReason.SLICE, "recompute", "B", 0, 8, 0, 0, 2)
    made = trace(
        [spec("A"), spec("B"), spec("C")],
        tick(0, item("A", 0, 8), events=[admitted("A")]),
        tick(1, item("B", 0, 4), item("C", 0, 4), events=[left, admitted("B"), admitted("C")]),
        tick(2, item("C", 4, 4)),
    )
    assert parts(blame(made)[0]) == {
        (Cause.PREFILL, ""): 1,
        (Cause.PREEMPTED, "B"): 1,
        (Cause.PREEMPTED, "C"): 1,
    }


def test_a_request_alone_has_only_itself_to_blame():
    made = run(create_engine(cost="smollm2-cpu"), create_request("A", 20, 6))
    assert set(parts(blame(made)[0])) == {(Cause.PREFILL, ""), (Cause.DECODE, "")}


def test_a_decode_beside_a_long_chunk_blames_it_for_what_the_tick_lasted_longer():
    cost = machine("smollm2-cpu")
    mine, chunk = decode("A", 8, 1), item("B", 0, 64)
    seconds = tick_seconds(SchedulerOutput(0, (mine, chunk)), cost)
    alone = tick_seconds(SchedulerOutput(0, (mine,)), cost)
    made = trace(
        [spec("A"), spec("B", prompt=64)],
        tick(0, mine, chunk, events=[admitted("A"), admitted("B")], start=0.0, end=seconds),
        config=EngineConfig(cost="smollm2-cpu"),
    )
    found = parts(blame(made)[0])
    assert found.keys() == {(Cause.DECODE, ""), (Cause.OTHERS, "B")}
    assert found[Cause.DECODE, ""] == pytest.approx(Fraction(alone), rel=1e-9)
    assert found[Cause.OTHERS, "B"] == pytest.approx(Fraction(seconds) - Fraction(alone), rel=1e-9)
    assert alone < seconds / 2


def test_others_work_is_laid_on_each_in_proportion_to_what_it_would_add_to_an_empty_tick():
    cost = machine("smollm2-cpu")
    work = [decode("A", 8, 1), item("B", 0, 40), item("C", 0, 10)]
    seconds = tick_seconds(SchedulerOutput(0, tuple(work)), cost)
    empty, *alone = [tick_seconds(SchedulerOutput(0, tuple(w)), cost) for w in ([], [work[1]], [work[2]])]
    made = trace(
        [spec("A"), spec("B", prompt=40), spec("C", prompt=10)],
        tick(0, *work, events=[admitted(name) for name in "ABC"], start=0.0, end=seconds),
        config=EngineConfig(cost="smollm2-cpu"),
    )
    found = parts(blame(made)[0])
    expected = (alone[0] - empty) / (alone[1] - empty)
    assert float(found[Cause.OTHERS, "B"] / found[Cause.OTHERS, "C"]) == pytest.approx(expected, rel=1e-6)


def test_what_is_computed_for_the_second_time_is_a_part_of_its_own():
    made = trace(
        [spec("A")],
        tick(0, item("A", 0, 4), events=[admitted("A")]),
        tick(1, item("A", 0, 8, samples=True, recomputed=6), events=[sampled("A", 0), finished("A")]),
    )
    assert parts(blame(made)[0]) == {(Cause.PREFILL, ""): Fraction(5, 4), (Cause.RECOMPUTE, ""): Fraction(3, 4)}


@pytest.mark.parametrize("mode", PREEMPTION_MODES)
def test_coming_back_costs_a_restore_or_a_second_computation_as_the_mode_says(mode: str):
    engine = create_engine(
        max_num_seqs=1, quantum=2, preemption_mode=mode, enable_prefix_caching=False, cost="smollm2-cpu"
    )
    made = run(engine, create_request("A", 8, 6), create_request("B", 8, 6))
    totals = total_by_cause(blame(made))
    assert (totals[Cause.RESTORE] > 0, totals[Cause.RECOMPUTE] > 0) == (mode == "swap", mode == "recompute")
    assert totals[Cause.PREEMPTED] > 0


def test_a_gap_in_the_record_and_a_tick_without_work_are_idle():
    made = trace(
        [spec("A")],
        tick(0, start=0.0, end=1.0),
        tick(
            1, item("A", 0, 8, samples=True), events=[admitted("A"), sampled("A", 0), finished("A")], start=3.0, end=4.0
        ),
    )
    assert parts(blame(made)[0]) == {(Cause.PREFILL, ""): 1, (Cause.IDLE, ""): 3}


def test_a_run_that_is_not_over_counts_to_its_end():
    engine = create_engine(max_num_seqs=1)
    for name in "AB":
        engine.add_request(create_request(name, 4, 20))
    for _ in range(5):
        engine.step()
    first, second = blame(engine.trace())
    assert not first.is_over
    assert (first.latency, second.latency) == (5, 5)
    assert parts(second) == {(Cause.QUEUED, "A"): 5}


def test_a_request_that_has_not_arrived_has_no_latency_yet():
    engine = create_engine()
    for request in (create_request("A", 4, 4), create_request("B", 4, 4, arrival=50)):
        engine.add_request(request)
    engine.step()
    assert blame(engine.trace())[1] == Blame("B", Fraction(0), False, ())


def test_a_run_of_aggregates_is_refused():
    made = run(create_engine(), create_request("A"))
    bare = dataclasses.replace(made, records=tuple(dataclasses.replace(r, snapshot=None) for r in made.records))
    with pytest.raises(TraceError, match="aggregates"):
        blame(bare)

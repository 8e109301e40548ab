"""A fork shares its past to the byte, and goes on as a run from zero with that change at that tick."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from scheduler_core.engine import fork
from scheduler_core.errors import RequestError
from scheduler_core.events import RequestArrived
from scheduler_core.request import FinishReason, RequestSpec
from scheduler_core.trace import Trace
from tests.helpers import Workload, create_engine, create_request, events, finish_reasons, random_workload, run


def forked_from(seed: int) -> tuple[Workload, Trace, int]:
    """A random workload, its run, and a tick in the middle; what is aborted is aborted before the fork."""
    workload = random_workload(seed)
    trace = workload.run()
    tick = len(trace.records) // 2
    workload = dataclasses.replace(workload, aborts=tuple(abort for abort in workload.aborts if abort[0] < tick))
    trace = workload.run()
    return workload, trace, min(tick, len(trace.records))


def moment(trace: Trace, tick: int) -> float:
    """When a tick starts."""
    return trace.records[tick].start if tick < len(trace.records) else trace.records[-1].end


def from_zero(workload: Workload, tick: int, config: Any, abort: tuple[str, ...] = (), *add: RequestSpec) -> Trace:
    """The whole run anew, with the change made at that tick."""
    engine = workload.engine()
    for spec in add:
        engine.add_request(spec)
    aborts = sorted(workload.aborts)
    while engine.has_work:
        while aborts and aborts[0][0] <= engine.tick:
            engine.abort(aborts.pop(0)[1])
        if engine.tick == tick:
            engine.reconfigure(config)
            for request_id in abort:
                engine.abort(request_id)
        engine.step()
    return engine.trace()


def past(trace: Trace, tick: int, like: Trace) -> str:
    """The ticks before, as they stand in a file."""
    return dataclasses.replace(like, records=trace.records[:tick]).to_json()


SEEDS = [seed for seed in range(60) if random_workload(seed).specs][::2]


@pytest.mark.parametrize("seed", SEEDS)
def test_an_added_request_arrives_as_if_it_had_been_sent_from_the_start(seed: int):
    workload, trace, tick = forked_from(seed)
    added = create_request("added", 7, max_tokens=5)
    forked = fork(trace, tick, workload.config, workload.runner(), add=[added])
    direct = from_zero(
        workload, tick, workload.config, (), dataclasses.replace(added, arrival_time=moment(trace, tick))
    )
    assert past(forked, tick, trace) == past(trace, tick, trace)
    assert forked.records == direct.records
    assert forked.requests == direct.requests


@pytest.mark.parametrize("seed", SEEDS)
def test_an_aborted_request_leaves_as_it_would_in_a_run_from_zero(seed: int):
    workload, trace, tick = forked_from(seed)
    victim = workload.specs[seed % len(workload.specs)].id
    forked = fork(trace, tick, workload.config, workload.runner(), abort=[victim])
    if tick == len(trace.records):
        assert forked.records == trace.records
        return
    direct = from_zero(workload, tick, workload.config, (victim,))
    assert past(forked, tick, trace) == past(trace, tick, trace)
    assert forked.records == direct.records


@pytest.mark.parametrize("seed", SEEDS)
def test_all_changes_at_once_are_those_of_a_run_from_zero(seed: int):
    workload, trace, tick = forked_from(seed)
    config = workload.config.replace(quantum=2, chunk_size=3, policy="shortest")
    victim = workload.specs[0].id
    added = create_request("added", 5, max_tokens=4, priority=1)
    forked = fork(trace, tick, config, workload.runner(), add=[added], abort=[victim])
    arrives = dataclasses.replace(added, arrival_time=moment(trace, tick))
    direct = from_zero(workload, tick, config, (victim,), arrives)
    assert past(forked, tick, trace) == past(trace, tick, trace)
    assert forked.records == direct.records


def test_an_added_request_never_arrives_in_the_past():
    trace = run(create_engine(), create_request("A", 8, max_tokens=9))
    forked = fork(trace, 4, trace.config, create_engine()._runner, add=[create_request("B", arrival=1)])
    [(tick, event)] = [
        (r.tick, e) for r in forked.records for e in r.events if isinstance(e, RequestArrived) and e.request_id == "B"
    ]
    assert tick == 4
    assert forked.request("B").arrival_time == trace.records[4].start
    assert event.num_prompt_tokens == 8


def test_an_abort_at_the_fork_ends_the_request_there():
    trace = run(create_engine(), create_request("A", 8, max_tokens=9), create_request("B", 8, max_tokens=9))
    forked = fork(trace, 3, trace.config, abort=["B"])
    assert finish_reasons(forked)["B"] is FinishReason.ABORT
    assert len(events(forked, RequestArrived)) == 2
    assert finish_reasons(forked)["A"] is FinishReason.LENGTH


def test_an_added_request_of_a_name_that_is_taken_is_refused():
    trace = run(create_engine(), create_request("A"))
    with pytest.raises(RequestError, match="'A' already"):
        fork(trace, 1, trace.config, add=[create_request("A")])


def test_an_abort_of_nobody_is_refused():
    trace = run(create_engine(), create_request("A"))
    with pytest.raises(RequestError, match="no request 'Z'"):
        fork(trace, 1, trace.config, abort=["Z"])


def test_the_length_of_a_fork_is_bounded():
    trace = run(create_engine(), create_request("A", 8, max_tokens=20))
    assert len(fork(trace, 3, trace.config, max_ticks=7).records) == 7
    assert len(fork(trace, 9, trace.config, max_ticks=7).records) == 9

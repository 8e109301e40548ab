"""Audit: the books kept from events alone agree with every right run, and notice each kind of wrong one."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterable, Sequence

import pytest

from scheduler_core.audit import Audit
from scheduler_core.config import EngineConfig
from scheduler_core.events import (
    BlockEvicted,
    BlockPublished,
    BlocksAllocated,
    BlocksFreed,
    Event,
    FaultInjected,
    PreemptReason,
    PrefixCacheQueried,
    RequestAdmitted,
    RequestArrived,
    RequestFinished,
    RequestPreempted,
    RequestRestored,
    RequestScheduled,
    TokenSampled,
)
from scheduler_core.laws import BrokenLaw, Law
from scheduler_core.lookup import configs
from scheduler_core.request import RequestSpec
from scheduler_core.trace import Trace
from tests.helpers import create_engine, create_request, random_workload, run

SAME = [1, 2, 3, 4, 5, 6, 7, 8, 9]


def audited(trace: Trace, ticks: Iterable[Sequence[Event]] | None = None) -> None:
    """Read a whole run, or other events in its place."""
    audit = Audit(trace.config.block_size, {spec.id: spec for spec in trace.requests})
    events = [record.events for record in trace.records] if ticks is None else ticks
    for tick, config in zip(events, configs(trace), strict=False):
        audit.read(tick, config)


def broken(trace: Trace, tick: int, *changes: tuple[type[Event], dict[str, object]]) -> BrokenLaw:
    """The law that breaks where, in one tick, the first event of a kind has other values."""
    ticks = [list(record.events) for record in trace.records]
    for kind, values in changes:
        index = next(i for i, event in enumerate(ticks[tick]) if isinstance(event, kind))
        ticks[tick][index] = dataclasses.replace(ticks[tick][index], **values)
    audited(trace)
    with pytest.raises(BrokenLaw) as problem:
        audited(trace, ticks)
    return problem.value


def two_of_a_kind() -> Trace:
    """A prompt, and the same one again at tick 2 with a hit of two blocks."""
    others = [create_request("b", SAME, 3, arrival=2), create_request("c", 9, 1)]
    return run(create_engine(), create_request("a", SAME, 3), *others)


@pytest.mark.parametrize("seeds", [range(100), range(100, 200), range(200, 300)])
def test_right_runs_break_no_law(seeds: range) -> None:
    for seed in seeds:
        audited(random_workload(seed).run())


def test_thrashing_is_no_standstill() -> None:
    """The nastiest settings: little memory, first chunks, recomputation, ageing and short slices."""
    for seed in range(300):
        rng, workload = random.Random(seed), random_workload(seed)
        config = workload.config.replace(
            admission="first_chunk",
            preemption_mode="recompute",
            enable_prefix_caching=False,
            num_blocks=rng.choice([6, 8, 10]),
            quantum=rng.choice([None, 1, 2]),
            aging=rng.choice([0, 1, 2]),
            watermark=0,
        )
        specs = tuple(dataclasses.replace(s, arrival_time=0.0, priority=s.priority * 20) for s in workload.specs)
        audited(dataclasses.replace(workload, config=config, specs=specs).run())


def test_a_hit_on_other_tokens_is_noticed() -> None:
    trace = two_of_a_kind()
    law = broken(trace, 2, (PrefixCacheQueried, {"hit_block_ids": (1, 0)}))
    assert law.law is Law.HITS
    assert law.detail == "b was given block 1 for its tokens 0 to 3, but the block holds other ones"


def test_a_hit_across_salts_is_noticed() -> None:
    trace = two_of_a_kind()
    stranger = tuple(dataclasses.replace(s, salt="s") if s.id == "b" else s for s in trace.requests)
    with pytest.raises(BrokenLaw) as problem:
        audited(dataclasses.replace(trace, requests=stranger))
    assert problem.value.law is Law.HITS


def test_a_hit_on_a_block_that_is_not_computed_is_noticed() -> None:
    law = broken(two_of_a_kind(), 2, (PrefixCacheQueried, {"hit_block_ids": (0, 31)}))
    assert (law.law, law.detail) == (Law.COMPUTED, "b was given block 31, which has not been computed")


def test_a_published_block_that_is_not_full_is_noticed() -> None:
    law = broken(two_of_a_kind(), 0, (BlockPublished, {"block_id": 2, "index": 2}))
    assert (law.law, law.detail) == (Law.COMPUTED, "block 2 of a can be found, with 1 of its 4 tokens computed")


def test_a_block_that_is_taken_but_can_still_be_found_is_noticed() -> None:
    trace = run(create_engine(num_blocks=3), create_request("a", SAME, 1), create_request("b", 9, 1, arrival=3))
    ticks = [[e for e in record.events if not isinstance(e, BlockEvicted)] for record in trace.records]
    with pytest.raises(BrokenLaw, match="b took block 1, which can still be found") as problem:
        audited(trace, ticks)
    assert problem.value.law is Law.CHAIN


def test_an_admission_without_room_is_noticed_by_the_rule_that_is_set() -> None:
    trace = run(create_engine(), create_request("a", SAME, 1))
    for rule, values, holds in [
        ("whole_minus_promised", {"blocks_free": 3, "blocks_promised": 0}, True),
        ("whole_minus_promised", {"blocks_free": 3, "blocks_promised": 1}, False),
        ("when_empty", {"blocks_free": 3, "blocks_promised": 1}, False),
        ("whole_prompt", {"blocks_free": 3, "blocks_promised": 9}, True),
        ("whole_prompt", {"blocks_free": 2, "blocks_promised": 0}, False),
        ("first_chunk", {"blocks_free": 1, "blocks_promised": 9}, True),
    ]:
        events = [
            dataclasses.replace(e, **values) if isinstance(e, RequestAdmitted) else e for e in trace.records[0].events
        ]
        audit = Audit(4, {spec.id: spec for spec in trace.requests})
        if holds:
            audit.read(events, trace.config.replace(admission=rule))
            continue
        with pytest.raises(BrokenLaw) as problem:
            audit.read(events, trace.config.replace(admission=rule))
        assert problem.value.law is Law.ADMISSION


def test_a_token_left_out_and_one_told_twice_are_noticed() -> None:
    trace = two_of_a_kind()
    assert broken(trace, 1, (RequestScheduled, {"start": 10})).law is Law.TOKENS
    assert broken(trace, 1, (TokenSampled, {"index": 0})).law is Law.TOKENS


def test_computing_the_same_again_and_again_is_noticed() -> None:
    spec = RequestSpec("a", tuple(SAME))
    audit, config = Audit(4, {"a": spec}), EngineConfig()
    start = [RequestArrived("a", 9, 16, 0), RequestAdmitted("a", 0, 3, 9, 0, False), BlocksAllocated("a", (0, 1, 2))]
    audit.read([*start, RequestScheduled("a", 0, 9, 0, False)], config)
    again = [
        RequestPreempted("a", PreemptReason.SLICE, "recompute", "b", 0, 9, 0, 0, 1),
        BlocksFreed("a", (0, 1, 2)),
        RequestAdmitted("a", 0, 3, 9, 0, True),
        BlocksAllocated("a", (0, 1, 2)),
        RequestScheduled("a", 0, 9, 9, False),
    ]
    for _ in range(4):
        audit.read(again, config)
    with pytest.raises(BrokenLaw, match="the last 45 tokens") as problem:
        audit.read(again, config)
    assert problem.value.law is Law.PROGRESS


def test_a_restore_that_failed_brought_nothing() -> None:
    """What it should have filled cannot be published before it is computed."""
    spec = RequestSpec("a", tuple(SAME))
    audit, config = Audit(4, {"a": spec}), EngineConfig()
    start = [RequestArrived("a", 9, 16, 0), RequestAdmitted("a", 0, 3, 9, 0, False), BlocksAllocated("a", (0, 1, 2))]
    audit.read([*start, RequestRestored("a", 0, 8, 2, 0), FaultInjected("copy_in", "a", "lost")], config)
    with pytest.raises(BrokenLaw, match="block 0 of a can be found, with 0 of its 4 tokens computed"):
        audit.read([BlockPublished(0, "k", "", "a", 0)], config)


def test_a_request_that_is_over_is_forgotten() -> None:
    trace = two_of_a_kind()
    audit = Audit(4, {spec.id: spec for spec in trace.requests})
    for record in trace.records:
        audit.read(record.events, trace.config)
    assert any(isinstance(e, RequestFinished) for record in trace.records for e in record.events)
    assert audit._accounts == {}


def test_every_law_is_a_sentence() -> None:
    assert all(law.text.endswith(".") and law.text[0].isupper() for law in Law)
    assert len({law.text for law in Law}) == len(Law)

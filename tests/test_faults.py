"""The fault museum: each mistake is caught by its law at the expected tick, does its damage, and is off by default."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence

import pytest

from scheduler_core.backends.replay import ReplayRunner
from scheduler_core.backends.synthetic import SyntheticRunner
from scheduler_core.block_pool import BlockPool
from scheduler_core.engine import Engine, fork
from scheduler_core.errors import ConfigError, TickscopeError
from scheduler_core.events import FaultSwitchedOn, LawBroken, RequestFinished, RequestPreempted
from scheduler_core.explain import explain
from scheduler_core.faults import FAULT_FOLDER, FAULTS
from scheduler_core.kv_cache_manager import KVCacheManager
from scheduler_core.laws import BrokenLaw, Law
from scheduler_core.metrics import events_table, request_metrics
from scheduler_core.narration import narrate_tick
from scheduler_core.prefix_cache import PrefixCache
from scheduler_core.scheduler import Scheduler
from scheduler_core.solo import wrong_texts
from scheduler_core.trace import Trace
from scheduler_core.workload import list_scenarios, load_scenario
from tests.helpers import create_engine, create_request, events, hit_tokens, random_workload, run

#: Where each mistake breaks its law: tick, and the request or block that the trace names.
CAUGHT = {
    "publish_before_compute": (6, Law.COMPUTED, "block 19 of R3 can be found, with 0 of its 4 tokens computed"),
    "evict_parent_first": (5, Law.CHAIN, "the parent of block 1 is gone, so nobody can find it any more"),
    "compare_no_tokens": (
        13,
        Law.HITS,
        "R2 was given block 0 for its tokens 0 to 7, but the block holds other ones",
    ),
    "admit_by_first_chunk": (
        1,
        Law.ADMISSION,
        "R2 was let in and needs 7 blocks; 8 were free, of which 5 had been promised to others",
    ),
    "count_plain_ticks": (20, Law.PROGRESS, "the last 136 tokens computed had all been computed before"),
}


def museum_run(scenario: str, faults: Sequence[str] = (), check: bool = True, max_ticks: int = 400) -> Trace:
    """A scenario of the museum on the synthetic model."""
    loaded, runner = load_scenario(FAULT_FOLDER / f"{scenario}.toml"), SyntheticRunner()
    engine = Engine(loaded.config, runner, scenario=scenario, title=loaded.title, check=check, faults=faults)
    for spec in loaded.specs(runner):
        engine.add_request(spec)
    return engine.run(max_ticks)


def broken_laws(trace: Trace) -> list[tuple[int, LawBroken]]:
    return [(r.tick, e) for r in trace.records for e in r.events if isinstance(e, LawBroken)]


def test_every_mistake_has_its_scenario_and_its_law() -> None:
    assert set(list_scenarios(FAULT_FOLDER)) == set(FAULTS) == set(CAUGHT)
    assert [fault.law for fault in FAULTS.values()] == [CAUGHT[name][1] for name in FAULTS]
    assert len({fault.law for fault in FAULTS.values()}) == len(FAULTS)
    for name, fault in FAULTS.items():
        loaded = load_scenario(FAULT_FOLDER / f"{name}.toml")
        assert loaded.title == fault.title
        assert len(loaded.look_for) == 3


@pytest.mark.parametrize("name", FAULTS)
def test_a_mistake_is_caught_by_its_law_and_the_run_stops_there(name: str) -> None:
    trace = museum_run(name, [name])
    tick, law, detail = CAUGHT[name]
    assert broken_laws(trace) == [(tick, LawBroken(law, detail))]
    assert trace.records[-1].tick == tick
    assert events(trace, FaultSwitchedOn) == [FaultSwitchedOn(name, FAULTS[name].description)]
    assert trace.faults == (name,)


@pytest.mark.parametrize("name", FAULTS)
def test_the_same_workload_without_the_mistake_breaks_nothing(name: str) -> None:
    trace = museum_run(name)
    assert broken_laws(trace) == []
    assert trace.faults == ()
    assert {e.reason.value for e in events(trace, RequestFinished)} == {"length"}
    assert len(events(trace, RequestFinished)) == len(trace.requests)
    assert wrong_texts(trace, SyntheticRunner()) == ()


# The damage: what becomes of a run that nobody checks


@pytest.mark.parametrize(("name", "victim"), [("publish_before_compute", "R3"), ("compare_no_tokens", "R2")])
def test_kv_that_is_not_the_request_s_own_makes_it_say_something_else(name: str, victim: str) -> None:
    trace = museum_run(name, [name], check=False)
    wrong = wrong_texts(trace, SyntheticRunner())
    assert [text.request_id for text in wrong] == [victim]
    assert not wrong[0].is_tie


def test_a_front_given_away_first_costs_the_hits_of_all_that_stood_behind_it() -> None:
    right, wrong = museum_run("evict_parent_first"), museum_run("evict_parent_first", ["evict_parent_first"], False)
    assert (hit_tokens(right)["R3"], hit_tokens(wrong)["R3"]) == ([40], [0])
    assert wrong_texts(wrong, SyntheticRunner()) == ()


def test_looking_at_first_chunks_makes_a_request_come_and_go() -> None:
    right, wrong = (
        museum_run("admit_by_first_chunk"),
        museum_run("admit_by_first_chunk", ["admit_by_first_chunk"], False),
    )
    assert events(right, RequestPreempted) == []
    assert [e.request_id for e in events(wrong, RequestPreempted)] == ["R2"] * 4
    assert wrong_texts(wrong, SyntheticRunner()) == ()


def test_counting_plain_ticks_keeps_everybody_busy_for_ever() -> None:
    wrong = museum_run("count_plain_ticks", ["count_plain_ticks"], check=False, max_ticks=300)
    assert len(wrong.records) == 300
    assert events(wrong, RequestFinished) == []
    assert all(record.counts.scheduled_tokens == 8 for record in wrong.records)
    assert len(museum_run("count_plain_ticks").records) < 60


# What a trace with a mistake is good for


@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.parametrize("check", [True, False])
def test_every_tick_of_a_faulty_run_can_be_told_and_explained(name: str, check: bool) -> None:
    trace = museum_run(name, [name], check, max_ticks=60)
    assert Trace.from_bytes(trace.to_bytes()) == trace
    told = [narrate_tick(trace, record.tick) for record in trace.records]
    assert [s.kind for s in told[0]].count("fault") == 1
    if check:
        law = FAULTS[name].law
        assert told[-1][0].whole.startswith(f"A law is broken, and the run stops. {law.text} But ")
        assert CAUGHT[name][2] in told[-1][0].whole
    assert len(events_table(trace)) == sum(len(record.events) for record in trace.records)
    assert len(request_metrics(trace)) == len(trace.requests)
    for record in trace.records:
        for spec in trace.requests:
            assert explain(trace, record.tick, spec.id).headline


def test_a_fork_of_a_faulty_run_has_the_mistake_too() -> None:
    trace = museum_run("compare_no_tokens", ["compare_no_tokens"], check=False)
    forked = fork(trace, 5, trace.config.replace(chunk_size=8), SyntheticRunner())
    assert forked.faults == trace.faults
    assert forked.records[:5] == trace.records[:5]
    assert hit_tokens(forked)["R2"] == [8]
    assert Engine(trace.config, ReplayRunner(trace)).trace().faults == ()


def test_a_run_that_has_stopped_says_so() -> None:
    loaded, runner = load_scenario(FAULT_FOLDER / "admit_by_first_chunk.toml"), SyntheticRunner()
    engine = Engine(loaded.config, runner, faults=["admit_by_first_chunk"])
    for spec in loaded.specs(runner):
        engine.add_request(spec)
    engine.run()
    assert not engine.has_work
    with pytest.raises(TickscopeError, match="broke a law"):
        engine.step()


# Off everywhere else


def test_a_plain_run_is_made_of_the_plain_parts() -> None:
    engine = create_engine()
    assert type(engine.scheduler) is Scheduler
    assert type(engine._kv) is KVCacheManager
    assert type(engine._kv.pool) is BlockPool
    assert type(engine._kv.cache) is PrefixCache


def test_a_plain_run_raises_where_a_law_breaks() -> None:
    engine = create_engine()
    engine.add_request(create_request("a", 8))
    engine.step()
    engine._kv.pool.take(1)
    with pytest.raises(BrokenLaw, match="reference counts") as broken:
        engine.step()
    assert broken.value.law is Law.BLOCKS


def test_a_faulty_run_leaves_no_mistake_behind() -> None:
    before = museum_run("compare_no_tokens")
    for name in FAULTS:
        museum_run(name, [name])
    assert museum_run("compare_no_tokens") == before


def test_mistakes_can_be_made_together() -> None:
    trace = museum_run("compare_no_tokens", ["compare_no_tokens", "evict_parent_first", "count_plain_ticks"])
    assert broken_laws(trace)[0][1].law is Law.HITS
    assert trace.faults == ("compare_no_tokens", "evict_parent_first", "count_plain_ticks")


def test_an_unknown_mistake_is_refused_with_those_there_are() -> None:
    with pytest.raises(ConfigError, match="no fault 'typo'; the faults are publish_before_compute, "):
        museum_run("compare_no_tokens", ["typo"])


@pytest.mark.parametrize("name", FAULTS)
def test_random_workloads_catch_every_mistake(name: str) -> None:
    """Not only the scenario made for it; and nothing else than a law ever breaks."""
    caught: Counter[Law] = Counter()
    for seed in range(300):
        workload = random_workload(seed)
        config = workload.config.replace(preemption_mode="recompute", aging=0)
        engine = Engine(config, workload.runner(), faults=[name])
        for spec in workload.specs:
            engine.add_request(dataclasses.replace(spec, arrival_time=spec.arrival_time / 4))
        caught.update(broken.law for _, broken in broken_laws(engine.run(2_000)))
    assert caught[FAULTS[name].law] > 10


# Texts compared with those said alone


def test_a_text_that_ends_early_or_late_is_wrong_too() -> None:
    spec = create_request("a", 6, max_tokens=5)
    whole = run(create_engine(), spec)
    assert wrong_texts(whole, SyntheticRunner()) == ()
    shorter = dataclasses.replace(whole, requests=(create_request("a", 6, max_tokens=3),))
    [late] = wrong_texts(shorter, SyntheticRunner())
    assert (late.index, late.token_id_alone) == (3, None)
    longer = dataclasses.replace(whole, requests=(create_request("a", 6, max_tokens=7),))
    [early] = wrong_texts(longer, SyntheticRunner())
    assert (early.index, early.token_id) == (5, None)
    assert early.margin == pytest.approx(0.6931, abs=1e-3)


def test_a_part_of_a_text_is_compared_as_far_as_it_goes() -> None:
    engine = create_engine()
    engine.add_request(create_request("a", 6, max_tokens=5))
    engine.step()
    engine.step()
    assert wrong_texts(engine.trace(), SyntheticRunner()) == ()


def test_another_model_is_no_judge() -> None:
    trace = run(create_engine(), create_request("a", 6))
    with pytest.raises(ValueError, match="seed 0, not of synthetic, seed 1"):
        wrong_texts(trace, SyntheticRunner(seed=1))

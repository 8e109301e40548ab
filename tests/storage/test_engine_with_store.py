"""A run above a store: what it hits, what it writes, and that texts never depend on it."""

from __future__ import annotations

import dataclasses
import random

import fakeredis
import pytest

from scheduler_core.backends.base import CopyError
from scheduler_core.backends.length_only import LengthOnlyRunner
from scheduler_core.backends.replay import ReplayRunner
from scheduler_core.backends.synthetic import SyntheticRunner
from scheduler_core.config import EngineConfig
from scheduler_core.engine import Engine, fork
from scheduler_core.errors import ConfigError, TraceError
from scheduler_core.events import BlockEvicted, FaultInjected, LowerTierQueried, RequestPreempted
from scheduler_core.narration import narrate_tick
from scheduler_core.output import SchedulerOutput
from scheduler_core.request import RequestSpec
from scheduler_core.storage.block_store import Tier
from scheduler_core.storage.lmdb_backing import LmdbBacking
from scheduler_core.storage.memory_backing import MemoryBacking
from scheduler_core.storage.open_store import open_store
from scheduler_core.storage.redis_backing import RedisBacking
from scheduler_core.trace import Trace
from tests.helpers import create_request, events, is_idle_and_sound, outputs, random_workload

KNOBS = {"block_size": 4, "num_blocks": 32, "max_model_len": 128, "quantum": None}


@pytest.fixture
def store():
    opened = open_store("memory")
    yield opened
    opened.close()


def engine(store, runner=None, **knobs) -> Engine:
    return Engine(EngineConfig(**{**KNOBS, **knobs}), runner or SyntheticRunner(), store=store)


def run(made: Engine, *specs: RequestSpec) -> Trace:
    for each in specs:
        made.add_request(each)
    trace = made.run()
    assert is_idle_and_sound(made)
    return trace


def tier_hits(trace: Trace) -> dict[str, int]:
    """Request -> tokens that came from below."""
    hits: dict[str, int] = {}
    for event in events(trace, LowerTierQueried):
        hits[event.request_id] = hits.get(event.request_id, 0) + event.hit_tokens
    return hits


class FailsToLoad(SyntheticRunner):
    """Copies in only so many blocks."""

    def __init__(self, num_good: int) -> None:
        super().__init__()
        self.num_good = num_good

    def copy_in(self, saved, first_block, block_ids) -> None:
        if self.num_good <= 0:
            raise CopyError("the device is busy")
        self.num_good -= 1
        super().copy_in(saved, first_block, block_ids)


@pytest.mark.parametrize("length", [1, 3, 4, 5, 8, 9, 16, 17])
def test_a_second_engine_hits_whole_blocks_and_computes_at_least_one_token(store, length):
    first = run(engine(store), create_request("a", length))
    second = run(engine(store), create_request("a", length))
    asked = (length - 1) // 4 * 4
    assert tier_hits(first) == ({"a": 0} if asked else {})
    assert tier_hits(second) == ({"a": asked} if asked else {})
    assert second.records[0].output.scheduled[0].num_tokens == length - asked
    assert outputs(first) == outputs(second)


@pytest.mark.parametrize("chunked", [True, False])
@pytest.mark.parametrize("mode", ["swap", "recompute"])
@pytest.mark.parametrize("quantum", [None, 2])
@pytest.mark.parametrize("admission", ["whole_minus_promised", "whole_prompt", "first_chunk", "when_empty"])
def test_every_way_of_scheduling_hits_the_store(store, chunked, mode, quantum, admission):
    knobs = {"enable_chunked_prefill": chunked, "preemption_mode": mode, "quantum": quantum, "admission": admission}
    run(engine(store, **knobs), create_request("a", 9))
    assert tier_hits(run(engine(store, **knobs), create_request("a", 9))) == {"a": 8}


def test_what_memory_has_is_not_asked_for_below(store):
    made = engine(store)
    trace = run(made, create_request("a", 20), create_request("b", [*create_request("a", 20).prompt_token_ids], 4, 9.0))
    assert [e.request_id for e in events(trace, LowerTierQueried)] == ["a"]


def test_the_rest_of_a_chain_is_loaded_after_a_hit_in_memory(store):
    prompt = list(range(100, 133))
    run(engine(store), create_request("a", prompt))
    trace = run(engine(store), create_request("b", prompt[:9]), create_request("c", prompt, 4, 20.0))
    [found] = events(trace, LowerTierQueried, "c")
    assert (found.first_block, found.found_blocks, found.hit_tokens) == (2, 6, 24)


@pytest.mark.parametrize("kind", ["memory", "disk", "shared"])
def test_tenants_with_different_salts_never_hit_in_any_tier_and_those_with_the_same_do(kind, tmp_path):
    prompt = list(range(200, 217))
    places = {"memory": MemoryBacking(1 << 20), "disk": LmdbBacking(tmp_path / "store", 1 << 20)}
    store = Tier(places.get(kind) or RedisBacking("", client=fakeredis.FakeRedis()))

    def ask(salt: str) -> int:
        return tier_hits(run(engine(store), create_request("x", prompt, salt=salt)))["x"]

    assert [ask("a"), ask("b"), ask("a"), ask(""), ask("b")] == [0, 0, 16, 0, 16]
    store.close()


@pytest.mark.parametrize(
    ("runner", "knobs"),
    [
        (SyntheticRunner(seed=1), {}),
        (SyntheticRunner(vocab_size=39_999), {}),
        (SyntheticRunner(), {"block_size": 2}),
    ],
    ids=["other weights", "other vocabulary", "other block size"],
)
def test_another_model_or_layout_hits_nothing(store, runner, knobs):
    run(engine(store), create_request("a", 17))
    assert tier_hits(run(engine(store, runner, **knobs), create_request("a", 17))) == {"a": 0}


def test_what_is_evicted_while_its_owner_lives_is_written_as_well(store):
    """Preempted requests leave blocks that are evicted before they have ended."""
    knobs = {"num_blocks": 10, "quantum": 1, "max_num_seqs": 1, "preemption_mode": "recompute"}
    trace = run(engine(store, **knobs), create_request("a", 20, 8), create_request("b", 24, 8))
    assert events(trace, RequestPreempted)
    assert events(trace, BlockEvicted)
    again = [event for event in events(trace, LowerTierQueried) if event.self_hit and event.hit_tokens]
    assert again


@pytest.mark.parametrize("num_good", [0, 1, 2])
def test_a_block_that_cannot_be_loaded_is_computed_with_all_that_follow(store, num_good):
    clean = run(engine(store), create_request("a", 17))
    made = engine(store, FailsToLoad(num_good))
    trace = run(made, create_request("a", 17), create_request("b", 5))
    [told] = events(trace, LowerTierQueried, "a")
    assert (told.found_blocks, told.hit_tokens) == (4, num_good * 4)
    assert [event.name for event in events(trace, FaultInjected)] == ["load"]
    first = next(i for r in trace.records for i in r.output.scheduled if i.request_id == "a")
    assert first.start == num_good * 4
    assert first.recomputed_tokens == 0
    assert outputs(trace)["a"] == outputs(clean)["a"]


def test_two_requests_load_the_same_blocks_in_one_tick_into_their_own(store):
    prompt = list(range(300, 317))
    cold = run(engine(store), create_request("a", prompt))
    trace = run(engine(store), create_request("b", prompt), create_request("c", prompt))
    one, two = trace.records[0].output.loads
    assert not set(one.block_ids) & set(two.block_ids)
    assert outputs(trace)["b"] == outputs(trace)["c"] == outputs(cold)["a"]


def test_a_request_aborted_in_the_tick_after_its_load_gives_all_back(store):
    run(engine(store), create_request("a", 17, 20))
    made = engine(store)
    made.add_request(create_request("a", 17, 20))
    made.step()
    made.abort("a")
    made.run()
    assert is_idle_and_sound(made)


def test_without_the_prefix_cache_no_store_is_asked_or_written(store):
    for _ in range(2):
        assert tier_hits(run(engine(store, enable_prefix_caching=False), create_request("a", 17))) == {}
    assert store.stats()[0].entries == 0


def test_a_backend_without_kv_is_refused(store):
    trace = run(engine(store), create_request("a", 17))
    with pytest.raises(ConfigError, match="replay"):
        Engine(trace.config, ReplayRunner(trace), store=store)


def test_a_simulation_has_a_tier_of_a_real_size_without_any_kv():
    block_bytes = 16 * 131_072
    store = Tier(MemoryBacking(8 * block_bytes, "shared", value_bytes=block_bytes))
    config = EngineConfig(cost="llama-3.1-8b-h100", num_blocks=200, max_num_batched_tokens=512, chunk_size=None)
    told, seconds = [], []
    for name in ("a", "a", "b", "a"):
        made = Engine(config, LengthOnlyRunner(131_072), store=store)
        trace = run(made, create_request(name, 97, 2))
        store.flush()
        told.append(tier_hits(trace)[name])
        seconds += [event.seconds for event in events(trace, LowerTierQueried)]
    assert told == [0, 96, 0, 32]
    assert seconds == pytest.approx([tokens * 131_072 / 50e9 for tokens in told])
    assert store.stats()[0].num_bytes == 8 * block_bytes


# Records


@pytest.fixture
def recorded(store) -> Trace:
    run(engine(store), create_request("a", 30, 8), create_request("b", 17))
    return run(engine(store, cost="smollm2-cpu"), create_request("a", 30, 8), create_request("b", 17, arrival=0.02))


def test_a_recorded_run_says_what_the_store_answered_and_is_read_back_equal(recorded):
    assert Trace.from_bytes(recorded.to_bytes()) == recorded
    told = events(recorded, LowerTierQueried)
    assert [event.hit_tokens for event in told] == [28, 16]
    assert all(event.seconds > 0 and event.num_bytes > 0 for event in told)
    assert "took 28 tokens from the cache kept below memory" in " ".join(s.whole for s in narrate_tick(recorded, 0))


@pytest.mark.parametrize(
    "change",
    [
        {"found_blocks": 10**12},
        {"found_blocks": 1},
        {"first_block": -1},
        {"hit_tokens": 10_000},
        {"seconds": -1.0},
        {"request_id": "nobody"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_record_with_an_impossible_answer_of_the_store_is_refused(recorded, change):
    first = recorded.records[0]
    told = [dataclasses.replace(e, **change) if isinstance(e, LowerTierQueried) else e for e in first.events]
    spoilt = dataclasses.replace(first, events=tuple(told))
    trace = dataclasses.replace(recorded, records=(spoilt, *recorded.records[1:]))
    with pytest.raises(TraceError):
        Trace.from_json(trace.to_json())


@pytest.mark.parametrize("real", [False, True], ids=["from the record", "computed again"])
def test_a_run_is_repeated_and_forked_without_its_store(recorded, real):
    for tick in range(len(recorded.records) + 1):
        runner = SyntheticRunner() if real else None
        again = fork(recorded, tick, recorded.config, runner)
        assert again.records == recorded.records


@pytest.mark.parametrize("num_good", [0, 2])
def test_a_run_in_which_loading_failed_is_repeated_without_its_store(store, num_good):
    run(engine(store), create_request("a", 17))
    trace = run(engine(store, FailsToLoad(num_good)), create_request("a", 17))
    for tick in range(len(trace.records) + 1):
        assert [r.output for r in fork(trace, tick, trace.config).records] == [r.output for r in trace.records]


def test_a_fork_that_admits_later_gets_what_the_store_had_said(recorded):
    slower = fork(recorded, 0, recorded.config.replace(max_num_seqs=1))
    assert tier_hits(slower) == tier_hits(recorded)
    assert outputs(slower) == outputs(recorded)


def test_a_tick_lasts_longer_by_what_it_loads(recorded):
    from scheduler_core.cost_model import machine, tick_seconds

    first = recorded.records[0]
    bare = tick_seconds(dataclasses.replace(first.output, loads=()), machine("smollm2-cpu"), 4)
    [told] = [event for event in first.events if isinstance(event, LowerTierQueried)]
    assert first.end - first.start == pytest.approx(bare + told.seconds)


def test_the_same_content_of_the_store_gives_the_same_run():
    made = []
    for _ in range(2):
        store = open_store("memory")
        run(engine(store), create_request("a", 30, 8))
        made.append(run(engine(store), create_request("a", 30, 8)))
    assert made[0] == made[1]


def test_random_workloads_give_the_same_texts_above_a_store_and_hit_it():
    hits = loads = 0
    for seed in range(80):
        workload = random_workload(9_000 + seed)
        plain = outputs(workload.run())
        store = open_store("memory", limit_bytes=1 << 20)
        for _ in range(2):
            made = Engine(workload.config, workload.runner(), store=store)
            for each in workload.specs:
                made.add_request(each)
            trace = made.run(20_000)
            assert not made.has_work
            texts = outputs(trace)
            assert all(texts[name][: len(tokens)] == tokens for name, tokens in plain.items())
            hits += sum(tier_hits(trace).values())
            loads += sum(len(record.output.loads) for record in trace.records)
            # A recording does not say which copies to the host failed.
            if seed % 5 == 0 and not (workload.fail_copies or workload.fail_restores):
                assert fork(trace, len(trace.records), trace.config).records == trace.records
    assert hits > 500
    assert loads > 50


def test_an_output_without_loads_is_written_as_before():
    assert "loads" not in random.choice([engine(None)]).run().to_json()
    assert SchedulerOutput(0).loads == ()

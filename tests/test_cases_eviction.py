"""Known faults of other servers, kept out: reference counts, eviction, and blocks that leak."""

from __future__ import annotations

import random

import pytest

from scheduler_core.events import BlockEvicted, BlockPublished, BlocksAllocated, RequestSkipped, SkipReason
from scheduler_core.prefix_cache import ROOT
from scheduler_core.trace import Trace
from tests.helpers import (
    admissions,
    create_engine,
    create_request,
    events,
    finish_reasons,
    hit_tokens,
    is_idle_and_sound,
    outputs,
    run,
)

# Case 25 is test_scheduler.py: test_the_least_recently_used_block_is_evicted_first.
# Case 26 is test_block_pool.py: test_references_go_up_and_down_with_use, test_releasing_a_block_that_nobody_holds...


def used_blocks(trace: Trace) -> list[int]:
    """Distinct blocks in tables, by tick."""
    return [len({b for r in record.snapshot.requests for b in r.block_ids}) for record in trace.records]


@pytest.mark.parametrize("num_blocks", [4, 6])
def test_an_admission_does_not_count_the_blocks_it_has_hit_as_free(num_blocks: int) -> None:
    """Case 23: the next prompt hits 2 cached blocks and needs 2 more, while another request holds 2."""
    prefix = [*range(50, 58)]
    engine = create_engine(num_blocks=num_blocks, admission="whole_prompt")
    run(engine, create_request("warm", [*prefix, 1], 1))
    engine.add_request(create_request("holder", 5, max_tokens=4))
    engine.step()
    free, cached = engine._kv.pool.free_blocks(), engine._kv.cache.published_blocks()
    follower = create_request("next", [*prefix, *range(70, 75)], 1)
    engine.add_request(follower)
    record = engine.step()
    skips = [e for e in record.events if isinstance(e, RequestSkipped)]
    if num_blocks == 4:
        assert dict(skips[0].numbers)["blocks_free"] == 0
        assert engine._kv.pool.free_blocks() == free
        assert set(cached) <= set(engine._kv.cache.published_blocks())
        assert "next" not in engine._kv.tables
    else:
        assert skips == []
        assert set(cached[:2]) <= {b for e in record.events if hasattr(e, "hit_block_ids") for b in e.hit_block_ids}
    trace = engine.run()
    assert hit_tokens(trace)["next"] == [8]
    assert outputs(trace)["next"] == outputs(run(create_engine(), follower))["next"]
    assert is_idle_and_sound(engine)


def test_a_child_is_evicted_before_its_parent_so_that_the_front_stays_findable() -> None:
    """Case 24."""
    prompt = [*range(50, 66)]
    engine = create_engine(num_blocks=5)
    run(engine, create_request("x", prompt, 1))
    run(engine, create_request("y", 8, 1, arrival=10))
    again = create_request("x2", prompt, 1, arrival=20)
    trace = run(engine, again)
    index_of = {e.block_id: e.index for e in events(trace, BlockPublished, "x")}
    assert [index_of[e.block_id] for e in events(trace, BlockEvicted) if e.for_request == "y"] == [3]
    assert hit_tokens(trace)["x2"] == [12]


@pytest.mark.parametrize("seed", range(40))
def test_the_published_blocks_always_hold_the_parents_of_each(seed: int) -> None:
    """Case 24, on random prompts that share prefixes in a memory that is too small for all."""
    rng = random.Random(seed)
    engine = create_engine(
        num_blocks=rng.randint(6, 12), chunk_size=rng.choice([3, 4, 8]), quantum=rng.choice([None, 2])
    )
    prefixes = [[rng.randint(1, 2) for _ in range(12)] for _ in range(4)]
    for i in range(12):
        prompt = prefixes[i % 4][: rng.randint(1, 12)] + [rng.randint(1, 9) for _ in range(rng.randint(0, 4))]
        engine.add_request(create_request(f"r{i}", prompt, rng.randint(1, 5), arrival=rng.randint(0, 20)))
    evictions = 0
    while engine.has_work:
        evictions += sum(isinstance(e, BlockEvicted) for e in engine.step().events)
        cache = engine._kv.cache
        for block in cache.published_blocks():
            entry = cache.entry(block)
            keys = [] if entry.parent is None else [entry.parent.key]
            assert all(any(cache.entry(b).key == key for b in cache.published_blocks()) for key in keys)
            assert entry.key == cache.key_function(keys[0] if keys else ROOT, entry.token_ids, entry.namespace.digest())
    assert evictions > 0
    assert is_idle_and_sound(engine)


def test_a_recycled_block_is_no_longer_found_by_its_old_content() -> None:
    """Case 28."""
    prompt = [*range(50, 55)]
    engine = create_engine(num_blocks=2)
    trace = run(
        engine,
        create_request("p", prompt, 1),
        create_request("r", 8, 1, arrival=10),
        create_request("p2", prompt, 1, arrival=20),
    )
    assert hit_tokens(trace) == {"p": [0], "r": [0], "p2": [0]}
    cache = engine._kv.cache
    assert len(cache) == 1
    for block in cache.published_blocks():
        keys: list[bytes] = []
        entry = cache.entry(block)
        cache.extend_keys(keys, entry.token_ids, 4, entry.namespace)
        assert cache.lookup(keys, entry.token_ids, 4, entry.namespace, 1) == [block]


@pytest.mark.parametrize("seed", range(20))
def test_use_counts_each_shared_block_once_and_never_passes_what_there_is(seed: int) -> None:
    """Case 29: ten requests on a prefix of three blocks end in any order."""
    rng = random.Random(seed)
    prefix = [*range(50, 62)]
    engine = create_engine(num_blocks=32, max_num_seqs=10)
    run(engine, create_request("warm", [*prefix, 1], 1))
    specs = [create_request(f"r{i}", [*prefix, 100 + i], rng.randint(2, 9)) for i in range(10)]
    for spec in specs:
        engine.add_request(spec)
    while engine.has_work:
        if engine.tick > 1 and rng.random() < 0.3:
            engine.abort(rng.choice(specs).id)
        engine.step()
    trace = engine.trace()
    assert used_blocks(trace)[1] == 3 + 10, "three are shared by all, one is each one's own"
    assert [r.counts.used_blocks for r in trace.records] == used_blocks(trace)
    assert all(0 <= used <= 32 for used in used_blocks(trace))
    assert is_idle_and_sound(engine)


@pytest.mark.parametrize("chunk", [1, 3, 4, 5])
def test_no_block_leaks_whatever_the_length_and_whenever_a_request_ends(chunk: int) -> None:
    """Case 30: every prompt of 1 to 13 tokens, to its end and aborted at each tick."""
    runs = 0
    for length in range(1, 14):
        ticks = -(-length // chunk) + 2
        for abort_at in (*range(ticks + 1), None):
            engine = create_engine(num_blocks=5, chunk_size=chunk)
            engine.add_request(create_request("x", length, max_tokens=3))
            while engine.has_work:
                if engine.tick == abort_at:
                    engine.abort("x")
                engine.step()
            assert is_idle_and_sound(engine), (length, abort_at)
            assert all(engine._kv.pool.refs(block) == 0 for block in range(5))
            runs += 1
    assert runs > 13 * 4


def test_a_request_that_does_not_fit_holds_nothing_while_it_waits() -> None:
    """Case 43: three blocks of 32 tokens, so that x keeps its two for twenty ticks."""
    engine = create_engine(block_size=32, num_blocks=3, chunk_size=None, enable_prefix_caching=False)
    trace = run(engine, create_request("x", 33, 24), create_request("y", 40, 2, arrival=1))
    assert finish_reasons(trace).keys() == {"x", "y"}
    waiting = [r for r in trace.records if any(isinstance(e, RequestSkipped) for e in r.events)]
    assert len(waiting) >= 20
    for record in waiting[:-1]:
        [skip] = [e for e in record.events if isinstance(e, RequestSkipped)]
        assert (skip.request_id, skip.reason) == ("y", SkipReason.MEMORY)
        assert [r.block_ids for r in record.snapshot.requests if r.id == "y"] == [()]
        assert len(record.snapshot.free_blocks) == 1
    assert [len(e.block_ids) for e in events(trace, BlocksAllocated, "y")] == [2]
    assert admissions(trace)[1][0] == 24

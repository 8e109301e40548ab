"""Known faults of other servers, kept out: whose KV a request may get. Case numbers are those of the public reports."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from scheduler_core.backends.synthetic import SyntheticRunner
from scheduler_core.engine import Engine
from scheduler_core.errors import WorkloadError
from scheduler_core.events import BlockEvicted, BlockPublished, PrefixCacheQueried
from scheduler_core.prefix_cache import CacheNamespace, PrefixCache
from scheduler_core.request import RequestSpec
from scheduler_core.workload import parse_scenario
from tests.helpers import create_engine, create_request, events, hit_tokens, outputs, run, tokens_per_tick


def with_constant_keys(**knobs: int) -> Engine:
    """An engine in which every block has the same key."""
    engine = create_engine(**knobs)
    engine._kv.cache.key_function = lambda *_: b"\x07"
    return engine


def one_after_another(*prompts: list[int], **changes: str) -> list[RequestSpec]:
    """Requests r0, r1, ... that never overlap."""
    return [create_request(f"r{i}", p, 1, arrival=30 * i, **changes) for i, p in enumerate(prompts)]


def test_a_prompt_whose_key_collides_hits_nothing_and_says_what_it_says_alone() -> None:
    """Case 1."""
    first, second = [*range(1, 9)], [*range(11, 19)]
    specs = [
        create_request("a", first, 4),
        create_request("b", second, 4, arrival=20),
        create_request("a2", first, 4, arrival=40),
    ]
    trace = run(with_constant_keys(num_blocks=16), *specs)
    assert hit_tokens(trace) == {"a": [0], "b": [0], "a2": [4]}
    assert outputs(trace)["b"] == outputs(run(create_engine(), specs[1]))["b"]


def test_a_block_with_a_colliding_key_is_kept_beside_the_other_and_evicted_by_its_own_number() -> None:
    """Case 2."""
    a, b, c = [1, 2, 3, 4, 9], [5, 6, 7, 8, 9], [20, 21, 22, 23, 24]
    trace = run(with_constant_keys(num_blocks=3), *one_after_another(a, b, a, c, a, b))
    block_of = {e.request_id: e.block_id for e in events(trace, BlockPublished)}
    assert hit_tokens(trace) == {"r0": [0], "r1": [0], "r2": [4], "r3": [0], "r4": [4], "r5": [0]}
    # r3 (c) takes the block of r1 (b), the one used longest ago; a stays findable through it all.
    assert next((e.for_request, e.block_id) for e in events(trace, BlockEvicted)) == ("r3", block_of["r1"])
    assert events(trace, PrefixCacheQueried, "r4")[0].hit_block_ids == (block_of["r0"],)


def test_a_chain_of_keys_is_the_same_in_every_process() -> None:
    """Case 3; that another process hits what this one wrote needs a cache outside the process."""
    code = (
        "from scheduler_core.prefix_cache import *; keys = [];"
        "PrefixCache().extend_keys(keys, range(1, 13), 4, CacheNamespace('w', 'float32', 4, 'sält', 'lora'));"
        "print(b''.join(keys).hex())"
    )
    chains = set()
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        chains.add(done.stdout.strip())
    here: list[bytes] = []
    PrefixCache().extend_keys(here, range(1, 13), 4, CacheNamespace("w", "float32", 4, "sält", "lora"))
    assert len(set(here)) == 3
    assert chains == {b"".join(here).hex()}


def test_another_version_of_an_adapter_hits_nothing_and_the_first_one_hits_its_own_again() -> None:
    """Case 6: an adapter is named with its version, so new weights have a new name."""
    prompt = [*range(50, 62)]
    adapters = ("x@1", "x@2", "x@1", "x@2", "")
    specs = [create_request(f"r{i}", prompt, 1, arrival=20 * i, adapter=name) for i, name in enumerate(adapters)]
    trace = run(create_engine(), *specs)
    assert [hits for [hits] in hit_tokens(trace).values()] == [0, 0, 8, 8, 0]
    published = {e.request_id: e.block_id for e in events(trace, BlockPublished) if e.index == 0}
    again = events(trace, PrefixCacheQueried, "r2")[0]
    assert again.hit_block_ids[0] == published["r0"]


def test_equal_tokens_at_another_place_are_another_block() -> None:
    """Case 8."""
    specs = one_after_another([1, 2, 3, 4, 1, 2, 3, 4, 9], [1, 2, 3, 4, 5])
    trace = run(create_engine(), *specs)
    first, second = events(trace, BlockPublished, "r0")
    assert first.key != second.key
    assert events(trace, PrefixCacheQueried, "r1")[0].hit_block_ids == (first.block_id,)


@pytest.mark.parametrize("chunking", [True, False])
@pytest.mark.parametrize("mode", ["swap", "recompute"])
@pytest.mark.parametrize("quantum", [None, 1])
def test_a_second_run_hits_in_every_mode(chunking: bool, mode: str, quantum: int | None) -> None:
    """Case 14: a cache that never hits would pass every other test."""
    prompt = [*range(50, 59)]
    engine = create_engine(enable_chunked_prefill=chunking, chunk_size=3, preemption_mode=mode, quantum=quantum)
    assert hit_tokens(run(engine, *one_after_another(prompt, prompt))) == {"r0": [0], "r1": [8]}


def test_without_the_cache_a_prompt_is_read_chunk_by_chunk_and_nothing_is_published() -> None:
    """Case 32: the cache is switched off for a run, not for a request."""
    prompt = [*range(50, 60)]
    engine = create_engine(enable_prefix_caching=False, chunk_size=4)
    trace = run(engine, *one_after_another(prompt, prompt))
    assert [list(tick.values()) for tick in tokens_per_tick(trace) if tick] == [[4], [4], [2]] * 2
    assert events(trace, PrefixCacheQueried) == events(trace, BlockPublished) == []
    assert len(engine._kv.cache) == 0


def test_scores_of_the_prompt_cannot_be_asked_for() -> None:
    """Case 72: a cached part is not computed, so it could not be scored; the option is refused by name."""
    with pytest.raises(WorkloadError, match="no key 'prompt_logprobs'"):
        parse_scenario('title = "t"\n[[requests]]\nprompt = "hello"\nprompt_logprobs = 1\n', "scores")


def test_other_weights_make_other_keys() -> None:
    """Case 78: weights are fixed for a run; whatever outlives a run finds KV by keys that name the weights."""
    spec = create_request("a", [*range(50, 62)], 1)
    first, other, again = (
        [e.key for e in events(run(create_engine(SyntheticRunner(seed=seed)), spec), BlockPublished)]
        for seed in (0, 1, 0)
    )
    assert len(first) == len(other) == 3
    assert set(first).isdisjoint(other)
    assert first == again

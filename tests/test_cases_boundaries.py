"""Known faults of other servers, kept out: full hits, exact multiples of a block, sums of the budget."""

from __future__ import annotations

import random

import pytest

from scheduler_core.backends.synthetic import SyntheticRunner
from scheduler_core.engine import Engine
from scheduler_core.output import ModelRunnerOutput, SchedulerOutput
from scheduler_core.request import FinishReason
from tests.helpers import (
    create_engine,
    create_request,
    finish_reasons,
    hit_tokens,
    outputs,
    run,
    state,
    tokens_per_tick,
)

# Case 16 is test_scheduler.py: test_a_hit_leaves_at_least_one_token_to_compute.
# Case 36 is test_scheduler.py: test_an_answer_is_cut_at_the_context.


class WriteGuard(SyntheticRunner):
    """Looks at every block before it is written to."""

    engine: Engine
    num_writes = 0

    def execute_model(self, output: SchedulerOutput) -> ModelRunnerOutput:
        kv = self.engine._kv
        for item in output.scheduled:
            for position in range(item.start, item.end):
                block = item.block_ids[position // 4]
                assert kv.pool.refs(block) == 1, f"{item.request_id} writes to block {block}, which others hold"
                assert not kv.cache.holds(block), f"{item.request_id} writes to block {block}, which is published"
                self.num_writes += 1
        return super().execute_model(output)


@pytest.mark.parametrize("length", [7, 8, 9])
def test_nobody_writes_to_a_block_that_is_shared_or_published(length: int) -> None:
    """Case 17: y comes with the prompt on whose blocks x is still decoding."""
    guard = WriteGuard()
    guard.engine = create_engine(guard)
    prompt = [*range(50, 50 + length)]
    specs = [create_request("x", prompt, 9), create_request("y", prompt, 9, arrival=3)]
    trace = run(guard.engine, *specs)
    hit = (length - 1) // 4 * 4
    assert hit_tokens(trace)["y"] == [hit]
    shared = set(state(trace, 3, "x").block_ids) & set(state(trace, 3, "y").block_ids)
    assert len(shared) == hit // 4
    assert guard.num_writes == 2 * (length + 8) - hit
    assert outputs(trace)["x"] == outputs(trace)["y"]


def test_a_table_has_as_many_blocks_as_its_tokens_fill_at_exact_multiples_too() -> None:
    """Case 19."""
    trace = run(create_engine(), create_request("x", 3, max_tokens=8))
    seen = {}
    for tick in range(len(trace.records) - 1):
        x = state(trace, tick, "x")
        seen[x.num_computed_tokens] = (len(x.block_ids), x.num_computed_tokens - 4 * (len(x.block_ids) - 1))
    assert {n: seen[n] for n in (3, 4, 5, 8, 9)} == {3: (1, 3), 4: (1, 4), 5: (2, 1), 8: (2, 4), 9: (3, 1)}


@pytest.mark.parametrize("seeds", [range(100), range(100, 200)])
def test_the_budget_counts_what_is_computed_and_not_what_was_hit(seeds: range) -> None:
    """Case 20: five prompts of 20 tokens with hits of 0 to 16, in any order."""
    warm = [*range(500, 520)]
    for seed in seeds:
        rng = random.Random(seed)
        wanted = {f"r{hit}": hit for hit in (0, 4, 8, 12, 16)}
        specs = [
            create_request(
                name, [*warm[:hit], *range(1000 * (1 + hit), 1000 * (1 + hit) + 20 - hit)], rng.randint(1, 6)
            )
            for name, hit in wanted.items()
        ]
        rng.shuffle(specs)
        engine = create_engine(max_num_batched_tokens=16, chunk_size=8, num_blocks=64, max_num_seqs=rng.randint(1, 5))
        run(engine, create_request("warm", warm, 1))
        trace = run(engine, *specs)
        assert {name: hit_tokens(trace)[name] for name in wanted} == {name: [hit] for name, hit in wanted.items()}
        for tick in tokens_per_tick(trace):
            assert sum(tick.values()) <= 16
            assert all(1 <= tokens <= 8 for tokens in tick.values())
        assert set(finish_reasons(trace).values()) == {FinishReason.LENGTH}
        computed = {n: sum(tick.get(n, 0) for tick in tokens_per_tick(trace)) for n in wanted}
        assert computed == {s.id: 20 - wanted[s.id] + s.sampling.max_tokens - 1 for s in specs}

"""`bench cache`: hit rates of a recorded workload by size of KV memory."""

from __future__ import annotations

import json
from array import array
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_core.bench.cache import replay as replay_module
from scheduler_core.bench.cache.prompts import PromptBlocks, Prompts, prompts_of
from scheduler_core.bench.cache.replay import CacheReplay, replay
from scheduler_core.bench.cache.report import parse_sizes
from scheduler_core.errors import BenchError
from scheduler_core.sources.source import read_source
from tests.sources.commands import command
from tests.sources.files import AZURE, TRACES, conversations, hashed, needs_traces, read
from tests.test_cli import tickscope

MOONCAKE = TRACES / "mooncake"


def figures(*words: object) -> dict[str, Any]:
    done = command("bench", "cache", *words, "--json", "-")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def of_ids(*requests: list[int]) -> Prompts:
    """Prompts of four tokens for each id, of which the last one has three."""
    return [partial(PromptBlocks, array("I", ids), 1, 4, 4 * len(ids) - 1) for ids in requests]


def trace(tmp_path: Path, *requests: list[int]) -> Path:
    path = tmp_path / "trace.jsonl"
    path.write_text(hashed(*((i, 512 * len(ids), ids) for i, ids in enumerate(requests))))
    return path


@needs_traces
def test_the_conversation_trace_gives_the_figures_of_its_authors() -> None:
    sizes = "1638,3276,6553,13107,26214,unbounded"
    told = figures(MOONCAKE / "conversation_trace.jsonl", "--num-blocks", sizes)
    rates = {size["num_blocks"]: 100 * size["hit_rate"] for size in told["sizes"]}
    expected = {1_638: 5.2, 3_276: 7.3, 6_553: 15.3, 13_107: 25.0, 26_214: 33.0, None: 39.8}
    assert rates == pytest.approx(expected, abs=0.05)
    assert (told["block_size"], told["requests"], told["measured"]) == (512, 12_031, "last")
    assert told["source"]["attribution"]["licence"] == "Apache-2.0"


@needs_traces
def test_the_hit_tokens_equal_those_of_the_authors_simulator_also_where_prompts_are_longer_than_the_memory() -> None:
    expected = {1: 0, 2: 6_144, 64: 243_200, 200: 897_336, 1_638: 7_159_612, None: 31_535_563}
    prompts, _ = prompts_of(read_source(MOONCAKE / "synthetic_trace.jsonl"), None)
    results = replay(prompts, list(expected), len(prompts) // 2)
    assert {result.num_blocks: result.hit_tokens for result in results} == expected
    assert {result.query_tokens for result in results} == {36_552_394}


# A second way to count: what is kept are beginnings of prompts, each with the number of its last use.


def recount(requests: list[list[int]], num_blocks: int) -> list[int]:
    """Blocks that each request finds."""
    kept: dict[tuple[int, ...], int] = {}
    found = []
    for now, ids in enumerate(requests):
        path = [tuple(ids[: i + 1]) for i in range(len(ids))]
        hits = next((i for i, beginning in enumerate(path) if beginning not in kept), len(ids))
        found.append(hits)
        kept |= dict.fromkeys(path[:hits], now)
        for beginning in path[hits:]:
            if len(kept) == num_blocks:
                others = [other for other in kept if other not in path]
                # Nobody else is left: the rest goes through the last block that this request took.
                own = [other for other in path[hits:] if other in kept]
                if not others:
                    for other in own[-1:]:
                        del kept[other]
                    break
                del kept[min(others, key=lambda other: (kept[other], -len(other)))]
            kept[beginning] = now
    return found


TRACE = st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=8), min_size=1, max_size=25)


@given(TRACE, st.integers(1, 30))
def test_hits_equal_a_second_count_that_keeps_beginnings_of_prompts(requests: list[list[int]], size: int) -> None:
    memory = CacheReplay(size)
    prompts = [make() for make in of_ids(*requests)]
    found = [memory.serve(prompt, memory.keys(prompt)) for prompt in prompts]
    expected = recount(requests, size)
    assert found == [min(4 * blocks, 4 * len(ids) - 1) for blocks, ids in zip(expected, requests, strict=True)]
    memory._cache.check_integrity()
    memory._pool.check_integrity([])


@given(TRACE)
def test_no_memory_beats_an_unbounded_one_which_evicts_nothing(requests: list[list[int]]) -> None:
    prompts = of_ids(*requests)
    [best] = replay(prompts, [None], 0)
    assert best.evictions == 0
    assert best.blocks_used == len({tuple(ids[: i + 1]) for ids in requests for i in range(len(ids))})
    enough, *small = replay(prompts, [best.blocks_used, *range(1, 8)], 0)
    assert enough.hit_tokens == best.hit_tokens
    assert all(each.hit_tokens <= best.hit_tokens for each in small)


def test_only_the_longest_cached_beginning_counts() -> None:
    [result] = replay(of_ids([1, 2, 3], [9, 2, 3], [1, 2, 8]), [None], 0)
    assert (result.hit_tokens, result.query_tokens) == (8, 33)


def test_the_last_half_counts_or_all(tmp_path: Path) -> None:
    path = trace(tmp_path, [1, 2], [1, 2], [1, 2], [3, 4], [1, 9])
    last = figures(path, "--num-blocks", 100)
    assert (last["hit_rate"], last["hit_tokens"], last["requests_measured"]) == (0.5, 1_536, 3)
    everything = figures(path, "--num-blocks", 100, "--half", "all")
    assert (everything["hit_rate"], everything["query_tokens"]) == (0.5, 5_120)
    assert figures(path, "--num-blocks", 100, "--first", 4)["hit_rate"] == 0.5
    assert figures(path, "--num-blocks", 1)["hit_rate"] == 0


def test_a_single_size_stands_at_the_top_and_several_in_a_list(tmp_path: Path) -> None:
    path = trace(tmp_path, [1, 2], [1, 2])
    one = figures(path, "--num-blocks", 2, "--policy", "lru", "--block-size", 512)
    assert one["hit_rate"] == one["sizes"][0]["hit_rate"] == 1.0
    many = figures(path, "--num-blocks", "2, 5", "--num-blocks", "unbounded")
    assert [size["num_blocks"] for size in many["sizes"]] == [2, 5, None]
    assert "hit_rate" not in many


def test_people_get_a_table_with_the_origin_and_a_file_gets_the_figures(tmp_path: Path) -> None:
    path = trace(tmp_path, [1, 2], [1, 2])
    with path.open("a") as file:
        file.write("junk\n")
    target = tmp_path / "figures.json"
    done = tickscope("bench", "cache", path, "--num-blocks", "2,unbounded", "--json", target)
    assert done.returncode == 0
    for part in ("100.0 %", "unbounded", "Apache-2.0", "1 of 3 rows were left out", "line 3 is not valid JSON"):
        assert part in done.stdout
    assert json.loads(target.read_text())["source"]["num_bad"] == 1


def test_texts_are_compared_as_full_blocks_of_tokens() -> None:
    system = "You answer in one short sentence and never guess. "
    prompts, size = prompts_of(read(conversations([system + "Why?"], [system + "How?"])), 4)
    first, second = (make() for make in prompts)
    assert (size, first.block_size, first.num_blocks) == (4, 4, first.num_tokens // 4)
    shared = replay(prompts, [None], 0)[0].hit_tokens
    assert 0 < shared < second.num_tokens
    assert shared % 4 == 0


def test_a_later_turn_finds_the_earlier_one() -> None:
    talk = read(conversations(["one two three four five six seven", "eight"]))
    assert replay(prompts_of(talk, 1)[0], [None], 1)[0].hit_tokens > 7


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--num-blocks", "0"], "num-blocks is '0'; each must be a whole number from 1 to 1,000,000,000, or unbounded"),
        (["--num-blocks", "5,,6"], "num-blocks is ''; each must be"),
        (["--num-blocks", "many"], "num-blocks is 'many'; each must be"),
        (["--num-blocks", "5", "--policy", "fifo"], "policy is 'fifo'; it must be lru"),
        (["--num-blocks", "5", "--half", "first"], "half is 'first'; it must be last or all"),
        (["--num-blocks", "5", "--block-size", "16"], "stand for blocks of 512 tokens: leave it out, or give 512"),
        ([], "--num-blocks"),
    ],
)
def test_a_wrong_wish_is_one_line_with_value_and_remedy(tmp_path: Path, options: list[str], message: str) -> None:
    done = command("bench", "cache", trace(tmp_path, [1]), *options)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_sizes_may_be_listed_with_commas_or_one_by_one() -> None:
    assert parse_sizes(["1638, 3276", "unbounded", "5"]) == [1638, 3276, None, 5]
    for word in ("-1", "1e3", "1000000001", "\u0665", "9" * 5_000):
        with pytest.raises(BenchError, match="each must be a whole number"):
            parse_sizes([word])


def test_a_trace_of_lengths_has_nothing_to_share() -> None:
    with pytest.raises(BenchError, match="sample tells only lengths, so no two prompts have anything in common"):
        prompts_of(read(AZURE), None)


def test_a_block_size_out_of_bounds_is_told() -> None:
    with pytest.raises(BenchError, match="block-size is 0; it must be from 1 to 4,096 tokens"):
        prompts_of(read(conversations(["one"])), 0)


def test_a_memory_too_large_to_replay_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay_module, "MAX_POOL_BLOCKS", 3)
    prompts = of_ids([1, 2], [3, 4])
    with pytest.raises(
        BenchError, match=r"the trace has 4 blocks and the sizes have 4 together; at most 3 are replayed"
    ):
        replay(prompts, [None], 0)
    with pytest.raises(BenchError, match="the sizes have 5 together"):
        replay(prompts, [2, 3], 0)
    assert replay(prompts, [3], 0)[0].evictions == 1

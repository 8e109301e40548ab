"""Prompts that are made when they are read: always the same, in little memory, and as good as a tuple."""

from __future__ import annotations

import pickle
import random
import subprocess
import sys
import tracemalloc
from array import array

import pytest

from scheduler_core.sources.prompt import FIRST_TOKEN, Expansion, Literal, Prompt, Stream


def test_a_stream_is_the_same_each_time_and_in_every_process() -> None:
    here = Prompt([Stream(b"key", 40)])
    code = "from scheduler_core.sources.prompt import *; print(list(Prompt([Stream(b'key', 40)])))"
    there = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert str(list(here)) == there.strip()
    assert list(here) == list(here)


def test_the_shorter_of_two_streams_of_one_key_begins_the_longer_one() -> None:
    long = list(Prompt([Stream(b"key", 100)]))
    assert all(list(Prompt([Stream(b"key", count)])) == long[:count] for count in range(101))
    assert list(Prompt([Stream(b"other", 100)]))[:3] != long[:3]


def test_made_up_tokens_are_ordinary_words_of_the_models() -> None:
    tokens = list(Prompt([Stream(b"key", 50_000)]))
    assert FIRST_TOKEN <= min(tokens) < FIRST_TOKEN + 100
    assert FIRST_TOKEN + 2**15 - 100 < max(tokens) < FIRST_TOKEN + 2**15


@pytest.mark.parametrize("size", [1, 3, 16, 17, 512])
def test_equal_ids_make_equal_blocks_and_different_ids_different_ones(size: int) -> None:
    ids = array("Q", [5, 9, 5, 2**64 - 1])
    tokens = list(Prompt([Expansion(ids, size, 4 * size)]))
    blocks = [tokens[i * size : (i + 1) * size] for i in range(4)]
    assert blocks[0] == blocks[2]
    assert len({tuple(block) for block in blocks}) == 3
    assert list(Prompt([Expansion(ids, size, 4 * size - 1)])) == tokens[:-1]


def test_pieces_follow_each_other_after_what_was_before_and_are_cut_at_the_limit() -> None:
    first = Prompt([Literal([1, 2, 3]), Literal([4])])
    second = Prompt([Literal([5, 6])], before=first)
    assert list(second) == [1, 2, 3, 4, 5, 6]
    assert list(Prompt([], before=second, limit=5)) == [1, 2, 3, 4, 5]
    assert list(Prompt([Literal([7])], before=Prompt([], before=second, limit=2))) == [1, 2, 7]
    assert len(Prompt([], before=second, limit=50)) == 6


def test_a_prompt_may_go_back_over_more_turns_than_calls_may_be_nested() -> None:
    prompt = Prompt([Literal([0])])
    for turn in range(1, 5_000):
        prompt = Prompt([Literal([turn])], before=prompt)
    assert list(prompt) == list(range(5_000))


def test_a_prompt_equals_its_tuple_in_all_that_can_be_asked() -> None:
    prompt = Prompt([Stream(b"key", 20), Literal([7, 2**32 - 1])])
    tokens = tuple(prompt)
    assert prompt == tokens
    assert tokens == prompt
    assert prompt == Prompt([Literal(tokens)])
    assert prompt != tokens[:-1]
    assert prompt != (*tokens[:-1], 5)
    assert prompt != "text"
    assert hash(prompt) == hash(tokens)
    assert (prompt[0], prompt[-1], prompt[2:9], len(prompt)) == (tokens[0], tokens[-1], tokens[2:9], 22)
    assert pickle.loads(pickle.dumps(prompt)) == tokens
    with pytest.raises(IndexError):
        prompt[22]


def test_twenty_thousand_long_prompts_take_little_memory() -> None:
    rng = random.Random(1)
    tracemalloc.start()
    prompts = [Prompt([Stream(rng.randbytes(32), rng.randint(2_000, 5_000))]) for _ in range(20_000)]
    used = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert sum(map(len, prompts)) > 60_000_000
    assert used < 20_000_000

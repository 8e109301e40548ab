"""PrefixCache: keys, comparison, duplicates, eviction."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from scheduler_core.prefix_cache import ROOT, CacheNamespace, PrefixCache, block_key

SPACE = CacheNamespace("weights", "float32", 4, "", "")


def constant_key(parent: bytes, token_ids: object, namespace: bytes) -> bytes:
    return b"\x07"


def filled(cache: PrefixCache, tokens: list[int], first_block: int, space: CacheNamespace = SPACE) -> list[bytes]:
    """Publish every full block of `tokens` in blocks numbered from `first_block`."""
    keys: list[bytes] = []
    cache.extend_keys(keys, tokens, 4, space)
    for i, key in enumerate(keys):
        parent = first_block + i - 1 if i else None
        cache.publish(first_block + i, key, parent, tuple(tokens[4 * i : 4 * i + 4]), space)
    return keys


def hits(cache: PrefixCache, tokens: list[int], space: CacheNamespace = SPACE) -> list[int]:
    keys: list[bytes] = []
    cache.extend_keys(keys, tokens, 4, space)
    return cache.lookup(keys, tokens, 4, space, len(tokens))


def test_the_longest_published_prefix_is_found() -> None:
    cache = PrefixCache()
    filled(cache, [1, 2, 3, 4, 5, 6, 7, 8], first_block=0)
    assert hits(cache, [1, 2, 3, 4, 5, 6, 7, 8, 9]) == [0, 1]
    assert hits(cache, [1, 2, 3, 4, 5, 6, 7, 0, 9]) == [0]
    assert hits(cache, [0, 2, 3, 4, 5, 6, 7, 8]) == []


def test_equal_content_at_another_position_does_not_match() -> None:
    cache = PrefixCache()
    keys = filled(cache, [1, 2, 3, 4, 1, 2, 3, 4], first_block=0)
    assert keys[0] != keys[1]
    assert hits(cache, [1, 2, 3, 4, 5]) == [0]


def test_a_colliding_key_is_a_miss() -> None:
    cache = PrefixCache(constant_key)
    filled(cache, [1, 2, 3, 4, 5, 6, 7, 8], first_block=0)
    assert hits(cache, [11, 12, 13, 14, 15, 16, 17, 18]) == []
    assert hits(cache, [1, 2, 3, 4, 5, 6, 7, 8]) == [0, 1]
    assert hits(cache, [5, 6, 7, 8]) == [], "the parent is compared as well"


def test_an_insert_with_a_colliding_key_replaces_nothing() -> None:
    cache = PrefixCache(constant_key)
    filled(cache, [1, 2, 3, 4], first_block=0)
    filled(cache, [5, 6, 7, 8], first_block=1)
    assert hits(cache, [1, 2, 3, 4]) == [0]
    assert hits(cache, [5, 6, 7, 8]) == [1]
    assert cache.evict(1).token_ids == (5, 6, 7, 8)
    assert hits(cache, [1, 2, 3, 4]) == [0]
    cache.check_integrity()


def test_evicting_one_of_two_equal_blocks_keeps_the_other_findable() -> None:
    cache = PrefixCache()
    filled(cache, [1, 2, 3, 4], first_block=0)
    filled(cache, [1, 2, 3, 4], first_block=5)
    cache.evict(0)
    assert hits(cache, [1, 2, 3, 4]) == [5]
    cache.evict(5)
    assert hits(cache, [1, 2, 3, 4]) == []
    cache.check_integrity()


@pytest.mark.parametrize(
    "other",
    [
        SPACE._replace(weights="other"),
        SPACE._replace(dtype="bfloat16"),
        SPACE._replace(salt="tenant"),
        SPACE._replace(adapter="lora"),
    ],
)
def test_namespaces_do_not_share(other: CacheNamespace) -> None:
    cache = PrefixCache()
    filled(cache, [1, 2, 3, 4], first_block=0)
    assert hits(cache, [1, 2, 3, 4], other) == []
    assert hits(cache, [1, 2, 3, 4]) == [0]


def test_moving_a_character_between_salt_and_adapter_changes_the_key() -> None:
    a = SPACE._replace(salt="ab", adapter="c").digest()
    b = SPACE._replace(salt="a", adapter="bc").digest()
    assert a != b


def test_integrity_notices_a_key_that_does_not_match_its_tokens() -> None:
    cache = PrefixCache()
    cache.publish(0, b"wrong", None, (1, 2, 3, 4), SPACE)
    with pytest.raises(AssertionError, match="does not match"):
        cache.check_integrity()


def test_keys_are_the_same_in_every_process() -> None:
    code = "from scheduler_core.prefix_cache import *; print(block_key(ROOT, [1, 70000, 2**32 - 1], b'n').hex())"
    seen = set()
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        seen.add(done.stdout.strip())
    assert seen == {block_key(ROOT, [1, 70000, 2**32 - 1], b"n").hex()}

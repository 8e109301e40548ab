"""A stored value says which block it is; whatever was changed in it makes it unusable."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_core.backends.kv_bytes import KVBytes, KVFormat
from scheduler_core.storage.value import Unusable, decode, encode
from tests.storage.chains import chain, kv

ADDRESS = chain(3)[2]
VALUE = encode(ADDRESS, kv(ADDRESS, 40))
FORMAT = KVFormat("w", "t", "float32", 30, 3, 64, "{}", 16, "layer, key or value, slot, KV head, value")


def test_what_is_written_is_read_bit_by_bit():
    assert decode(ADDRESS, VALUE) == kv(ADDRESS, 40)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16", "uint64"])
def test_every_type_of_element_is_kept(dtype):
    width = {"float64": 8, "uint64": 8, "float32": 4}.get(dtype, 2)
    block = KVBytes(dtype, (2, 3), os.urandom(6 * width))
    assert decode(ADDRESS, encode(ADDRESS, block)) == block


def test_every_single_flipped_bit_makes_it_unusable():
    for position in range(8 * len(VALUE)):
        flipped = bytearray(VALUE)
        flipped[position // 8] ^= 1 << position % 8
        with pytest.raises(Unusable):
            decode(ADDRESS, bytes(flipped))


def test_every_truncation_makes_it_unusable():
    for length in range(len(VALUE)):
        with pytest.raises(Unusable):
            decode(ADDRESS, VALUE[:length])


@given(st.binary(max_size=400))
def test_any_bytes_are_unusable(data):
    with pytest.raises(Unusable):
        decode(ADDRESS, data)


@given(st.integers(0, len(VALUE)), st.binary(min_size=1, max_size=40))
def test_bytes_written_over_or_put_in_make_it_unusable(place, data):
    for changed in (VALUE[:place] + data + VALUE[place + len(data) :], VALUE[:place] + data + VALUE[place:]):
        if changed != VALUE:
            with pytest.raises(Unusable):
                decode(ADDRESS, changed)


@pytest.mark.parametrize(
    "change",
    [
        {"namespace": "kv1:0123456789abcdee"},
        {"key": bytes(32)},
        {"parent": b""},
        {"token_ids": (8, 9, 10, 12)},
    ],
    ids=lambda change: next(iter(change)),
)
def test_the_value_of_another_block_is_unusable_also_under_the_same_name(change):
    with pytest.raises(Unusable):
        decode(ADDRESS._replace(**change), VALUE)


@pytest.mark.parametrize("field", [field.name for field in dataclasses.fields(KVFormat)])
def test_each_fact_about_the_kv_gives_a_namespace_of_its_own(field):
    old = getattr(FORMAT, field)
    other = dataclasses.replace(FORMAT, **{field: old + (1 if isinstance(old, int) else "x")})
    assert other.namespace != FORMAT.namespace


def test_a_name_is_namespace_and_key():
    assert FORMAT.namespace[:4] == "kv1:"
    assert len(FORMAT.namespace) == 4 + 16
    assert ADDRESS.name == f"{ADDRESS.namespace}:{ADDRESS.key.hex()}"


def test_names_are_the_same_in_processes_with_other_hash_seeds():
    script = (
        "from tests.storage.test_value import FORMAT; from tests.storage.chains import chain\n"
        "print(FORMAT.namespace, [a.name for a in chain(3)])"
    )
    told = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "4242")
    }
    assert len(told) == 1

"""The same promises from every kind of store: in memory, on disk, in Redis."""

from __future__ import annotations

import os
import random
import threading

import fakeredis
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scheduler_core.storage.backing import StoreError, StoreFault
from scheduler_core.storage.block_store import Tier, TierStats
from scheduler_core.storage.guarded_lmdb import GuardedLmdb
from scheduler_core.storage.lmdb_backing import LmdbBacking
from scheduler_core.storage.memory_backing import MemoryBacking
from scheduler_core.storage.open_store import open_store
from scheduler_core.storage.redis_backing import RedisBacking
from scheduler_core.storage.stack import Stack
from scheduler_core.storage.value import encode
from tests.storage.chains import blocks, chain, kv

MIB = 1 << 20
KINDS = ["memory", "lmdb", "guarded", "redis"]


def backing(kind: str, folder, limit: int = 64 * MIB):
    if kind == "memory":
        return MemoryBacking(limit)
    if kind == "lmdb":
        return LmdbBacking(folder, limit)
    if kind == "guarded":
        return GuardedLmdb(folder, limit)
    return RedisBacking("redis://none", client=fakeredis.FakeRedis())


@pytest.fixture(params=KINDS)
def kept(request, tmp_path):
    """The backing itself, to spoil what it keeps."""
    return backing(request.param, tmp_path / "store")


@pytest.fixture
def store(kept):
    made = Tier(kept)
    yield made
    made.close()


def fill(store: Tier, addresses, size: int = 1_000) -> None:
    store.put(blocks(addresses, size))
    store.flush()


def counts(store: Tier) -> TierStats:
    [stats] = store.stats()
    return stats


def test_a_chain_is_found_from_its_first_block_on_up_to_the_first_that_is_missing(store):
    asked = chain(40)
    fill(store, asked[:20] + asked[21:])
    assert [found.kv for found in store.get(asked)] == [kv(address) for address in asked[:20]]
    assert store.get(asked[20:]) == []
    assert len(store.get(asked[21:])) == 19


def test_what_waits_to_be_written_is_found_already(tmp_path):
    class Slow(MemoryBacking):
        def write(self, items) -> None:
            go.wait(10)
            super().write(items)

    go = threading.Event()
    store = Tier(Slow(MIB))
    store.put(blocks(chain(3)))
    assert len(store.get(chain(3))) == 3
    assert store.missing(chain(4)) == chain(4)[3:]
    go.set()
    store.flush()
    assert counts(store).writes == 3
    assert len(store.get(chain(3))) == 3


def test_a_full_queue_drops_and_counts_and_never_waits():
    class Stuck(MemoryBacking):
        def write(self, items) -> None:
            go.wait(10)

    go = threading.Event()
    store = Tier(Stuck(MIB), max_pending_bytes=10_000)
    store.put(blocks(chain(4)))
    store.put(blocks(chain(2, first_token=500)))
    assert (counts(store).pending, counts(store).drops) == (2, 4)
    go.set()
    store.close()


def test_hits_queries_and_tokens_are_counted(store):
    fill(store, chain(3))
    store.get(chain(5))
    store.get(chain(2, first_token=900))
    told = counts(store)
    assert told.entries == 3
    assert (told.queries, told.hits, told.query_tokens, told.hit_tokens, told.writes) == (7, 3, 28, 12, 3)
    assert (told.errors, told.unusable, told.drops) == (0, 0, 0)


def test_clear_forgets_everything_also_what_waits(store):
    fill(store, chain(3))
    store.put(blocks(chain(3, first_token=50)))
    store.clear()
    store.flush()
    assert store.get(chain(3)) == store.get(chain(3, first_token=50)) == []


@pytest.mark.parametrize("damage", ["flipped", "cut", "empty", "of another block"])
def test_a_damaged_value_is_a_miss_that_is_counted_and_forgotten(store, kept, damage):
    asked = chain(5)
    fill(store, asked)
    [value] = kept.read([asked[2].name])
    flipped = value[:900] + bytes([value[900] ^ 4]) + value[901:]
    [other] = kept.read([asked[3].name])
    kept.write(
        [(asked[2].name, {"flipped": flipped, "cut": value[:-1], "empty": b"", "of another block": other}[damage])]
    )
    assert len(store.get(asked)) == 2
    assert counts(store).unusable == 1
    assert store.missing(asked) == [asked[2]]
    fill(store, asked[2:3])
    assert len(store.get(asked)) == 5


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(position=st.integers(0, 8 * 4_700))
def test_a_bit_flipped_anywhere_in_a_stored_value_is_never_a_hit(position, tmp_path_factory):
    asked = chain(1)
    value = encode(asked[0], kv(asked[0]))
    position %= 8 * len(value)
    flipped = bytearray(value)
    flipped[position // 8] ^= 1 << position % 8
    for kind in KINDS:
        place = backing(kind, tmp_path_factory.mktemp("store"))
        place.write([(asked[0].name, bytes(flipped))])
        store = Tier(place)
        assert store.get(asked) == []
        assert counts(store).unusable == 1
        store.close()


def test_a_place_that_fails_is_a_miss_and_a_counter_and_nothing_else():
    class Broken(MemoryBacking):
        def _fail(self, *anything):
            raise StoreFault("no disk")

        read = missing = write = discard = touch = contents = clear = _fail

    store = Tier(Broken(MIB))
    assert store.get(chain(3)) == []
    assert store.missing(chain(3)) == []
    fill(store, chain(3))
    store.clear()
    told = counts(store)
    assert told.errors >= 5
    assert (told.entries, told.drops, told.last_error) == (-1, 3, "no disk")
    store.close()


def test_a_thread_that_meets_an_error_of_ours_goes_on():
    class Odd(MemoryBacking):
        failed = False

        def write(self, items) -> None:
            if not self.failed:
                self.failed = True
                raise ZeroDivisionError("a mistake")
            super().write(items)

    store = Tier(Odd(MIB))
    fill(store, chain(2))
    fill(store, chain(2))
    assert len(store.get(chain(2))) == 2
    assert "ZeroDivisionError" in counts(store).last_error


OPERATION = st.tuples(
    st.sampled_from(["put", "get", "missing", "clear", "reopen"]), st.integers(0, 3), st.integers(0, 9)
)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(OPERATION, max_size=12))
def test_any_order_of_operations_on_disk_agrees_with_a_set_of_names(tmp_path_factory, operations):
    folder = tmp_path_factory.mktemp("store")
    store, held = Tier(LmdbBacking(folder, 4 * MIB)), set()
    for what, which, length in operations:
        asked = chain(length, first_token=1_000 * which)
        if what == "put":
            fill(store, asked, 100)
            held |= set(asked)
        elif what == "get":
            expected = [address for address in asked if address in held]
            assert [found.kv for found in store.get(asked)] == [kv(address, 100) for address in expected]
        elif what == "missing":
            assert store.missing(asked) == [address for address in asked if address not in held]
        elif what == "clear":
            store.clear()
            held.clear()
        else:
            store.close()
            store = Tier(LmdbBacking(folder, 4 * MIB))
        assert counts(store).entries == len(held)
    store.close()


def test_reading_goes_on_while_a_write_waits_for_the_disk(tmp_path, monkeypatch):
    store = Tier(LmdbBacking(tmp_path / "store", MIB))
    fill(store, chain(4))
    inside, go = threading.Event(), threading.Event()
    real = LmdbBacking._put

    def slow(self, txn, items):
        real(self, txn, items)
        inside.set()
        assert go.wait(10)

    monkeypatch.setattr(LmdbBacking, "_put", slow)
    store.put(blocks(chain(4, first_token=500)))
    assert inside.wait(10)
    assert len(store.get(chain(4))) == 4
    go.set()
    store.close()


# The limit


@pytest.mark.parametrize("kind", ["memory", "lmdb", "guarded"])
def test_over_the_limit_the_least_recently_used_go_first_and_children_before_parents(kind, tmp_path):
    store = Tier(backing(kind, tmp_path / "store", MIB))
    one, two, three = (chain(60, first_token=10_000 * i) for i in range(3))
    fill(store, one, 1_850)
    fill(store, two, 1_850)
    assert len(store.get(one)) == 60
    fill(store, three, 1_850)
    kept = {number: len(store.get(each)) for number, each in enumerate((one, two, three))}
    assert kept[0] == kept[2] == 60
    assert 0 < kept[1] < 60, "the front part of the chain that was used least is what stays of it"
    told = counts(store)
    assert told.evictions == 180 - sum(kept.values())
    assert told.num_bytes <= told.limit_bytes
    store.close()


def test_years_of_writing_stay_within_the_limit_on_disk(tmp_path):
    store = Tier(LmdbBacking(tmp_path / "store", MIB))
    rng = random.Random(3)
    for number in range(60):
        store.put(blocks(chain(20, first_token=number * 1_000), size=rng.randint(1, 9_000)))
        store.flush()
    told = counts(store)
    assert (told.errors, told.drops) == (0, 0)
    assert told.num_bytes <= MIB
    assert os.path.getsize(tmp_path / "store" / "data.mdb") <= 1.25 * MIB + 17 * MIB
    store.close()


def test_a_block_larger_than_the_whole_limit_is_dropped_and_counted(tmp_path):
    store = Tier(LmdbBacking(tmp_path / "store", MIB))
    store.put(blocks(chain(1), size=400_000))
    store.flush()
    assert (counts(store).errors, counts(store).drops, counts(store).entries) == (1, 1, 0)
    store.close()


def test_a_full_map_evicts_and_tries_again(tmp_path, monkeypatch):
    """With far less room in the map than the limit says."""
    monkeypatch.setattr("scheduler_core.storage.lmdb_backing._SPARE_BYTES", -(5 * MIB // 4) + MIB)
    store = Tier(LmdbBacking(tmp_path / "store", MIB))
    for number in range(8):
        fill(store, chain(40, first_token=number * 1_000))
        assert len(store.get(chain(40, first_token=number * 1_000))) == 40
    told = counts(store)
    assert (told.errors, told.drops) == (0, 0)
    assert told.evictions > 0
    store.close()


# The disk


def test_a_store_on_disk_is_there_after_it_was_closed(tmp_path):
    for written in (0, 20):
        store = Tier(LmdbBacking(tmp_path / "store", MIB))
        assert len(store.get(chain(20))) == written
        fill(store, chain(20))
        store.close()


def test_two_processes_share_one_folder(tmp_path):
    import subprocess
    import sys

    folder = str(tmp_path / "store")
    script = (
        "import sys; from scheduler_core.storage.open_store import open_store; from tests.storage.chains import *\n"
        "store = open_store(sys.argv[1]); store.put(blocks(chain(9))); store.close()"
    )
    store = open_store(folder)
    subprocess.run([sys.executable, "-c", script, folder], check=True)
    assert len(store.get(chain(9))) == 9
    store.close()


def test_a_process_that_was_forked_finds_nothing_and_harms_nothing(tmp_path):
    store = Tier(LmdbBacking(tmp_path / "store", MIB))
    fill(store, chain(4))
    child = os.fork()
    if child == 0:
        status = 1
        try:
            status = 0 if store.get(chain(4)) == [] and counts(store).errors else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert len(store.get(chain(4))) == 4
    store.close()


@pytest.mark.parametrize("spoil", ["cut", "half", "no lmdb", "pages"])
def test_a_spoilt_file_is_set_aside_and_the_store_begins_anew(tmp_path, spoil):
    folder = tmp_path / "store"
    store = Tier(LmdbBacking(folder, MIB))
    fill(store, chain(30))
    store.close()
    data = folder / "data.mdb"
    whole = data.read_bytes()
    pages = b"".join(whole[i : i + 16] + bytes(4080) for i in range(0, len(whole), 4096))
    spoilt = {"cut": whole[:-5_000], "half": whole[: len(whole) // 2], "no lmdb": b"hello" * 3_000, "pages": pages}
    data.write_bytes(spoilt[spoil])
    kept = LmdbBacking(folder, MIB)
    assert kept.was_damaged
    assert (folder / "data.mdb.damaged").read_bytes() == spoilt[spoil]
    store = Tier(kept)
    assert store.get(chain(30)) == []
    fill(store, chain(30))
    assert len(store.get(chain(30))) == 30
    store.close()


def test_bits_flipped_anywhere_in_the_file_never_give_a_wrong_block(tmp_path):
    folder = tmp_path / "store"
    store = Tier(LmdbBacking(folder, MIB))
    fill(store, chain(30))
    store.close()
    whole = (folder / "data.mdb").read_bytes()
    rng = random.Random(8)
    found = 0
    for number in range(12):
        changed = bytearray(whole)
        for _ in range(1 if number % 2 else 12):
            changed[rng.randrange(8_192, len(whole))] ^= 1 << rng.randrange(8)
        place = tmp_path / f"store-{number}"
        place.mkdir()
        (place / "data.mdb").write_bytes(changed)
        store = Tier(LmdbBacking(place, MIB))
        for block, address in zip(store.get(chain(30)), chain(30), strict=False):
            assert block.kv == kv(address)
            found += 1
        fill(store, chain(30, first_token=500))
        store.close()
    assert found > 30


def test_a_disk_that_is_full_is_counted_and_nothing_is_lost(tmp_path, monkeypatch):
    import lmdb

    store = Tier(LmdbBacking(tmp_path / "store", MIB))
    fill(store, chain(5))
    real = LmdbBacking._put

    def full(self, txn, items):
        raise lmdb.DiskError("mdb_txn_commit: No space left on device")

    monkeypatch.setattr(LmdbBacking, "_put", full)
    fill(store, chain(5, first_token=100))
    assert counts(store).drops == 5
    assert "No space left" in counts(store).last_error
    monkeypatch.setattr(LmdbBacking, "_put", real)
    fill(store, chain(5, first_token=100))
    assert len(store.get(chain(5))) == len(store.get(chain(5, first_token=100))) == 5
    store.close()


# Opening


@pytest.mark.parametrize(
    ("place", "options", "words"),
    [
        ("ftp://somewhere", {}, "redis://HOST:PORT"),
        ("redis://host:notaport", {}, "redis://HOST:PORT"),
        ("/proc/nowhere", {}, "name a folder that can be written to"),
        ("memory", {"limit_bytes": 5}, "5 bytes; it must be at least 1048576"),
        ("memory", {"ttl_seconds": 0}, "0 seconds; it must be at least 1"),
    ],
)
def test_a_store_that_cannot_be_opened_says_why_and_what_to_do(place, options, words):
    with pytest.raises(StoreError, match=words):
        open_store(place, **options)


def test_a_folder_may_be_open_twice_in_a_process(tmp_path):
    one, other = open_store(tmp_path / "store"), open_store(tmp_path / "store")
    fill(one, chain(5))
    assert len(other.get(chain(5))) == 5
    one.close()
    other.close()


def test_a_password_in_an_address_is_not_told():
    with pytest.raises(StoreError) as told:
        open_store("redis://user:secret@host:port")
    assert "secret" not in str(told.value)


# Two tiers


def test_two_tiers_are_asked_in_turn_and_each_is_given_what_it_lacks(tmp_path):
    near, far = Tier(LmdbBacking(tmp_path / "store", MIB)), Tier(RedisBacking("", client=fakeredis.FakeRedis()))
    both = Stack([near, far])
    asked = chain(6)
    fill(near, [asked[0], asked[1], asked[4]])
    fill(far, [asked[2], asked[3], asked[5]])
    assert [found.tier for found in both.get(asked)] == ["disk", "disk", "shared", "shared", "disk", "shared"]
    assert both.missing(asked) == asked
    both.put(blocks(asked))
    both.flush()
    assert len(near.get(asked)) == len(far.get(asked)) == 6
    assert [each.tier for each in both.stats()] == ["disk", "shared"]
    both.clear()
    assert both.get(asked) == []
    both.close()

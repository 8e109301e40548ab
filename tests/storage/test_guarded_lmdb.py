"""A store on disk whose file is damaged while it is open, and whose processes die: misses that are counted, no more."""

from __future__ import annotations

import os
import random
import signal
from pathlib import Path

import pytest

from scheduler_core.storage import guarded_lmdb
from scheduler_core.storage.backing import StoreError
from scheduler_core.storage.block_store import Tier, TierStats
from scheduler_core.storage.guarded_lmdb import MAX_DEATHS, GuardedLmdb
from tests.storage.chains import blocks, chain, kv

MIB = 1 << 20
_PAGE = 4096
CHAINS = range(0, 20_000, 1_000)


def opened(folder: Path) -> tuple[Tier, GuardedLmdb]:
    """A store with 120 blocks in it."""
    backing = GuardedLmdb(folder, 8 * MIB)
    store = Tier(backing)
    for first in CHAINS:
        store.put(blocks(chain(6, first), size=300))
    store.flush()
    return store, backing


def counts(store: Tier) -> TierStats:
    [stats] = store.stats()
    return stats


def found(store: Tier, first: int) -> int:
    """Blocks of a chain that are there; every one is the one that was stored."""
    asked = chain(6, first)
    got = store.get(asked)
    assert [block.kv for block in got] == [kv(address, 300) for address in asked[: len(got)]]
    return len(got)


def damage(folder: Path, how: str, rng: random.Random) -> None:
    """Change the file under whoever has it open."""
    path = folder / "data.mdb"
    pages = path.stat().st_size // _PAGE
    with path.open("r+b") as file:
        if how == "cut":
            file.truncate(2 * _PAGE)
            return
        amount = {"bits": 40, "headers": 40, "zero": 8, "noise": 8}[how]
        for page in rng.choices(range(2, pages), k=amount) if pages > 2 else ():
            at = page * _PAGE + rng.randrange(_PAGE if how == "bits" else 64 if how == "headers" else 1)
            file.seek(at)
            file.write({"zero": bytes(_PAGE), "noise": rng.randbytes(_PAGE)}.get(how, rng.randbytes(1)))


@pytest.mark.parametrize("how", ["bits", "headers", "zero", "noise", "cut"])
def test_a_file_damaged_while_it_is_open_gives_misses_and_a_store_that_goes_on(tmp_path: Path, how: str) -> None:
    folder, rng = tmp_path / "store", random.Random(5)
    store, _ = opened(folder)
    for turn in range(2):
        damage(folder, how, rng)
        for first in CHAINS:
            found(store, first)
        for first in range(30_000 + turn, 33_000, 1_000):
            store.put(blocks(chain(6, first), size=300))
        store.flush()
    # A batch may have met the damage; the one after that finds a store in order.
    store.put(blocks(chain(6, 50_000), size=300))
    store.flush()
    store.put(blocks(chain(6, 60_000), size=300))
    store.flush()
    assert found(store, 60_000) == 6
    store.close()


def test_a_process_that_dies_of_a_page_that_is_gone_is_told_and_the_file_set_aside(tmp_path: Path) -> None:
    store, backing = opened(tmp_path / "store")
    damage(tmp_path / "store", "cut", random.Random(0))
    assert [found(store, first) for first in CHAINS] == [0] * len(CHAINS)
    told = counts(store)
    assert (told.errors, told.entries) == (1, 0)
    assert "died of SIGBUS, as the folder is damaged; the store was begun anew" in told.last_error
    assert backing.was_damaged
    assert (tmp_path / "store" / "data.mdb.damaged").is_file()
    store.put(blocks(chain(6), size=300))
    store.flush()
    assert found(store, 0) == 6
    store.close()


@pytest.mark.parametrize("who", ["_reader", "_writer"])
def test_a_process_that_somebody_kills_is_replaced_and_nothing_is_lost(tmp_path: Path, who: str) -> None:
    store, backing = opened(tmp_path / "store")
    process = getattr(backing, who).process
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    found(store, 0)
    store.put(blocks(chain(6, 70_000), size=300))
    store.flush()
    store.put(blocks(chain(6, 80_000), size=300))
    store.flush()
    assert [found(store, first) for first in (*CHAINS, 80_000)] == [6] * (len(CHAINS) + 1)
    assert counts(store).errors == 1
    assert "died of SIGKILL; another one begins" in counts(store).last_error
    store.close()


def test_a_process_that_does_not_answer_is_ended(tmp_path: Path) -> None:
    store, backing = opened(tmp_path / "store")
    process = backing._reader.process
    assert process is not None
    os.kill(process.pid, signal.SIGSTOP)
    backing._reader.patience = 0.3
    assert found(store, 0) == 0
    backing._reader.patience = guarded_lmdb.READ_SECONDS
    assert "did not answer" in counts(store).last_error
    assert found(store, 0) == 6
    store.close()


def test_a_hit_does_not_wait_for_who_writes(tmp_path: Path) -> None:
    store, backing = opened(tmp_path / "store")
    process = backing._writer.process
    assert process is not None
    os.kill(process.pid, signal.SIGSTOP)
    backing._writer.patience = 0.2
    assert found(store, 0) == 6
    assert counts(store).errors == 0
    os.kill(process.pid, signal.SIGCONT)
    backing._writer.patience = guarded_lmdb.WRITE_SECONDS
    store.close()


def test_what_was_used_last_is_known_after_it_was_closed(tmp_path: Path) -> None:
    store, _ = opened(tmp_path / "store")
    store.close()
    again = Tier(GuardedLmdb(tmp_path / "store", 8 * MIB))
    assert found(again, 0) == 6
    again.close()
    small = Tier(GuardedLmdb(tmp_path / "store", MIB))
    for first in range(90_000, 120_000, 1_000):
        small.put(blocks(chain(6, first), size=300))
        small.flush()
    assert [found(small, first) > 0 for first in (0, 1_000)] == [True, False]
    small.close()


def test_after_many_deaths_within_an_hour_the_store_is_closed_for_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, backing = opened(tmp_path / "store")
    for _ in range(MAX_DEATHS):
        found(store, 0)
        process = backing._reader.process
        if process is not None:
            process.kill()
            process.wait()
        assert found(store, 0) == 0
    assert found(store, 0) == 0
    assert f"its processes died {MAX_DEATHS} times" in counts(store).last_error
    monkeypatch.setattr(guarded_lmdb, "DEATHS_SECONDS", 0.0)
    assert found(store, 0) == 6
    store.close()


def test_a_process_that_was_forked_finds_nothing_and_harms_nothing(tmp_path: Path) -> None:
    store, _ = opened(tmp_path / "store")
    child = os.fork()
    if child == 0:
        status = 1
        try:
            status = 0 if store.get(chain(6)) == [] and counts(store).errors else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert found(store, 0) == 6
    store.close()


def test_a_folder_that_cannot_be_opened_is_refused_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="name a folder that can be written to"):
        GuardedLmdb("/proc/nowhere", MIB)


def test_its_processes_end_with_the_store(tmp_path: Path) -> None:
    store, backing = opened(tmp_path / "store")
    processes = [backing._reader.process, backing._writer.process]
    store.close()
    assert [process.returncode for process in processes if process is not None] == [0, 0]

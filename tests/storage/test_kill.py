"""Processes that are killed while they write: what they leave is whole, and a restart hits what it hit before."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from scheduler_core.storage.open_store import open_store
from tests.storage.chains import chain, kv

WRITE_FOR_EVER = """
import itertools, sys
from scheduler_core.storage.open_store import open_store
from tests.storage.chains import blocks, chain
store = open_store(sys.argv[1], limit_bytes=64 << 20)
for number in itertools.count():
    store.put(blocks(chain(6, first_token=1_000 * number), size=20_000))
    store.flush()
    print(number, flush=True)
"""

SERVE = """
import json, sys
from scheduler_core.events import LowerTierQueried
from scheduler_core.storage.open_store import open_store
from tests.helpers import create_request, events, outputs
from tests.storage.test_engine_with_store import engine
store = open_store(sys.argv[1])
made = engine(store)
for number in range(6):
    made.add_request(create_request(f"r{number}", [*range(100, 121), number], 4, float(8 * number)))
trace = made.run()
store.flush()
hits = sum(event.hit_tokens for event in events(trace, LowerTierQueried))
print(json.dumps([outputs(trace), hits]), flush=True)
if len(sys.argv) > 2:
    sys.stdin.read()
store.close()
"""


FILL_A_FULL_DISK = """
import json, resource, sys
from scheduler_core.storage.block_store import Tier
from scheduler_core.storage.lmdb_backing import LmdbBacking
from tests.storage.chains import blocks, chain, kv
store = Tier(LmdbBacking(sys.argv[1], 64 << 20))
store.put(blocks(chain(6), size=20_000))
store.flush()
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
for number in range(1, 8):
    store.put(blocks(chain(6, first_token=1_000 * number), size=20_000))
    store.flush()
found = [len(store.get(chain(6, first_token=1_000 * number))) for number in range(8)]
whole = all(block.kv == kv(address, 20_000) for block, address in zip(store.get(chain(6)), chain(6)))
[told] = store.stats()
print(json.dumps([found, whole, told.drops, told.errors, told.last_error]))
store.close()
"""


def start(script: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", script, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.getcwd()},
    )


@pytest.mark.parametrize("delay", [0.0, 0.013, 0.05, 0.09])
def test_killed_while_writing_every_block_that_is_there_is_whole(tmp_path: Path, delay: float):
    folder = str(tmp_path / "store")
    process = start(WRITE_FOR_EVER, folder)
    assert process.stdout is not None
    for _ in range(5):
        last = int(process.stdout.readline())
    time.sleep(delay)
    process.send_signal(signal.SIGKILL)
    told = process.communicate()[0].split()
    last = int(told[-1]) if told else last
    store = open_store(folder, limit_bytes=64 << 20)
    for number in range(last + 1):
        asked = chain(6, first_token=1_000 * number)
        assert [found.kv for found in store.get(asked)] == [kv(address, 20_000) for address in asked]
    [stats] = store.stats()
    assert (stats.unusable, stats.errors) == (0, 0)
    asked = chain(6, first_token=1_000 * (last + 1))
    assert len(store.get(asked)) in (0, 6), "a write is there as a whole or not at all"
    store.close()


def test_where_the_system_gives_no_more_room_writes_are_dropped_and_counted_and_what_is_there_stays(tmp_path: Path):
    folder = str(tmp_path / "store")
    process = start(FILL_A_FULL_DISK, folder)
    found, whole, drops, errors, last_error = json.loads(process.communicate()[0])
    assert process.returncode == 0
    assert (found[0], whole) == (6, True)
    assert 6 * found.count(0) == drops > 0
    assert set(found) == {0, 6}
    assert errors == found.count(0)
    assert "too large" in last_error
    store = open_store(folder, limit_bytes=64 << 20)
    assert [len(store.get(chain(6, first_token=1_000 * number))) for number in range(8)] == found
    store.close()


def test_texts_and_hits_after_a_kill_are_those_of_a_clean_restart(tmp_path: Path):
    def serve(folder: str, kill: bool) -> list[object]:
        process = start(SERVE, str(tmp_path / folder), *(["wait"] if kill else []))
        assert process.stdout is not None
        line = process.stdout.readline()
        if kill:
            process.send_signal(signal.SIGKILL)
        process.communicate()
        told: list[object] = json.loads(line)
        return told

    cold, clean = serve("one", kill=False), serve("one", kill=False)
    assert serve("two", kill=True) == cold
    assert serve("two", kill=True) == clean
    assert serve("two", kill=False) == clean
    assert clean[0] == cold[0]
    assert cold[1] == 0
    assert clean[1] == 20

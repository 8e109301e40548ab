"""Files that visitors bring: good ones open, bad ones are told in one line, and nothing is read past its bound."""

from __future__ import annotations

import dataclasses
import gzip
import json
import random
import zlib
from pathlib import Path
from typing import Any

import pytest

from pages.components.imported import (
    ENDINGS,
    MAX_FILE_MEGABYTES,
    MAX_REQUESTS,
    MAX_TICKS,
    MAX_UNPACKED_BYTES,
    MEGABYTE,
    ImportedRequests,
    ImportedRun,
    ImportProblem,
    check_size,
    read_file,
)
from pages.components.own_requests import OwnRequest
from pages.components.picture.palette import LIGHT
from pages.components.picture.scene import Scenes
from pages.components.picture.stage_picture import StagePicture
from pages.components.player_payload import payload
from pages.components.settings import Limits
from scheduler_core.metrics import events_table
from scheduler_core.trace import SCHEMA_VERSION, Trace
from scheduler_core.workload import SCENARIO_FOLDER, list_scenarios
from tests.helpers import create_engine, create_request, random_workload, run

TRACES = Path(__file__).resolve().parents[2] / "assets" / "traces"
LIMITS = Limits()


def a_trace(**knobs: Any) -> Trace:
    return run(create_engine(**knobs), create_request("R1"), create_request("R2"))


def plain(trace: Trace) -> dict[str, Any]:
    return json.loads(trace.to_json())


def refused(name: str, data: bytes, limits: Limits = LIMITS) -> str:
    with pytest.raises(ImportProblem) as caught:
        read_file(name, data, limits)
    told = str(caught.value)
    assert "\n" not in told
    assert name in told
    assert told.endswith("What stood here before stays.")
    return told


@pytest.mark.parametrize("path", sorted(TRACES.glob("*.json.gz")), ids=lambda path: path.name)
def test_every_recording_opens_as_itself(path: Path):
    found = read_file(path.name, path.read_bytes(), LIMITS)
    assert isinstance(found, ImportedRun)
    assert found.trace == Trace.load(path)


@pytest.mark.parametrize("seed", range(20))
def test_what_is_exported_opens_again_packed_or_not(seed: int):
    trace = random_workload(seed).run()
    packed = read_file("run.json.gz", trace.to_bytes(), LIMITS)
    loose = read_file("run.json", trace.to_json().encode(), LIMITS)
    assert isinstance(packed, ImportedRun)
    assert isinstance(loose, ImportedRun)
    assert packed.trace == loose.trace == trace
    assert packed.digest == loose.digest


def test_two_runs_have_two_digests():
    one, two = (read_file("a.json", a_trace(max_num_seqs=lanes).to_bytes(), LIMITS) for lanes in (1, 2))
    assert isinstance(one, ImportedRun)
    assert isinstance(two, ImportedRun)
    assert one.digest != two.digest


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("a.json", b"", "it is empty"),
        ("a.json", b"  \n", "it is empty"),
        ("a.json", b"hello", "not valid JSON"),
        ("a.json", b"\xff\xfe\x00", "not valid JSON"),
        ("a.json", b"[1, 2]", "no schema_version"),
        ("a.json", b'{"traceEvents": []}', "not a Tickscope trace"),
        ("a.json", b"[" * 200_000, "not valid JSON"),
        ("a.json.gz", gzip.compress(b"hello", mtime=0)[:12], "cut off"),
        ("a.json.gz", b"\x1f\x8b\x08\x00garbage here", "gzip is damaged"),
        ("a.json.gz", a_trace().to_bytes()[:-40], "cut off"),
        ("a.json.gz", gzip.compress(b"not json", mtime=0), "not valid JSON"),
        ("a.toml", b"= nonsense", "not valid TOML"),
        ("a.toml", b'title = "x"\xff', "not UTF-8"),
        ("a.toml", b'title = "x"', "at least one [[requests]]"),
        ("a.toml", b"nonsense = 1", "no key 'nonsense'"),
    ],
)
def test_what_is_damaged_or_foreign_is_told(name: str, data: bytes, said: str):
    assert said in refused(name, data)


def test_another_version_is_told_with_both_numbers():
    other = plain(a_trace()) | {"schema_version": 99}
    told = refused("old.json", json.dumps(other).encode())
    assert "99" in told
    assert f"version {SCHEMA_VERSION}" in told


def test_a_run_without_ticks_is_told():
    empty = dataclasses.replace(a_trace(), records=())
    assert "no tick" in refused("empty.json.gz", empty.to_bytes())


def test_a_run_of_aggregates_is_told():
    full = a_trace()
    records = tuple(dataclasses.replace(record, snapshot=None) for record in full.records)
    assert "summary" in refused("summary.json.gz", dataclasses.replace(full, records=records).to_bytes())


def test_a_file_past_the_limit_is_refused_before_it_is_read():
    check_size(MAX_FILE_MEGABYTES * MEGABYTE)
    with pytest.raises(ImportProblem, match=f"at most {MAX_FILE_MEGABYTES} MiB"):
        check_size(MAX_FILE_MEGABYTES * MEGABYTE + 1)


def test_a_bomb_is_unpacked_no_further_than_allowed():
    packer = zlib.compressobj(9, wbits=31)
    bomb = (
        b"".join(packer.compress(bytes(MEGABYTE)) for _ in range(MAX_UNPACKED_BYTES // MEGABYTE + 2)) + packer.flush()
    )
    assert len(bomb) < MEGABYTE
    assert f"more than {MAX_UNPACKED_BYTES // MEGABYTE} MiB" in refused("bomb.json.gz", bomb)


def test_more_ticks_or_requests_than_are_shown_are_told(monkeypatch: pytest.MonkeyPatch):
    data = a_trace().to_bytes()
    monkeypatch.setattr("pages.components.imported.MAX_TICKS", 2)
    assert "at most 2 are shown" in refused("long.json", data)
    monkeypatch.setattr("pages.components.imported.MAX_TICKS", MAX_TICKS)
    monkeypatch.setattr("pages.components.imported.MAX_REQUESTS", 1)
    assert "2 requests; at most 1" in refused("many.json", data)
    assert MAX_REQUESTS >= 64


@pytest.mark.parametrize(
    ("knobs", "said"),
    [
        ({"num_blocks": 5_000}, "KV blocks is 5,000"),
        ({"max_num_seqs": 65, "max_num_batched_tokens": 99}, "Lanes is 65"),
    ],
)
def test_settings_past_the_page_are_told_with_their_bounds(knobs: dict[str, int], said: str):
    assert said in refused("big.json", a_trace(**knobs).to_bytes())


def test_a_clock_that_is_not_known_is_told():
    other = plain(a_trace())
    other["config"]["cost"] = "moon"
    assert "moon" in refused("a.json", json.dumps(other).encode())


def test_the_run_of_64_requests_over_a_thousand_ticks_opens():
    engine = create_engine(num_blocks=64, max_num_seqs=8, max_num_batched_tokens=24, max_model_len=256, quantum=4)
    for number in range(64):
        engine.add_request(create_request(f"R{number}", prompt=list(range(20)), max_tokens=160))
    trace = engine.run(1_000)
    assert len(trace.records) == 1_000
    data = trace.to_bytes()
    check_size(len(data))
    found = read_file("big.json.gz", data, LIMITS)
    assert isinstance(found, ImportedRun)
    assert payload(found.trace)["ticks"] == 1_000


def damaged(source: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    """The same with a value or two replaced, dropped or doubled."""
    copy = json.loads(json.dumps(source))
    values = [-1, 0, 1, 7, 10**6, 2**40, 2.5, "", "R1", "nobody", None, True, [], {}]
    for _ in range(rng.choice((1, 1, 2))):
        place: Any = copy
        while True:
            keys = list(place) if isinstance(place, dict) else list(range(len(place)))
            key = rng.choice(keys)
            inner = place[key]
            if isinstance(inner, dict | list) and inner and rng.random() < 0.9:
                place = inner
                continue
            if isinstance(place, list) and rng.random() < 0.2:
                place.append(inner)
            else:
                place[key] = rng.choice(values)
            break
    return copy


@pytest.mark.parametrize("seed", range(8))
def test_a_damaged_run_is_refused_or_can_be_shown(seed: int):
    rng = random.Random(seed)
    source = plain(random_workload(seed).run(60))
    opened = 0
    for _ in range(60):
        try:
            found = read_file("a.json", json.dumps(damaged(source, rng)).encode(), LIMITS)
        except ImportProblem:
            continue
        assert isinstance(found, ImportedRun)
        opened += 1
        payload(found.trace)
        events_table(found.trace)
        scenes = Scenes(found.trace)
        StagePicture(scenes, LIGHT).svg(len(scenes) - 1)
    assert opened < 60


@pytest.mark.parametrize("name", list_scenarios())
def test_a_scenario_opens_as_requests_of_one_s_own(name: str):
    found = read_file(f"{name}.toml", (SCENARIO_FOLDER / f"{name}.toml").read_bytes(), LIMITS)
    assert isinstance(found, ImportedRequests)
    assert found.requests
    assert all(isinstance(request, OwnRequest) for request in found.requests)


def test_what_own_requests_cannot_say_is_told():
    text = """
title = "Mine"
[config]
quantum = "none"
num_blocks = 32
[[requests]]
id = "A"
prompt = "Hello"
arrival_time = 2.6
salt = "s"
temperature = 0.5
"""
    found = read_file("mine.toml", text.encode(), LIMITS)
    assert isinstance(found, ImportedRequests)
    assert found.requests == (OwnRequest("A", "Hello", 16, 0, 3),)
    assert found.overrides == {"quantum": None, "num_blocks": 32}
    assert len(found.notes) == 2
    assert "temperature, salt" in found.notes[0]
    assert "2.6" in found.notes[1]


def test_a_scenario_past_the_site_s_limits_is_told():
    text = 'title = "x"\n[[requests]]\nprompt = "hi"\nmax_tokens = 900\n'
    assert "from 1 to 256" in refused("a.toml", text.encode())
    assert "at most 1 at once" in refused(
        "b.toml", b'title = "x"\n[[requests]]\nprompt = "a"\n[[requests]]\nprompt = "b"\n', Limits(max_requests=1)
    )


def test_the_endings_are_those_that_are_read():
    assert set(ENDINGS) == {"json", "gz", "toml"}

"""A recorded run: round trips, and what happens to one that is damaged, cut, foreign or from the future."""

from __future__ import annotations

import contextlib
import dataclasses
import gzip
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_core import trace as trace_module
from scheduler_core.engine import Engine
from scheduler_core.errors import TickscopeError, TraceError
from scheduler_core.events import EVENT_TYPES, ConfigChanged
from scheduler_core.explain import explain, why_not
from scheduler_core.metrics import events_table, request_metrics, series, text_of, totals, waiting_by_cause
from scheduler_core.narration import narrate_tick
from scheduler_core.trace import Trace
from tests.helpers import create_engine, create_request, random_workload, run
from tests.trace_builders import spec, tick
from tests.trace_builders import trace as build


def example() -> Trace:
    """A run with a preemption, a hit and a change of settings."""
    engine = create_engine(max_num_seqs=1, quantum=2, num_blocks=12)
    engine.add_request(create_request("A", list(range(100, 112)), max_tokens=5))
    engine.add_request(create_request("B", list(range(100, 112)), max_tokens=3))
    engine.step()
    engine.reconfigure(engine.config.replace(quantum=1))
    return engine.run()


EXAMPLE = example()
PLAIN: dict[str, Any] = json.loads(EXAMPLE.to_json())


def refusal(data: str | bytes) -> str:
    """The message with which `data` is refused."""
    with pytest.raises(TraceError) as problem:
        Trace.from_bytes(data.encode() if isinstance(data, str) else data)
    return str(problem.value)


def edited(*path: Any, value: Any) -> str:
    """The example with one value replaced."""
    plain = json.loads(EXAMPLE.to_json())
    place = plain
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return json.dumps(plain)


# Round trips


@pytest.mark.parametrize("seed", range(40))
def test_a_trace_survives_json_and_gzip(seed: int):
    made = random_workload(seed).run()
    assert Trace.from_json(made.to_json()) == made
    assert Trace.from_bytes(made.to_bytes()) == made


def test_a_summary_survives_too():
    full = create_engine()
    made = run(Engine(full.config, full._runner, record="summary"), create_request("A"))
    assert Trace.from_bytes(made.to_bytes()) == made


def test_the_same_trace_gives_the_same_bytes():
    assert example().to_bytes() == EXAMPLE.to_bytes()


@given(st.text(st.characters(), min_size=1))
def test_any_title_prompt_and_id_survive(text: str):
    made = build([dataclasses.replace(spec("A"), id=text, prompt=text)], tick(0))
    made = dataclasses.replace(made, title=text, scenario=text)
    assert Trace.from_bytes(made.to_bytes()) == made


def test_a_file_is_read_back(tmp_path: Path):
    EXAMPLE.save(tmp_path / "run.json.gz")
    assert Trace.load(tmp_path / "run.json.gz") == EXAMPLE
    (tmp_path / "plain.json").write_text(EXAMPLE.to_json())
    assert Trace.load(str(tmp_path / "plain.json")) == EXAMPLE


def test_every_kind_of_event_survives():
    made = [random_workload(seed).run() for seed in range(40)] + [EXAMPLE]
    seen = {type(event).__name__ for one in made for record in one.records for event in record.events}
    elsewhere = {"FaultInjected", "FaultSwitchedOn", "LawBroken", "RequestRefused", "ChunkSteered", "LowerTierQueried"}
    assert seen >= set(EVENT_TYPES) - elsewhere


# Refusals


def test_a_future_version_is_named_with_ours():
    assert "schema version 99; this program reads version 1" in refusal(edited("schema_version", value=99))


@pytest.mark.parametrize(
    "data", ["", "{", "[1, 2", "nonsense", b"\xff\xfe\x00", "[" * 100_000, "1" * 5_000, '"\\ud800', b"\x80abc"]
)
def test_what_is_no_json_is_refused(data: str | bytes):
    assert "not valid JSON" in refusal(data)


@pytest.mark.parametrize("data", ["[]", "null", "3", '"text"', "{}", '{"records": []}', '{"schema_version": 1}'])
def test_foreign_json_is_refused(data: str):
    assert "not a Tickscope trace" in refusal(data)


def test_a_truncated_file_is_refused_wherever_it_was_cut():
    data = EXAMPLE.to_bytes()
    for length in range(2, len(data), 7):
        assert "truncated" in refusal(data[:length]) or "damaged" in refusal(data[:length])


def test_a_flipped_byte_is_noticed():
    data = EXAMPLE.to_bytes()
    rng = random.Random(0)
    for place in rng.sample(range(10, len(data)), 150):
        flipped = bytearray(data)
        flipped[place] ^= 1 << rng.randrange(8)
        try:
            assert Trace.from_bytes(bytes(flipped)) == EXAMPLE
        except TraceError:
            continue


def test_a_gzip_bomb_is_refused_before_it_unpacks(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(trace_module, "MAX_TRACE_BYTES", 10_000)
    message = refusal(gzip.compress(b" " * 10_001))
    assert "unpacks to more than 10000 bytes" in message
    assert "not valid JSON" in refusal(gzip.compress(b" " * 10_000))


def test_a_file_that_is_not_there_or_a_folder_is_named(tmp_path: Path):
    with pytest.raises(TraceError, match=r"cannot read .*missing\.json: No such file"):
        Trace.load(tmp_path / "missing.json")
    with pytest.raises(TraceError, match=r"cannot read .*: Is a directory"):
        Trace.load(tmp_path)


def test_a_damaged_file_is_named(tmp_path: Path):
    (tmp_path / "bad.json").write_text("{}")
    with pytest.raises(TraceError, match=r"bad\.json: this is not a Tickscope trace"):
        Trace.load(tmp_path / "bad.json")


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (["surprise"], 1, "unknown name 'surprise'"),
        (["config", "quantum_leap"], 8, ".config: unknown name 'quantum_leap'"),
        (["config", "quantum"], 0, ".config: quantum is 0; it must be a whole number from 1"),
        (["config", "policy"], "lottery", "policy is 'lottery'"),
        (["records", 0, "events", 0, "type"], "RequestSang", ".records[0].events[0]: unknown type 'RequestSang'"),
        (["records", 0, "start"], "0", ".records[0].start: '0' is not a number"),
        (["records", 1, "tick"], 7, "record 1 says tick 7"),
        (["records", 1, "start"], 0.5, "the times of tick 1 go backwards"),
        (["records", 1, "end"], 0.5, "the times of tick 1 go backwards"),
        (["records", 0, "wall_seconds"], -1.0, "the times of tick 0 go backwards"),
        (["records", 0, "snapshot", "running"], ["Z"], "tick 0 has a request in no place, or in two"),
        (["records", 0, "snapshot", "waiting"], ["A", "B"], "tick 0 has a request in no place, or in two"),
        (["records", 0, "snapshot", "free_blocks"], [12], "tick 0 has a block outside 0 to 11"),
        (["records", 0, "snapshot", "free_blocks"], [-1], "tick 0 has a block outside 0 to 11"),
        (["records", 0, "output", "scheduled", 0, "request_id"], "Z", "tick 0 names 'Z', which was never sent"),
        (["records", 0, "output", "scheduled", 0, "token_ids"], [], "tick 0 has an impossible chunk of 'A'"),
        (["records", 0, "output", "scheduled", 0, "start"], -1, "tick 0 has an impossible chunk of 'A'"),
        (["records", 0, "output", "scheduled", 0, "start"], 10**9, "tick 0 has an impossible chunk of 'A'"),
        (["records", 0, "events", 0, "request_id"], "Z", "tick 0 names 'Z', which was never sent"),
        (["requests", 1, "id"], "A", "two requests have the same id"),
        (["requests", 0, "prompt_token_ids"], [1, 2], "tick 0 has another prompt of 'A'"),
        (["requests", 0, "prompt_token_ids"], [], "request 'A' has an empty prompt"),
        (["requests", 0, "arrival_time"], float("nan"), "nan is not a number"),
        (["token_texts"], {"one": "x"}, ".token_texts"),
    ],
)
def test_damage_is_refused_with_its_place(path: list[Any], value: Any, message: str):
    text = refusal(edited(*path, value=value))
    assert "damaged" in text
    assert message in text


def place_of(kind: str) -> tuple[int, int]:
    """(record, event) of the first event of that kind in the example."""
    for number, record in enumerate(PLAIN["records"]):
        for index, event in enumerate(record["events"]):
            if event["type"] == kind:
                return number, index
    raise AssertionError(f"the example has no {kind}")


def test_an_impossible_change_of_settings_is_refused():
    number, index = place_of("ConfigChanged")
    for change in (["quantum", "2", "0"], ["quantum", "2", "many"], ["wings", "0", "2"]):
        message = refusal(edited("records", number, "events", index, "changes", value=[change]))
        assert f"the settings of tick {number} are impossible" in message


def test_a_skip_without_its_numbers_is_refused():
    number, index = place_of("RequestSkipped")
    message = refusal(edited("records", number, "events", index, "numbers", value=[]))
    assert "does not say why 'B' was skipped" in message


# What is not refused can be shown


def nodes(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every value within a JSON value, but the value itself."""
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, member in members:
        yield (*path, key)
        yield from nodes(member, (*path, key))


JUNK = (None, True, -1, 0, 1, 10**6, 10**400, 1.5, float("nan"), "", "A", "B", "zzz", [], {}, [1], {"type": []})


def damage(text: str, rng: random.Random) -> str:
    """`text` with one value removed, doubled, shifted by one, or replaced by junk."""
    plain = json.loads(text)
    path = rng.choice(list(nodes(plain)))
    place = plain
    for step in path[:-1]:
        place = place[step]
    last, how = path[-1], rng.random()
    if how < 0.25:
        del place[last]
    elif how < 0.35 and isinstance(place, list):
        place.insert(last, place[last])
    elif how < 0.5 and isinstance(place[last], int | float):
        place[last] += rng.choice([-1, 1])
    else:
        place[last] = rng.choice(JUNK)
    return json.dumps(plain)


def show_all(made: Trace) -> None:
    """Every view of every tick."""
    for view in (request_metrics, totals, series, waiting_by_cause, events_table):
        view(made)
    for request in made.requests:
        text_of(made, request.id)
        for record in made.records:
            explain(made, record.tick, request.id)
            why_not(made, record.tick, request.id)
    for record in made.records:
        narrate_tick(made, record.tick)


@pytest.mark.parametrize("seed", range(30))
def test_a_damaged_trace_is_refused_or_can_be_shown(seed: int):
    text = EXAMPLE.to_json()
    rng = random.Random(seed)
    for _ in range(20):
        with contextlib.suppress(TickscopeError):
            show_all(Trace.from_json(damage(text, rng)))


# Looking things up


def test_settings_hold_from_the_tick_of_their_change():
    assert [EXAMPLE.config_at(number).quantum for number in (0, 1, 2)] == [2, 1, 1]
    assert isinstance(EXAMPLE.records[1].events[0], ConfigChanged)


def test_a_request_is_found_by_its_id():
    assert EXAMPLE.request("B").id == "B"
    with pytest.raises(KeyError):
        EXAMPLE.request("Z")


def test_an_idle_tick_is_one_without_tokens():
    made = run(create_engine(), create_request("A", max_tokens=1, arrival=3.0))
    assert [record.is_idle for record in made.records] == [True, False]

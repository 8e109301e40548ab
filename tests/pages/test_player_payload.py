"""The payload of the stage says what the trace says, in little room."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from pages.components.player_payload import MAX_SENTENCES, VERSION, pack, pack_levels, pack_ramps, payload
from scheduler_core.backends.synthetic import SyntheticRunner
from scheduler_core.config import EngineConfig
from scheduler_core.engine import Engine
from scheduler_core.events import RequestAdmitted, TokenSampled
from scheduler_core.narration import narrate_tick
from scheduler_core.request import RequestSpec, RequestStatus, SamplingParams
from scheduler_core.storage.open_store import open_store
from scheduler_core.trace import RequestSnapshot, Trace
from scheduler_core.workload import list_scenarios, load_scenario
from tests.helpers import create_engine, create_request, events, run

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
WHERE = {1: RequestStatus.WAITING, 2: RequestStatus.RUNNING, 3: RequestStatus.PREEMPTED, 4: RequestStatus.FINISHED}


def unpack(text: str) -> list[int]:
    numbers, number, shift = [], 0, 0
    for letter in text:
        digit = LETTERS.index(letter)
        number += (digit & 31) << shift
        shift += 5
        if digit < 32:
            numbers.append(number)
            number, shift = 0, 0
    return numbers


def levels(text: str) -> list[int]:
    runs = unpack(text)
    return [value for value, length in zip(runs[::2], runs[1::2], strict=True) for _ in range(length)]


def ramps(text: str) -> list[int]:
    total, values = 0, []
    for step in levels(text):
        total += -(step + 1) // 2 if step % 2 else step // 2
        values.append(total)
    return values


def lists(text: str, length: int) -> list[list[int]]:
    """What changes now and then, at each tick."""
    numbers, found, now, at, tick = unpack(text), [], [], 0, 0
    changes = {}
    while at < len(numbers):
        tick += numbers[at]
        changes[tick] = numbers[at + 2 : at + 2 + numbers[at + 1]]
        at += 2 + numbers[at + 1]
    for tick in range(length):
        now = changes.get(tick, now)
        found.append(now)
    return found


def tables(text: str, length: int) -> list[tuple[int, ...]]:
    numbers, at, tick, table = unpack(text), 0, 0, ()
    changes: dict[int, tuple[int, ...]] = {}
    while at < len(numbers):
        tick += numbers[at]
        keep, more = numbers[at + 1], numbers[at + 2]
        table = (*table[:keep], *numbers[at + 3 : at + 3 + more])
        changes[tick] = table
        at += 3 + more
    found, now = [], ()
    for tick in range(length):
        now = changes.get(tick, now)
        found.append(now)
    return found


def contended(**knobs: object) -> Trace:
    """Eight requests of which many share a prefix, on two lanes and little memory."""
    engine = create_engine(
        **{"quantum": 3, "num_blocks": 24, "max_num_seqs": 2, "max_num_batched_tokens": 12, "chunk_size": 8} | knobs
    )
    shared = list(range(500, 512))
    specs = [
        create_request(f"R{i}", [*shared[: 12 if i % 2 else 4], *range(1000 * i, 1000 * i + 5 + i)], 6, float(2 * i))
        for i in range(8)
    ]
    return run(engine, *specs)


def snapshots(trace: Trace) -> list[tuple[int, RequestSnapshot]]:
    return [(r.tick, s) for r in trace.records if r.snapshot for s in r.snapshot.requests]


@pytest.fixture(scope="module")
def trace() -> Trace:
    return contended()


@pytest.mark.parametrize("numbers", [[], [0], [31, 32, 33], [5, 10**6, 0, 2**53 - 1]])
def test_numbers_come_back_from_letters(numbers: list[int]) -> None:
    assert unpack(pack(numbers)) == numbers


@pytest.mark.parametrize("values", [[], [4], [0, 0, 0, 7, 7, 1], list(range(50)), [5, 4, 3, 900, 0]])
def test_columns_come_back_from_runs(values: list[int]) -> None:
    assert levels(pack_levels(values)) == values
    assert ramps(pack_ramps(values)) == values


def test_a_value_that_stands_still_for_500_ticks_costs_three_letters() -> None:
    assert len(pack_levels([7] * 500)) == 3
    assert len(pack_ramps(list(range(500)))) < 8


def test_every_request_is_where_the_snapshot_has_it(trace: Trace) -> None:
    data = payload(trace)
    index = {spec.id: i for i, spec in enumerate(trace.requests)}
    where = [levels(text) for text in data["where"]]
    assert {s.status for _, s in snapshots(trace)} == set(WHERE.values())
    for tick, state in snapshots(trace):
        assert WHERE[where[index[state.id]][tick]] is state.status


@pytest.mark.parametrize(
    ("column", "field"),
    [
        ("slice", "slice_used"),
        ("saved", "saved_tokens"),
        ("class", "key_class"),
        ("waited", "waited_ticks"),
        ("preemptions", "num_preemptions"),
        ("computed", "num_computed_tokens"),
    ],
)
def test_a_column_equals_the_snapshots(trace: Trace, column: str, field: str) -> None:
    decode = ramps if column in ("waited", "computed") else levels
    values = {spec.id: decode(text) for spec, text in zip(trace.requests, payload(trace)[column], strict=True)}
    for tick, state in snapshots(trace):
        if field == "num_computed_tokens" and state.status is RequestStatus.FINISHED:
            continue
        assert values[state.id][tick] == getattr(state, field), (tick, state.id)


def test_a_finished_request_keeps_its_last_numbers(trace: Trace) -> None:
    data = payload(trace)
    for column in (levels(text) for text in data["where"]):
        assert column[-1] == 4
        assert 4 not in column[: column.index(4)]
        assert set(column[column.index(4) :]) == {4}


def test_batch_and_chunks_equal_the_output_of_each_tick(trace: Trace) -> None:
    data = payload(trace)
    index = {spec.id: i for i, spec in enumerate(trace.requests)}
    scheduled = [levels(text) for text in data["scheduled"]]
    batches = lists(data["batch"], len(trace.records))
    for record in trace.records:
        assert batches[record.tick] == [index[item.request_id] for item in record.output.scheduled]
        assert sum(column[record.tick] // 2 for column in scheduled) == record.output.num_scheduled_tokens
        for item in record.output.scheduled:
            assert scheduled[index[item.request_id]][record.tick] == 2 * item.num_tokens + item.is_decode


def test_queue_and_lanes_keep_the_order_of_the_snapshot(trace: Trace) -> None:
    data = payload(trace)
    queue, running = lists(data["queue"], len(trace.records)), lists(data["running"], len(trace.records))
    names = [spec.id for spec in trace.requests]
    for record in trace.records:
        assert record.snapshot is not None
        assert [names[i] for i in queue[record.tick]] == list(record.snapshot.waiting)
        assert [names[i] for i in running[record.tick]] == list(record.snapshot.running)


def test_block_tables_and_published_blocks_equal_the_snapshot(trace: Trace) -> None:
    data = payload(trace)
    length = len(trace.records)
    decoded = {spec.id: tables(text, length) for spec, text in zip(trace.requests, data["tables"], strict=True)}
    toggled = unpack(data["published"])
    published: dict[int, set[int]] = {}
    at, tick, now = 0, 0, set[int]()
    while at < len(toggled):
        tick += toggled[at]
        now = now ^ set(toggled[at + 2 : at + 2 + toggled[at + 1]])
        published[tick] = now
        at += 2 + toggled[at + 1]
    now = set()
    for record in trace.records:
        assert record.snapshot is not None
        now = published.get(record.tick, now)
        assert now == set(record.snapshot.published_blocks)
        for state in record.snapshot.requests:
            assert decoded[state.id][record.tick] == state.block_ids


def test_hits_stand_while_the_request_is_in_its_lane(trace: Trace) -> None:
    hits = {spec.id: levels(text) for spec, text in zip(trace.requests, payload(trace)["hit"], strict=True)}
    admitted = [(r.tick, e) for r in trace.records for e in r.events if isinstance(e, RequestAdmitted)]
    assert any(event.hit_tokens for _, event in admitted)
    for tick, event in admitted:
        assert hits[event.request_id][tick] == event.hit_tokens


def test_text_and_ticks_of_every_token_travel(trace: Trace) -> None:
    for spec, facts in zip(trace.requests, payload(trace)["requests"], strict=True):
        drawn = events(trace, TokenSampled, spec.id)
        assert facts["pieces"] == [event.text for event in drawn]
        assert len(unpack(facts["samples"])) == len(drawn)


def test_sentences_are_those_of_the_narration(trace: Trace) -> None:
    data = payload(trace)
    told, at = unpack(data["told"]), 0
    for record in trace.records:
        sentences = narrate_tick(trace, record.tick)
        total, shown = told[at], told[at + 1]
        lines = [data["lines"][i] for i in told[at + 2 : at + 2 + shown]]
        at += 2 + shown
        assert total == len(sentences)
        assert [(lead, text) for _, _, lead, text in lines] == [(s.lead, s.text) for s in sentences[:MAX_SENTENCES]]


def test_settings_changed_on_the_way_are_drawn_from_their_tick_on() -> None:
    engine = create_engine(quantum=4, max_num_seqs=2, max_num_batched_tokens=16)
    engine.add_request(create_request("R1", 8, 12))
    for _ in range(3):
        engine.step()
    engine.reconfigure(engine.config.replace(quantum=2))
    data = payload(engine.run())
    assert [(tick, settings["quantum"]) for tick, settings in data["settings"]] == [(0, 4), (3, 2)]


def test_a_refused_request_has_ended_where_it_arrived() -> None:
    trace = run(create_engine(num_blocks=4), create_request("R1", 4, 2), create_request("R2", 100, 20))
    assert set(levels(payload(trace)["where"][1])) == {4}


def test_the_payload_is_a_function_of_the_trace() -> None:
    one, other = contended(), contended()
    assert payload(one) == payload(other)
    assert payload(one) != payload(contended(quantum=None))


def test_the_run_so_far_is_a_prefix_of_the_run(trace: Trace) -> None:
    part = payload(replace(trace, records=trace.records[:10]))
    whole = payload(trace)
    for column in ("where", "scheduled", "slice"):
        assert [levels(text) for text in part[column]] == [levels(text)[:10] for text in whole[column]]


def test_a_run_without_ticks_can_be_shown(trace: Trace) -> None:
    data = payload(replace(trace, records=()))
    assert data["ticks"] == 0
    assert len(data["requests"]) == len(trace.requests)


def test_a_summary_says_why_it_cannot_be_played(trace: Trace) -> None:
    data = payload(replace(trace, records=tuple(replace(record, snapshot=None) for record in trace.records)))
    assert data == {"v": VERSION, "message": "This run was recorded as a summary, so there are no ticks to play."}


def test_hostile_words_travel_unharmed_as_data() -> None:
    words = '</script><script>alert(1)</script> \ud800 \u0000 "quotes" \u202e'
    data = payload(run(create_engine(), replace(create_request("R1", 4, 2), prompt=words)))
    assert json.loads(json.dumps(data))["requests"][0]["words"] == words


@pytest.mark.parametrize("name", list_scenarios())
def test_a_shipped_scenario_takes_less_than_100_kilobytes(name: str) -> None:
    scenario, runner = load_scenario(name), SyntheticRunner()
    trace = run(Engine(scenario.config, runner), *scenario.specs(runner))
    assert len(json.dumps(payload(trace))) < 100_000


def test_64_requests_1000_ticks_and_256_blocks_take_at_most_a_megabyte() -> None:
    engine = create_engine(
        block_size=16, num_blocks=256, max_model_len=1024, max_num_seqs=16, max_num_batched_tokens=64, quantum=8
    )
    for i in range(64):
        prompt = [*range(64), *range(10_000 * i + 100, 10_000 * i + 140 + 3 * i)]
        engine.add_request(create_request(f"R{i}", prompt, 60 + 4 * (i % 40), float(8 * i)))
    trace = engine.run(max_ticks=1000)
    size = len(json.dumps(payload(trace)))
    print(f"payload of 64 requests, {len(trace.records)} ticks, 256 blocks: {size:,} bytes")
    assert len(trace.records) >= 900
    assert size <= 1_000_000


def test_what_came_from_below_memory_has_its_own_column_mark_and_tier():
    store = open_store("memory")
    made = []
    for _ in range(2):
        engine = Engine(EngineConfig(block_size=4), SyntheticRunner(), store=store)
        engine.add_request(RequestSpec("a", tuple(range(20, 37)), SamplingParams(3)))
        made.append(payload(engine.run()))
    cold, warm = made
    assert (cold["tiers"], levels(cold["low"][0])) == ([], [0] * cold["ticks"])
    assert (warm["tiers"], levels(warm["low"][0])) == (["memory"], [16] * warm["ticks"])
    assert set(levels(warm["hit"][0])) == {0}
    marks = unpack(warm["events"])
    assert [0, 11, 1, 16] in [marks[i : i + 4] for i in range(0, len(marks), 4)]

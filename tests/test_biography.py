"""The biography of a block: told on small runs, and recounted from snapshots and whole prefixes on random ones."""

from __future__ import annotations

import dataclasses
from collections import Counter
from pathlib import Path

import pytest

from scheduler_core.biography import Fact, FactKind, biography
from scheduler_core.errors import TraceError
from scheduler_core.events import (
    BlockEvicted,
    BlockPublished,
    BlocksAllocated,
    BlocksFreed,
    PrefixCacheQueried,
    TokenSampled,
)
from scheduler_core.trace import Trace
from scheduler_core.workload import list_scenarios
from tests.helpers import create_engine, create_request, random_workload, run

TRACES = Path(__file__).resolve().parents[1] / "assets" / "traces"
SEEDS = range(3_000, 3_120)


@pytest.fixture(scope="module")
def runs() -> list[tuple[Trace, list[tuple[Fact, ...]]]]:
    """Random and recorded runs with the biographies of all their blocks."""
    traces = [random_workload(seed).run() for seed in SEEDS]
    traces += [Trace.load(TRACES / f"{name}.json.gz") for name in list_scenarios()]
    return [(trace, [biography(trace, b) for b in range(trace.config.num_blocks)]) for trace in traces]


def facts_of(trace: Trace, kind: FactKind) -> list[tuple[int, Fact]]:
    blocks = range(trace.config.num_blocks)
    return [(b, fact) for b in blocks for fact in biography(trace, b) if fact.kind is kind]


def told(trace: Trace, block_id: int) -> list[tuple[int, FactKind, str]]:
    return [(fact.tick, fact.kind, fact.request_id) for fact in biography(trace, block_id)]


# On random runs


def test_who_holds_a_block_by_its_facts_is_who_holds_it_in_every_snapshot(runs):
    for trace, lives in runs:
        for block_id, life in enumerate(lives):
            holders, left = set(), list(life)
            for record in trace.records:
                while left and left[0].tick == record.tick:
                    fact = left.pop(0)
                    if fact.kind in (FactKind.BORN, FactKind.HIT):
                        holders.add(fact.request_id)
                    if fact.kind is FactKind.FREED:
                        holders.discard(fact.request_id)
                assert holders == {r.id for r in record.snapshot.requests if block_id in r.block_ids}
            assert not left


def test_a_block_is_findable_from_its_publication_to_its_eviction(runs):
    for trace, lives in runs:
        for block_id, life in enumerate(lives):
            for record in trace.records:
                known = [f.kind for f in life if f.tick <= record.tick]
                known = [kind for kind in known if kind in (FactKind.PUBLISHED, FactKind.EVICTED)]
                is_findable = bool(known) and known[-1] is FactKind.PUBLISHED
                assert is_findable == (block_id in record.snapshot.published_blocks)


def test_every_event_about_a_block_is_told_once_and_nothing_else(runs):
    for trace, lives in runs:
        expected = Counter()
        for record in trace.records:
            for event in record.events:
                match event:
                    case BlocksAllocated():
                        expected.update((b, FactKind.BORN) for b in event.block_ids)
                    case PrefixCacheQueried():
                        expected.update((b, FactKind.HIT) for b in event.hit_block_ids)
                    case BlocksFreed():
                        expected.update((b, FactKind.FREED) for b in event.block_ids)
                    case BlockPublished():
                        expected[event.block_id, FactKind.PUBLISHED] += 1
                    case BlockEvicted():
                        expected[event.block_id, FactKind.EVICTED] += 1
        found = Counter((b, f.kind) for b, life in enumerate(lives) for f in life if f.kind is not FactKind.MISSED)
        assert found == expected


def too_late(trace: Trace) -> Counter[tuple[int, int, str]]:
    """(Block, tick, request) for every lookup of a lost content, recounted with whole prefixes as contents."""
    size = trace.config.block_size
    specs = {s.id: s for s in trace.requests}
    text = {s.id: list(s.prompt_token_ids) for s in trace.requests}
    holds: dict[int, tuple] = {}
    lost: list[tuple[int, tuple]] = []
    found: Counter[tuple[int, int, str]] = Counter()

    def content(who: str, index: int) -> tuple:
        return specs[who].salt, specs[who].adapter, *text[who][: (index + 1) * size]

    for record in trace.records:
        for event in record.events:
            match event:
                case TokenSampled():
                    text[event.request_id].append(event.token_id)
                case BlockPublished():
                    holds[event.block_id] = content(event.request_id, event.index)
                    lost = [(b, c) for b, c in lost if c != holds[event.block_id]]
                case BlockEvicted():
                    lost.append((event.block_id, holds.pop(event.block_id)))
                case PrefixCacheQueried():
                    who = event.request_id
                    assert event.query_tokens == len(text[who])
                    for index in range(len(event.hit_block_ids), (event.query_tokens - 1) // size):
                        wanted = content(who, index)
                        found.update((b, record.tick, who) for b, c in lost if c == wanted)
    return found


def test_a_content_asked_for_too_late_is_what_a_recount_with_whole_prefixes_finds(runs):
    total = 0
    for trace, lives in runs:
        missed = [(b, f.tick, f.request_id) for b, life in enumerate(lives) for f in life if f.kind is FactKind.MISSED]
        assert Counter(missed) == too_late(trace)
        total += len(missed)
    assert total > 200


def test_the_facts_stand_in_order_and_are_sentences(runs):
    for _, lives in runs:
        for life in lives:
            assert [f.tick for f in life] == sorted(f.tick for f in life)
            assert all(f.text.endswith(".") and f.request_id in f.text for f in life)
            assert not life or life[0].kind is FactKind.BORN


# One story after the other


def test_a_block_is_taken_published_found_and_let_go():
    prompt = [1, 2, 3, 4, 5]
    made = run(create_engine(), create_request("A", prompt, 2), create_request("B", prompt, 2, arrival=1))
    assert told(made, 0) == [
        (0, FactKind.BORN, "A"),
        (0, FactKind.PUBLISHED, "A"),
        (1, FactKind.HIT, "B"),
        (1, FactKind.FREED, "A"),
        (2, FactKind.FREED, "B"),
    ]
    texts = [fact.text for fact in biography(made, 0)]
    assert texts[0] == "A took it for positions 0 to 3 of its sequence."
    assert texts[2] == "B found it in the cache; it shares it with A."
    assert texts[3] == "A let go of it. B still holds it."
    assert texts[4] == "B let go of it. Nobody holds it now, but what is in it can still be found."


def test_the_publication_tells_the_tokens_and_the_key():
    made = run(create_engine(), create_request("A", [1, 2, 3, 4, 5], 2))
    fact = facts_of(made, FactKind.PUBLISHED)[0][1]
    published = next(e for e in made.records[0].events if isinstance(e, BlockPublished))
    said = "".join(made.token_texts[t] for t in (1, 2, 3, 4))
    assert fact.key == published.key
    assert said[:20] in fact.text


def one_after_the_other() -> Trace:
    """A fills the memory, B takes it, A2 wants what A had."""
    prompt = list(range(1, 13))
    return run(
        create_engine(num_blocks=4, max_num_seqs=1, max_model_len=16),
        create_request("A", prompt, 2),
        create_request("B", 14, 2, arrival=3),
        create_request("A2", prompt, 2, arrival=6),
    )


def test_who_comes_after_the_eviction_is_too_late():
    made = one_after_the_other()
    missed = facts_of(made, FactKind.MISSED)
    assert {fact.request_id for _, fact in missed} == {"A2"}
    first = min((fact for _, fact in missed), key=lambda fact: len(fact.text))
    gone = next(f.tick for f in biography(made, missed[0][0]) if f.kind is FactKind.EVICTED)
    assert first.text == f"A2 asked for what it had held, {first.tick - gone} ticks after it was gone."


def test_a_block_behind_one_that_is_gone_says_so():
    texts = [fact.text for _, fact in facts_of(one_after_the_other(), FactKind.MISSED)]
    assert sum(text.endswith("A block before it was gone as well.") for text in texts) == len(texts) - 1 > 0


def test_the_eviction_names_for_whom():
    evicted = facts_of(one_after_the_other(), FactKind.EVICTED)
    assert evicted[0][1].request_id == "B"
    assert evicted[0][1].text == "B needed room. What the block held can no longer be found in it."
    assert evicted[0][1].key


def test_another_salt_is_not_too_late_but_another_content():
    prompt = list(range(1, 13))
    made = run(
        create_engine(num_blocks=4, max_num_seqs=1, max_model_len=16),
        create_request("A", prompt, 2),
        create_request("B", 14, 2, arrival=3),
        create_request("A2", prompt, 2, arrival=6, salt="tenant"),
    )
    assert facts_of(made, FactKind.MISSED) == []


def test_a_block_that_was_never_taken_has_no_biography():
    assert biography(run(create_engine(), create_request("A", 4, 2)), 31) == ()


@pytest.mark.parametrize("block_id", [-1, 32])
def test_a_block_that_is_not_there_is_refused_with_the_bounds(block_id: int):
    made = run(create_engine(), create_request("A", 4, 2))
    with pytest.raises(TraceError, match=f"there is no block {block_id}; this run has blocks 0 to 31"):
        biography(made, block_id)


def test_a_run_of_aggregates_is_refused():
    made = run(create_engine(), create_request("A"))
    bare = dataclasses.replace(made, records=tuple(dataclasses.replace(r, snapshot=None) for r in made.records))
    with pytest.raises(TraceError, match="aggregates"):
        biography(bare, 0)

"""What happened, in sentences: exact words on traces made by hand, laws on random runs."""

from __future__ import annotations

import re
import typing

import pytest

from scheduler_core.config import EngineConfig
from scheduler_core.engine import Engine
from scheduler_core.errors import TraceError
from scheduler_core.events import (
    EVENT_TYPES,
    BlockEvicted,
    BlockPublished,
    BlocksAllocated,
    BlocksFreed,
    ChunkSteered,
    ConfigChanged,
    Event,
    FaultInjected,
    FaultSwitchedOn,
    LawBroken,
    LowerTierQueried,
    PreemptReason,
    PrefixCacheQueried,
    RequestAdmitted,
    RequestArrived,
    RequestFinished,
    RequestPreempted,
    RequestRefused,
    RequestRestored,
    RequestScheduled,
    RequestSkipped,
    SkipReason,
    SliceExpired,
    SteerReason,
    TokenSampled,
)
from scheduler_core.laws import Law
from scheduler_core.narration import Sentence, narrate, narrate_tick
from scheduler_core.output import TokenProb
from scheduler_core.request import FinishReason, RequestStatus
from scheduler_core.sentence import KINDS
from scheduler_core.trace import TickRecord, Trace
from tests.helpers import create_engine, create_request, random_workload
from tests.trace_builders import decode, item, sampled, snapshot, spec, state, tick, trace

SLICE_END = RequestPreempted("R3", PreemptReason.SLICE, "swap", "R5", 96, 0, 6, 4_404_019, 8)

#: One example of every event, and what is said of it.
EXAMPLES: list[tuple[Event, str]] = [
    (RequestArrived("R5", 96, 32, 0), "R5 arrived. Its prompt has 96 tokens; it may generate 32."),
    (
        RequestRefused("R5", "prompt and answer may need 70 blocks; there are 64", ()),
        "R5 was refused. Prompt and answer may need 70 blocks; there are 64.",
    ),
    (
        PrefixCacheQueried("R5", 96, 48, (1, 2, 3), False),
        "R5 took 48 of its 96 tokens from the cache. 3 blocks are attached; only 48 are left to compute.",
    ),
    (
        PrefixCacheQueried("R5", 96, 16, (1,), True),
        "R5 found 16 of its 96 tokens still in the cache. 1 block is attached again, so less has to be computed twice.",
    ),
    (PrefixCacheQueried("R5", 96, 0, (), False), "R5 found nothing in the cache. It asked for 96 tokens."),
    (
        RequestAdmitted("R5", 0, 6, 14, 9, False),
        "R5 was admitted. It needs 6 new blocks; 14 were free, 9 are promised to running requests.",
    ),
    (RequestAdmitted("R5", 0, 1, 1, 0, True), "R5 came back to a lane. It needs 1 new block; 1 was free."),
    (RequestScheduled("R5", 40, 1, 0, True), "R5 was given 1 token. It decodes at position 40."),
    (
        RequestScheduled("R5", 32, 32, 16, False),
        "R5 was given 32 tokens. It computes positions 32 to 63, 16 of them for the second time.",
    ),
    (
        RequestSkipped("R5", SkipReason.BUDGET, (("budget", 64), ("budget_left", 0))),
        "R5 has to wait. The budget of 64 tokens has 0 left.",
    ),
    (
        RequestSkipped("R5", SkipReason.LANES, (("lanes", 4), ("lanes_used", 4))),
        "R5 has to wait. All 4 lanes are taken.",
    ),
    (
        RequestSkipped("R5", SkipReason.LANES, (("lanes", 1), ("lanes_used", 1))),
        "R5 has to wait. The only lane is taken.",
    ),
    (
        RequestSkipped(
            "R5",
            SkipReason.MEMORY,
            (("blocks_needed", 6), ("blocks_free", 14), ("blocks_promised", 9), ("watermark", 0)),
        ),
        "R5 has to wait. It needs 6 blocks; 14 are free, 9 are promised to running requests: 5 are left.",
    ),
    (
        RequestSkipped("R5", SkipReason.BATCH_CLOSED, (("running", 2),)),
        "R5 has to wait. The batch is closed until both requests in it have finished.",
    ),
    (
        RequestSkipped("R5", SkipReason.PREEMPTED_FOR_MEMORY, (("preempted", 1),)),
        "R5 has to wait. Memory ran short in this tick (1 request had to leave), so nobody is let in.",
    ),
    (
        RequestSkipped("R5", SkipReason.JUST_PREEMPTED, ()),
        "R5 has to wait. A request that was preempted in this very tick stands before it and comes back in the next.",
    ),
    (
        RequestSkipped("R5", SkipReason.TURN, (("for_prompts", 1),)),
        "R5 has to wait. Batches are not mixed, and this tick is for prompts; the next is for answers.",
    ),
    (
        RequestSkipped("R5", SkipReason.FINISHING, (("finishing", 1),)),
        "R5 has to wait. 1 request finishes in this tick and so makes room; nobody is pushed out.",
    ),
    (
        SliceExpired("R3", 8),
        "R3 has used up its slice of 8 ticks. It runs on until somebody else needs the room.",
    ),
    (
        SLICE_END,
        "R3 was preempted. Its slice of 8 ticks ended while R5 was waiting. "
        "96 tokens of KV (6 blocks, 4.2 MiB) were saved to the host.",
    ),
    (
        RequestPreempted("R3", PreemptReason.MEMORY, "recompute", "R1", 0, 40, 0, 0, 2),
        "R3 was preempted. R1 needed more blocks than were free; R3 ranked last of those running. "
        "Its 40 tokens of KV were dropped and will be computed again, unless the prefix cache still holds them; "
        "its text is kept.",
    ),
    (
        RequestPreempted("R3", PreemptReason.MEMORY, "recompute", "R3", 0, 0, 0, 0, 2),
        "R3 was preempted. It needed more blocks than were free, and no running request ranked behind it. "
        "It had computed nothing yet, so nothing was lost.",
    ),
    (
        RequestPreempted("R3", PreemptReason.PUSH_OUT, "swap", "R5", 16, 0, 1, 1024, 2),
        "R3 was preempted. R5 was waiting and needed the room. "
        "16 tokens of KV (1 block, 1.0 KiB) were saved to the host.",
    ),
    (
        RequestPreempted("R3", PreemptReason.LANES, "swap", "R3", 16, 0, 1, 0, 2),
        "R3 was preempted. The settings changed: only 4 lanes are left, and it ranked last. "
        "16 tokens of KV (1 block) were saved to the host.",
    ),
    (
        RequestRestored("R3", 32, 64, 4, 2_949_120),
        "R3 came back. 32 tokens of KV were still in the cache and "
        "64 tokens (4 blocks, 2.8 MiB) were copied back from the host.",
    ),
    (
        LowerTierQueried("R3", "disk", 96, 64, 0, 4, (1, 2, 3, 4), 2_949_120, 0.0074, False),
        "R3 took 64 tokens from the cache on disk. Memory lacked 96 tokens; 4 blocks (2.8 MiB) were loaded, in 7.4 ms.",
    ),
    (
        LowerTierQueried("R3", "shared", 16, 16, 2, 1, (5,), 0, 0.0, True),
        "R3 took 16 tokens from the cache shared by all replicas. Memory lacked 16 tokens, computed before its "
        "preemption; 1 block was loaded.",
    ),
    (
        LowerTierQueried("R3", "disk", 16, 0, 2, 0, (), 0, 0.0, False),
        "R3 found nothing on disk. It asked for 16 tokens that memory did not have.",
    ),
    (BlocksAllocated("R3", (4, 7)), "R3 took 2 blocks. Blocks 4, 7."),
    (
        BlockPublished(4, "00ff", "", "R3", 0),
        "Block 4 of R3 can be shared now. It is full: number 0 of its sequence, key 00ff.",
    ),
    (
        BlockEvicted(4, "00ff", "R5"),
        "R5 took 1 block that was kept for reuse. What it held can no longer be found there.",
    ),
    (BlocksFreed("R3", (4,)), "R3 let go of 1 block. Block 4."),
    (
        TokenSampled("R1", 2, 9, " Paris", (TokenProb(9, " Paris", 0.873), TokenProb(3, " the", 0.05))),
        "R1 generated “Paris”. It is output token number 3. Its probability was 87%.",
    ),
    (
        RequestFinished("R1", FinishReason.STOP, ""),
        "R1 finished. It ended its text after 3 tokens, 1 second after it arrived.",
    ),
    (
        RequestFinished("R2", FinishReason.LENGTH, ""),
        "R2 finished. It reached its limit of 4 tokens, 1 second after it arrived.",
    ),
    (RequestFinished("R1", FinishReason.ABORT, ""), "R1 was aborted. It had generated 3 tokens."),
    (
        RequestFinished("R1", FinishReason.ERROR, "the model failed"),
        "R1 failed. The model failed. It had generated 3 tokens.",
    ),
    (RequestFinished("R5", FinishReason.REJECTED, "too long"), "R5 never ran. It was refused."),
    (
        ConfigChanged((("quantum", "8", "none"), ("chunk_size", "32", "16"))),
        "Settings changed. quantum from 8 to none; chunk_size from 32 to 16.",
    ),
    (
        ChunkSteered("chunk_size", 32, 20, 0.04, 0.062, -0.022, SteerReason.TOO_SLOW),
        "The chunk size shrinks from 32 to 20 tokens. The tick took 62 ms; the target is 40 ms.",
    ),
    (
        ChunkSteered("max_num_batched_tokens", 20, 24, 0.04, 0.03, 0.01, SteerReason.FASTER_THAN_NEEDED),
        "The token budget grows from 20 to 24 tokens. The tick took 30 ms; the target is 40 ms.",
    ),
    (
        ChunkSteered("chunk_size", 20, 20, 0.04, 0.041, -0.001, SteerReason.ON_TARGET),
        "The chunk size stays at 20 tokens. The tick took 41 ms, near enough: the target is 40 ms.",
    ),
    (
        ChunkSteered("chunk_size", 16, 16, 0.01, 0.03, -0.02, SteerReason.AT_LOWEST),
        "The chunk size stays at 16 tokens. The target cannot be kept: the tick took 30 ms with the smallest size, "
        "16 tokens; the target is 10 ms.",
    ),
    (
        ChunkSteered("chunk_size", 32, 32, 0.09, 0.04, 0.05, SteerReason.AT_HIGHEST),
        "The chunk size stays at 32 tokens. It is as large as the settings allow: the tick took 40 ms; the target is "
        "90 ms.",
    ),
    (
        ChunkSteered("chunk_size", 20, 20, 0.04, 0.02, 0.02, SteerReason.NOTHING_TO_CUT),
        "The chunk size stays at 20 tokens. Another size would not have changed this tick: the tick took 20 ms; the "
        "target is 40 ms.",
    ),
    (
        ChunkSteered("chunk_size", 20, 20, 0.04, 0.0, 0.0, SteerReason.NOT_MEASURED),
        "The chunk size stays at 20 tokens. This tick has no time to go by; the target is 40 ms.",
    ),
    (
        ChunkSteered("chunk_size", 16, 32, 0.0, 0.04, 0.0, SteerReason.RAMP),
        "The chunk size grows from 16 to 32 tokens. A ramp measures nothing: it grows while prompts are read, and "
        "begins anew after that.",
    ),
    (
        FaultInjected("copy_out", "R3", "no space; its KV will be computed again"),
        "Copy_out failed for R3. No space; its KV will be computed again.",
    ),
    (
        FaultSwitchedOn("compare_no_tokens", "Nobody compares tokens."),
        "A mistake is built into this run. Nobody compares tokens.",
    ),
    (
        LawBroken(Law.COMPUTED, "block 3 of R1 is empty"),
        "A law is broken, and the run stops. A block that can be found has been computed. But block 3 of R1 is empty.",
    ),
]


def told(event: Event) -> Trace:
    """A trace of one tick with that event, in which R1 has 3 output tokens, R2 4, and all have arrived at 0."""
    snap = snapshot(state("R1", num_tokens=11), state("R2", num_tokens=12))
    return trace([spec(f"R{i}") for i in range(8)], tick(0, events=[event], snap=snap))


@pytest.mark.parametrize(("event", "words"), EXAMPLES)
def test_every_event_is_told_in_exact_words(event: Event, words: str):
    assert narrate(event, told(event), 0).whole == words


def test_there_is_an_example_for_every_event_and_every_reason():
    examples = [event for event, _ in EXAMPLES]
    assert {type(event).__name__ for event in examples} == set(EVENT_TYPES)
    assert {e.reason for e in examples if isinstance(e, RequestSkipped)} == set(SkipReason)
    assert {e.reason for e in examples if isinstance(e, ChunkSteered)} == set(SteerReason)
    assert {e.reason for e in examples if isinstance(e, RequestPreempted)} == set(PreemptReason)
    assert {e.reason for e in examples if isinstance(e, RequestFinished)} == set(FinishReason)


def test_an_event_that_narration_does_not_know_is_an_error():
    class RequestSang:
        request_id = "R1"

    with pytest.raises(AssertionError, match="RequestSang"):
        narrate(typing.cast(Event, RequestSang()), told(SLICE_END), 0)


def test_a_better_class_is_named_with_both_classes():
    running, waiting = state("R3", key_class=2), state("R5", RequestStatus.WAITING, key_class=1)
    made = trace(
        [spec("R3"), spec("R5")],
        tick(0, snap=snapshot(running, waiting, running=["R3"], waiting=["R5"])),
        tick(1, events=[SLICE_END], snap=snapshot(state("R3", RequestStatus.PREEMPTED), state("R5", key_class=1))),
        config=EngineConfig(policy="priority"),
    )
    assert narrate(SLICE_END, made, 1).text.startswith(
        "Its slice of 8 ticks ended while R5, of a better class (1 before 2), was waiting."
    )


def test_a_slice_that_ran_on_past_its_end_says_how_long():
    late = RequestPreempted("R3", PreemptReason.SLICE, "swap", "R5", 16, 0, 1, 0, 11)
    assert "Its slice of 8 ticks was over (it had run 11), and R5 was waiting." in narrate(late, told(late), 0).text


def test_the_longest_sequence_is_named_when_it_ends_a_text_before_its_own_limit():
    event = RequestFinished("R1", FinishReason.LENGTH, "")
    text = "With 3 tokens it reached the longest sequence allowed, 1,024 tokens, 1 second after it arrived."
    assert narrate(event, told(event), 0).text == text


# A tick


def lines(record: TickRecord, *requests: str) -> list[str]:
    made = trace([spec(r, prompt=152) for r in requests or ("R1", "R2", "R4")], record)
    return [sentence.whole for sentence in narrate_tick(made, 0)]


def test_a_calm_tick_is_one_sentence_about_chunks_then_tokens():
    record = tick(
        0,
        decode("R1", 160, 3),
        decode("R2", 170, 9),
        item("R4", 64, 32),
        events=[sampled("R1", 3), sampled("R2", 9)],
    )
    assert lines(record) == ["R4 read 32 more tokens of its prompt (96 of 152). R1 and R2 each generated a token."]


def test_a_tick_of_decodes_quotes_the_tokens():
    record = tick(0, decode("R1", 160, 3), events=[sampled("R1", 3, " sea")])
    assert lines(record) == ["R1 generated “sea”."]
    record = tick(
        0, decode("R1", 160, 3), decode("R2", 170, 9), events=[sampled("R1", 3, " sea"), sampled("R2", 9, "\n")]
    )
    assert lines(record) == ["R1 and R2 each generated a token. R1: “sea”, R2: “⏎”."]


@pytest.mark.parametrize(
    ("chunk", "drawn", "words"),
    [
        (item("R4", 0, 32), False, "R4 read 32 tokens of its prompt (32 of 152)."),
        (item("R4", 0, 1), False, "R4 read 1 token of its prompt (1 of 152)."),
        (
            item("R4", 151, 1, samples=True),
            True,
            "R4 read the last token of its prompt and generated its first token.",
        ),
        (
            item("R4", 0, 152, samples=True),
            True,
            "R4 read its whole prompt of 152 tokens and generated its first token.",
        ),
        (item("R4", 32, 16, recomputed=16), False, "R4 computed 16 lost tokens again (48 done)."),
        (
            item("R4", 32, 16, recomputed=4),
            False,
            "R4 read 16 more tokens, 4 of them again, of its prompt (48 of 152).",
        ),
        (
            item("R4", 150, 10, samples=True, index=8, recomputed=9),
            True,
            "R4 computed 10 tokens, 9 of them again, of its prompt and text (160 done).",
        ),
    ],
)
def test_a_chunk_is_told_with_what_it_was(chunk, drawn: bool, words: str):
    assert lines(tick(0, chunk, events=[sampled("R4", 0)] if drawn else [])) == [words]


def test_several_chunks_are_told_together():
    record = tick(0, item("R1", 64, 16), item("R4", 136, 16, samples=True), events=[sampled("R4", 0)])
    assert lines(record) == [
        "R1 and R4 read 32 tokens together. R1: 16 (80 of 152), R4: 16 (152 of 152). R4 generated its first token."
    ]


def test_many_names_are_cut_with_their_number():
    names = [f"R{i}" for i in range(9)]
    record = tick(0, *(decode(n, 160, 1) for n in names), events=[sampled(n, 1) for n in names])
    assert lines(record, *names)[0].startswith("R0, R1, R2, R3 and 5 others each generated a token.")


def test_an_idle_tick_says_for_whom_it_waits_and_until_when():
    made = trace([spec("R4"), spec("R5", arrival=12.0), spec("R6", arrival=30.0)], tick(0, start=1.0, end=12.0))
    assert [s.whole for s in narrate_tick(made, 0)] == ["Nothing to do until R5 arrives at second 12."]
    made = trace([spec("R5", arrival=2.5), spec("R6", arrival=2.5)], tick(0, end=2.5))
    assert narrate_tick(made, 0)[0].whole == "Nothing to do until R5 and R6 arrive at second 2.5."


def test_an_idle_tick_with_nobody_to_come_says_so():
    assert narrate_tick(trace([spec("R4")], tick(0)), 0)[0].whole == "Nothing to do. No further request is announced."


def test_the_most_important_comes_first_and_is_the_one_headline():
    record = tick(
        0,
        decode("R1", 160, 3),
        events=[
            RequestArrived("R2", 152, 4, 0),
            PrefixCacheQueried("R2", 152, 16, (1,), False),
            RequestAdmitted("R2", 16, 9, 30, 0, False),
            sampled("R1", 3),
            RequestPreempted("R4", PreemptReason.SLICE, "swap", "R2", 16, 0, 1, 0, 8),
            RequestFinished("R1", FinishReason.STOP, ""),
        ],
    )
    sentences = narrate_tick(trace([spec("R1"), spec("R2"), spec("R4")], record), 0)
    assert [s.kind for s in sentences] == ["preempted", "finished", "hit", "admitted", "arrived", "decode"]
    assert [s.headline for s in sentences] == [True] + [False] * 5


def test_a_return_with_saved_kv_is_told_once():
    record = tick(
        0,
        decode("R1", 160, 3),
        events=[
            PrefixCacheQueried("R1", 161, 16, (1,), True),
            RequestAdmitted("R1", 16, 9, 30, 0, True),
            RequestRestored("R1", 16, 144, 9, 0),
            sampled("R1", 3),
        ],
    )
    assert [s.kind for s in narrate_tick(trace([spec("R1")], record), 0)] == ["restored", "decode"]


def test_evictions_are_summed_up_by_who_took_the_blocks():
    record = tick(0, events=[BlockEvicted(1, "a", "R1"), BlockEvicted(2, "b", "R1")])
    assert lines(record)[0] == "R1 took 2 blocks that were kept for reuse. What they held can no longer be found there."


def test_many_arrivals_are_told_together():
    record = tick(0, events=[RequestArrived(f"R{i}", 40 + i, 4, 0) for i in range(5)])
    assert lines(record)[0] == "R0, R1, R2, R3 and R4 arrived. Their prompts have 40 to 44 tokens."
    record = tick(0, events=[RequestArrived(f"R{i}", 40, 4, 0) for i in range(6)])
    assert lines(record)[0] == "R0, R1, R2, R3 and 2 others arrived. Their prompts have 40 tokens."


def test_a_refusal_is_told_once():
    engine = create_engine(num_blocks=4)
    engine.add_request(create_request("A", 60, 60))
    engine.step()
    kinds = [s.kind for s in narrate_tick(engine.trace(), 0)]
    assert kinds.count("refused") == 1
    assert kinds[0] == "refused"


def test_a_record_of_aggregates_tells_its_tokens():
    full = create_engine()
    engine = Engine(full.config, full._runner, record="summary")
    engine.add_request(create_request("A", 20, 4))
    engine.step()
    assert "20 tokens were computed." in [s.whole for s in narrate_tick(engine.trace(), 0)]


@pytest.mark.parametrize("number", [-1, 1])
def test_a_tick_outside_the_run_is_an_error_that_names_the_bounds(number: int):
    with pytest.raises(TraceError, match=rf"no tick {number}; this run has ticks 0 to 0"):
        narrate_tick(trace([spec("R1")], tick(0)), number)


# Laws on random runs

SEEDS = range(80)


def sentences_of(seed: int) -> list[tuple[Trace, int, Sentence]]:
    made = random_workload(seed).run()
    return [(made, r.tick, sentence) for r in made.records for sentence in narrate_tick(made, r.tick)]


@pytest.mark.parametrize("seed", SEEDS)
def test_every_tick_has_one_headline_and_whole_sentences(seed: int):
    made = random_workload(seed).run()
    for record in made.records:
        sentences = narrate_tick(made, record.tick)
        assert [s.headline for s in sentences] == [True] + [False] * (len(sentences) - 1)
        assert [s.rank for s in sentences] == sorted(s.rank for s in sentences)
        for sentence in sentences:
            assert sentence.kind in KINDS
            assert sentence.lead[-1] in ".…"
            assert not re.search(r"  |\bNone\b|\.\.|\b1 (tokens|blocks|ticks|lanes|requests)\b", sentence.whole)


@pytest.mark.parametrize("seed", SEEDS)
def test_every_preemption_finish_and_hit_is_told_in_its_tick(seed: int):
    made = random_workload(seed).run()
    for record in made.records:
        words = " ".join(s.whole for s in narrate_tick(made, record.tick))
        for event in record.events:
            if isinstance(event, RequestPreempted):
                assert f"{event.request_id} was preempted." in words
            if isinstance(event, RequestFinished) and event.reason in (FinishReason.STOP, FinishReason.LENGTH):
                assert f"{event.request_id} finished." in words
        arrived = [event.request_id for event in record.events if isinstance(event, RequestArrived)]
        if 0 < len(arrived) <= 5:
            assert re.search(rf"{arrived[-1]} arrived\.", words)


def test_the_random_runs_tell_of_every_kind():
    kinds = {sentence.kind for seed in SEEDS for _, _, sentence in sentences_of(seed)}
    assert kinds >= set(KINDS[: KINDS.index("memory")]) - {"law", "config", "steered", "refused", "fault", "loaded"}

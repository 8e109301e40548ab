"""Why a request ran, waited or had to leave: exact words on small runs, and remedies that are tried out."""

from __future__ import annotations

import re

import pytest

from scheduler_core.backends.synthetic import SyntheticRunner
from scheduler_core.config import EngineConfig
from scheduler_core.engine import Engine, fork
from scheduler_core.errors import TraceError
from scheduler_core.events import ConfigChanged, PreemptReason, RequestFinished, SkipReason
from scheduler_core.explain import Explanation, explain, why_not
from scheduler_core.explanation import EXPLANATION_KINDS
from scheduler_core.output import ModelRunnerOutput, SchedulerOutput
from scheduler_core.request import FinishReason
from scheduler_core.trace import Trace
from scheduler_core.victim_choice import preemptions
from tests.helpers import create_engine, create_request, random_workload, run

MARK = {True: "✓", False: "×", None: "·"}


def shown(explanation: Explanation) -> list[str]:
    """Headline, rules and remedy as lines."""
    rules = [f"{MARK[check.ok]} {check.text}" for check in explanation.checks]
    return [explanation.headline, *rules, *([f"→ {explanation.remedy}"] if explanation.remedy else [])]


def two(first: dict, second: dict, **knobs) -> Trace:
    """A run of A and B."""
    return run(create_engine(**knobs), create_request("A", **first), create_request("B", **second))


# Waiting


def test_a_lane_is_lacking():
    made = two({}, {}, max_num_seqs=1)
    assert shown(explain(made, 0, "B")) == [
        "B did not run in this tick.",
        "× The only lane is taken, by A.",
        "→ B would run now with 1 more lane (2 in all); else once one of those in a lane is done.".replace(
            "B", "It", 1
        ),
    ]


def test_the_budget_is_used_up():
    made = two({"prompt": 12}, {}, max_num_batched_tokens=8, chunk_size=None)
    assert shown(explain(made, 0, "B")) == [
        "B did not run in this tick.",
        "✓ A lane is free (1 of 4 in use).",
        "× The token budget of 8 is used up (A 8).",
        "→ It would run now with a token budget of 13.",
    ]


def test_memory_is_promised_to_a_request_that_is_still_reading():
    made = two({"prompt": 32, "max_tokens": 9}, {"prompt": 12}, num_blocks=10, chunk_size=4)
    assert shown(explain(made, 0, "B")) == [
        "B did not run in this tick.",
        "✓ A lane is free (1 of 4 in use).",
        "✓ The token budget has 60 of 64 left.",
        "× Memory: its prompt needs 3 blocks; 9 are free, 7 are promised to A, which is still reading: 2 are left.",
        "→ It would run now with 1 more free block, or with an admission rule that does not count promises; "
        "else once A is done (1 block, at most 9 tokens to generate).",
    ]


def test_a_watermark_keeps_blocks_in_reserve():
    made = two({"prompt": 16, "max_tokens": 4}, {"prompt": 8}, num_blocks=8, watermark=3)
    lines = shown(explain(made, 0, "B"))
    assert lines[3] == "× Memory: its prompt needs 2 blocks; 4 are free, 3 are kept in reserve: 1 is left."
    assert lines[4].startswith(
        "→ It would run now with 1 more free block, or with a watermark of 2; else once A is done"
    )


def test_blocks_found_in_the_cache_are_not_asked_for_again():
    prompt = list(range(100, 116))
    engine = create_engine(num_blocks=10)
    engine.add_request(create_request("A", prompt, max_tokens=12))
    engine.add_request(create_request("B", [*prompt, *range(500, 520)], max_tokens=4, arrival=1.0))
    assert "needs 5 blocks beyond the 4 found in the cache; 5 are free" not in shown(explain(engine.run(), 1, "B"))[0]
    short = create_engine(num_blocks=9)
    short.add_request(create_request("A", prompt, max_tokens=12))
    short.add_request(create_request("B", [*prompt, *range(500, 519)], max_tokens=1, arrival=1.0))
    made = short.run()
    assert shown(explain(made, 1, "B"))[3] == (
        "× Memory: its prompt needs 5 blocks beyond the 4 found in the cache; 4 are free."
    )


def test_a_request_behind_the_first_is_told_its_place_and_what_stops_the_first():
    engine = create_engine(max_num_seqs=1)
    made = run(engine, *(create_request(name) for name in "ABCD"))
    assert shown(explain(made, 0, "D")) == [
        "D did not run in this tick.",
        "× It stands 3rd of 3 in the queue, behind B and C.",
        "× B is considered first and does not get in. The only lane is taken, by A.",
        "→ The queue is served in order, so B has to get in first. "
        "B would run now with 1 more lane (2 in all); else once one of those in a lane is done.",
    ]


def test_static_batching_keeps_the_door_shut():
    made = two({}, {"arrival": 1.0}, admission="when_empty")
    assert shown(explain(made, 1, "B")) == [
        "B did not run in this tick.",
        "× The batch is closed until the request in it has finished.",
        "→ It gets in when A is done; another admission rule would not wait for that.",
    ]


def test_slices_that_are_not_over_are_mentioned():
    made = two({"max_tokens": 9}, {}, max_num_seqs=1, quantum=3)
    assert "· No running request has used up its slice, so nobody has to leave for it." in shown(explain(made, 0, "B"))


def test_a_lane_without_tokens_would_not_help():
    made = two({"prompt": 12}, {}, max_num_seqs=1, max_num_batched_tokens=8, chunk_size=None)
    assert (
        explain(made, 0, "B").remedy == "It needs a lane, and then tokens: the budget of this tick is used up as well."
    )


def test_room_that_comes_free_in_this_tick_spares_those_of_a_worse_class():
    made = run(
        create_engine(max_num_seqs=2, policy="priority"),
        create_request("A", max_tokens=2, priority=1),
        create_request("B", max_tokens=9, priority=1),
        create_request("C", priority=0, arrival=1.0),
    )
    assert shown(explain(made, 1, "C")) == [
        "C did not run in this tick.",
        "× A finishes in this tick, which makes room, so nobody is pushed out for it.",
        "→ It is considered again in the next tick.",
    ]


def test_one_who_was_preempted_and_stands_before_it_is_named():
    for seed in SEEDS:
        made = random_workload(seed).run()
        for tick, request_id, explanation in explanations(made):
            match = re.match(r"(.*), preempted in this very tick, stands? before it", explanation.checks[0].text)
            if match and explanation.kind == "waiting":
                named = re.findall(r"R\d", match[1])
                assert set(named) <= {event.request_id for event in preemptions(made, tick)}
                assert request_id not in named
                return
    pytest.fail("no random run meets this case")


# Running


def test_a_prompt_that_is_read_whole():
    made = two({}, {}, quantum=8)
    assert shown(explain(made, 0, "A")) == [
        "A read its whole prompt of 8 tokens.",
        "· The cache did not have its first block of 4 tokens.",
        "✓ It got a lane (2 of 4 are in use now).",
        "✓ Memory: it needs 2 new blocks; 32 were free.",
        "✓ It computed 8 tokens: all it had left.",
        "· It took 2 new blocks of KV memory.",
        f"· All its tokens are computed, so the next one was drawn: {quote(made, 'A')}.",
        "· It has used 1 of its slice of 8 ticks.",
    ]


def quote(made: Trace, request_id: str) -> str:
    texts = [
        e.text for e in made.records[0].events if type(e).__name__ == "TokenSampled" and e.request_id == request_id
    ]
    return f"“{texts[0].strip()}”"


def test_a_chunk_says_which_bound_was_the_smallest():
    made = two({"prompt": 20}, {"prompt": 20}, chunk_size=8, max_num_batched_tokens=12)
    a, b = explain(made, 0, "A"), explain(made, 0, "B")
    assert "✓ It computed 8 tokens: the largest chunk allowed. 20 were left." in shown(a)
    assert a.remedy == "A larger chunk size and a larger token budget would let it read more in a tick."
    assert "× It computed 4 tokens: the token budget of 12 had no more for it. 20 were left." in shown(b)
    assert b.remedy == "With a token budget of 16 it would have read 8."


def test_a_hit_says_how_much_and_why_not_more():
    prompt = list(range(100, 112))
    engine = create_engine()
    engine.add_request(create_request("A", prompt, max_tokens=1))
    engine.add_request(create_request("B", prompt, max_tokens=1, arrival=5.0))
    engine.add_request(create_request("C", [*prompt[:6], *range(900, 906)], max_tokens=1, arrival=9.0))
    engine.add_request(create_request("D", prompt[:4], max_tokens=1, arrival=12.0))
    made = engine.run()
    when = {i.request_id: r.tick for r in made.records for i in r.output.scheduled}
    assert shown(explain(made, when["B"], "B"))[1] == (
        "✓ 2 blocks (8 of 12 tokens) came from the cache; more is not possible: "
        "only whole blocks of 4 count, and at least one token is computed."
    )
    assert shown(explain(made, when["C"], "C"))[1] == (
        "✓ 1 block (4 of 12 tokens) came from the cache; the cache did not have the next block."
    )
    assert shown(explain(made, when["D"], "D"))[1] == (
        "· Nothing can come from the cache: only whole blocks of 4 before the last token could, and it has 4 tokens."
    )


def test_a_cache_that_is_off_is_mentioned():
    assert "· The prefix cache is off." in shown(explain(two({}, {}, enable_prefix_caching=False), 0, "A"))


def test_a_decode_says_what_it_generated_and_its_end():
    made = two({"max_tokens": 2}, {})
    explanation = explain(made, 1, "A")
    assert explanation.headline.startswith("A generated “")
    assert shown(explanation)[1] == "✓ It needed 1 token of the budget of 64."
    assert shown(explanation)[-1] == "· A finished. It reached its limit of 2 tokens, 2 seconds after it arrived."


def test_a_running_request_that_the_budget_left_out():
    engine = create_engine(max_num_batched_tokens=4, max_num_seqs=2, chunk_size=3)
    engine.add_request(create_request("A", 20))
    engine.add_request(create_request("B", 20))
    engine.step()
    engine.reconfigure(engine.config.replace(chunk_size=None))
    assert shown(explain(engine.run(), 1, "B")) == [
        "B kept its lane but was left out of this tick.",
        "✓ It has a lane.",
        "× The token budget of 4 is used up (A 4).",
        "→ It would run now with a token budget of 18.",
    ]


# Not there


def test_a_request_that_has_not_arrived():
    assert shown(explain(two({}, {"arrival": 2.5}), 0, "B")) == [
        "B has not arrived yet.",
        "· It arrives at second 2.5.",
    ]


def test_a_request_that_has_finished():
    assert shown(explain(two({"max_tokens": 1}, {}), 2, "A")) == [
        "A finished.",
        "· It reached its limit of 1 token, 1 second after it arrived.",
        "· That was in tick 0, at second 1.",
    ]


def test_a_request_that_was_refused():
    made = two({"prompt": 60, "max_tokens": 60}, {}, num_blocks=8)
    explanation = explain(made, 1, "A")
    assert (explanation.headline, explanation.kind) == ("A was refused.", "refused")
    assert "30 blocks of KV; there are 8" in explanation.checks[0].text


def test_a_request_that_was_aborted_while_it_waited():
    engine = create_engine(max_num_seqs=1)
    engine.add_request(create_request("A"))
    engine.add_request(create_request("B"))
    engine.step()
    engine.abort("B")
    assert shown(explain(engine.run(), 1, "B")) == [
        "B was aborted.",
        "· It had generated 0 tokens.",
        "· That was in tick 1, at second 1.",
    ]


def test_a_request_whose_forward_failed():
    class BrokenRunner(SyntheticRunner):
        def execute_model(self, output: SchedulerOutput) -> ModelRunnerOutput:
            raise RuntimeError("out of memory")

    made = run(create_engine(BrokenRunner()), create_request("A"))
    assert shown(explain(made, 0, "A")) == [
        "A failed in this tick.",
        "× the model failed: RuntimeError: out of memory",
    ]


# Preempted


def test_a_slice_that_ended():
    made = two({"max_tokens": 9}, {}, max_num_seqs=1, quantum=3)
    assert [tick for tick in range(5) if preemptions(made, tick)] == [3]
    assert shown(explain(made, 3, "A")) == [
        "A was preempted.",
        "× Its slice of 3 ticks ended while B was waiting.",
        "· 10 tokens of KV (3 blocks, 540 KiB) were saved to the host.",
        "→ With a quantum above 3 its slice would not have been over.",
    ]


def test_who_was_spared_and_why():
    engine = create_engine(max_num_seqs=2, quantum=3)
    made = run(
        engine,
        create_request("A", max_tokens=9),
        create_request("B", max_tokens=9, arrival=1.0),
        create_request("C", arrival=2.0),
    )
    assert shown(explain(made, 3, "A"))[:3] == [
        "A was preempted.",
        "× Its slice of 3 ticks ended while C was waiting.",
        "· B has used 2 of its 3 ticks; 1 is left.",
    ]
    assert shown(why_not(made, 3, "B")) == [
        "B was not preempted in this tick.",
        "× A had to leave. Its slice of 3 ticks ended while C was waiting.",
        "✓ B has used 2 of its 3 ticks; 1 is left.",
    ]
    assert why_not(made, 3, "C").checks[-1].text == "C is the one that needed the room."
    assert why_not(made, 3, "A") == explain(made, 3, "A")


def test_a_better_class_pushes_out_and_equal_classes_are_spared():
    engine = create_engine(max_num_seqs=2, policy="priority")
    made = run(
        engine,
        create_request("A", max_tokens=9, priority=1),
        create_request("B", max_tokens=9, priority=3),
        create_request("C", priority=1, arrival=1.0),
    )
    assert shown(explain(made, 1, "B"))[:3] == [
        "B was preempted.",
        "× C, of a better class (1 before 3), was waiting and needed the room.",
        "· A is in class 1, which is not worse than class 1 of C.",
    ]
    assert explain(made, 1, "B").remedy == "With push-out by class switched off it would have stayed."
    kept = fork(made, 1, made.config.replace(priority_push_out=False))
    assert "B" in kept.records[1].snapshot.running  # type: ignore[union-attr]


def test_a_memory_victim_is_compared_by_rank():
    made = two(
        {"prompt": 12, "max_tokens": 12}, {"prompt": 12, "max_tokens": 12}, num_blocks=8, admission="first_chunk"
    )
    tick = next(r.tick for r in made.records if preemptions(made, r.tick))
    assert shown(explain(made, tick, "B")) == [
        "B was preempted.",
        "× A needed more blocks than were free; B ranked last of those running.",
        "· 16 tokens of KV (4 blocks, 720 KiB) were saved to the host.",
        "→ More blocks, or fewer lanes, would keep memory from running short.",
    ]


def test_a_memory_victim_ranks_behind_those_who_stay():
    engine = create_engine(num_blocks=9, admission="first_chunk")
    made = run(engine, *(create_request(name, 9, max_tokens=12) for name in "ABC"))
    tick = next(r.tick for r in made.records if preemptions(made, r.tick))
    assert "· B ranks before C: number 2 in line against 3." in shown(explain(made, tick, "C"))
    assert why_not(made, tick, "B").checks[-1].text == "B ranks before C: number 2 in line against 3."


def test_lanes_that_are_taken_away():
    engine = create_engine(max_num_seqs=3)
    for name in "ABC":
        engine.add_request(create_request(name, max_tokens=9))
    engine.step()
    engine.reconfigure(engine.config.replace(max_num_seqs=1))
    made = engine.run()
    assert shown(explain(made, 1, "C"))[1] == "× The settings changed: only 1 lane is left, and it ranked last."
    assert [explain(made, 1, name).remedy for name in "BC"] == [
        "With 2 lanes it would have stayed.",
        "With 3 lanes it would have stayed.",
    ]


def test_why_not_where_nobody_was():
    made = two({}, {"arrival": 2.0})
    assert shown(why_not(made, 0, "A")) == ["A was not preempted in this tick.", "· Nobody was."]


# Mistakes


def test_an_unknown_request_or_tick_is_an_error_that_says_what_there_is():
    made = two({"max_tokens": 1}, {"max_tokens": 1})
    for ask in (explain, why_not):
        with pytest.raises(TraceError, match="no request 'X' in this run, but A and B"):
            ask(made, 0, "X")
        with pytest.raises(TraceError, match="no tick 9; this run has ticks 0 to 0"):
            ask(made, 9, "A")


def test_a_record_of_aggregates_cannot_explain():
    full = create_engine()
    made = run(Engine(full.config, full._runner, record="summary"), create_request("A"))
    with pytest.raises(TraceError, match="summary"):
        explain(made, 0, "A")


# Laws on random runs

SEEDS = range(60)


def explanations(made: Trace) -> list[tuple[int, str, Explanation]]:
    return [(r.tick, s.id, explain(made, r.tick, s.id)) for r in made.records for s in made.requests]


def expected_kind(made: Trace, tick: int, request_id: str) -> set[str]:
    """What the record itself says became of the request in that tick."""
    record = made.records[tick]
    ends = {
        e.request_id: e.reason for r in made.records[: tick + 1] for e in r.events if isinstance(e, RequestFinished)
    }
    if any(item.request_id == request_id for item in record.output.scheduled):
        return {"failed"} if ends.get(request_id) is FinishReason.ERROR else {"ran"}
    if request_id in ends:
        return {"finished", "aborted", "refused", "failed"}
    assert record.snapshot is not None
    if request_id in record.snapshot.running:
        return {"left_out"}
    if request_id in record.snapshot.waiting:
        return {"preempted"} if any(e.request_id == request_id for e in preemptions(made, tick)) else {"waiting"}
    return {"not_arrived"}


@pytest.mark.parametrize("seed", SEEDS)
def test_every_request_is_explained_at_every_tick(seed: int):
    made = random_workload(seed).run()
    for tick, request_id, explanation in explanations(made):
        assert explanation.kind in expected_kind(made, tick, request_id)
        assert explanation.kind in EXPLANATION_KINDS
        assert explanation.headline.startswith(request_id)
        words = " ".join(shown(explanation))
        assert not re.search(r"  |\bNone\b|\.\.|-\d|\b1 (tokens|blocks|ticks|lanes)\b", words), words
        assert explanation.checks


@pytest.mark.parametrize("seed", SEEDS)
def test_a_request_that_waits_is_told_a_rule_that_stopped_it(seed: int):
    made = random_workload(seed).run()
    for _, _, explanation in explanations(made):
        if explanation.kind == "waiting" and explanation.checks[0].ok is not None:
            assert any(check.ok is False for check in explanation.checks)


@pytest.mark.parametrize("seed", SEEDS)
def test_whoever_stayed_is_told_why(seed: int):
    made = random_workload(seed).run()
    for record in made.records:
        for victim in preemptions(made, record.tick):
            assert why_not(made, record.tick, victim.request_id).kind in ("preempted", "ran", *_ENDED)
        for spec in made.requests:
            assert why_not(made, record.tick, spec.id).headline.startswith(spec.id)


_ENDED = ("finished", "aborted", "failed")

#: A remedy in words -> the setting it changes, to the value in the first group; group "who" is the request that runs.
_REMEDIES = {
    r"(?P<who>\w+) would run now with a token budget of (?P<value>[\d,]+)\.": "max_num_batched_tokens",
    r"(?P<who>\w+) would run now with \d+ more lanes? \((?P<value>\d+) in all\)": "max_num_seqs",
    r"(?P<who>\w+) would run now with .*with a watermark of (?P<value>\d+)": "watermark",
    r"budget of (?P<value>[\d,]+) (?P<who>it) would have read (?P<tokens>[\d,]+)\.": "max_num_batched_tokens",
}


def remedies(made: Trace) -> list[tuple[int, str, int | None, EngineConfig]]:
    """(tick, request that is then to run, its tokens if named, the settings that are to bring it about)."""
    found = []
    for tick, request_id, explanation in explanations(made):
        events = made.records[tick].events
        if any(isinstance(e, ConfigChanged) or _is_abort(e) for e in events):
            continue  # a fork at this tick would not repeat what the user did in it
        for pattern, name in _REMEDIES.items():
            if match := re.search(pattern, explanation.remedy):
                who = request_id if match["who"].lower() == "it" else match["who"]
                tokens = match.groupdict().get("tokens")
                changes = {name: int(match["value"].replace(",", ""))}
                if name == "max_num_seqs":
                    least = max(made.config.max_num_batched_tokens, changes[name])
                    changes["max_num_batched_tokens"] = least
                found.append((tick, who, int(tokens) if tokens else None, made.config.replace(**changes)))
    return found


def _is_abort(event: object) -> bool:
    return isinstance(event, RequestFinished) and event.reason is FinishReason.ABORT


def tried(made: Trace, limit: int) -> list[bool]:
    """For the first remedies of a run: whether the request does run if the setting is changed before that tick."""
    results = []
    for tick, who, tokens, config in remedies(made)[:limit]:
        items = {i.request_id: i.num_tokens for i in fork(made, tick, config).records[tick].output.scheduled}
        results.append(who in items and tokens in (None, items[who]))
    return results


@pytest.mark.parametrize("seed", range(120))
def test_remedies_work_when_they_are_tried(seed: int):
    workload = random_workload(seed)
    if not workload.fail_copies:
        assert all(tried(workload.run(), limit=12))


def test_there_are_remedies_of_every_sort_to_try():
    words = [e.remedy for seed in range(120) for _, _, e in explanations(random_workload(seed).run())]
    for pattern in _REMEDIES:
        assert sum(bool(re.search(pattern, remedy)) for remedy in words) > 10


def test_the_random_runs_meet_every_reason():
    reasons, kinds = set(), set()
    for seed in SEEDS:
        made = random_workload(seed).run()
        kinds |= {explanation.kind for _, _, explanation in explanations(made)}
        reasons |= {getattr(e, "reason", None) for r in made.records for e in r.events}
    assert kinds >= set(EXPLANATION_KINDS) - {"spared", "failed"}
    assert reasons >= set(SkipReason) - {SkipReason.FINISHING, SkipReason.TURN} | {
        PreemptReason.SLICE,
        PreemptReason.MEMORY,
        PreemptReason.PUSH_OUT,
    }

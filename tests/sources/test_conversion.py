"""Requests of a file as the engine takes them."""

from __future__ import annotations

import pytest

from scheduler_core.backends.synthetic import SyntheticRunner
from scheduler_core.config import EngineConfig
from scheduler_core.engine import Engine
from scheduler_core.errors import WorkloadError
from scheduler_core.request import FinishReason, RequestSpec
from scheduler_core.sources import conversion
from scheduler_core.sources.conversion import to_specs
from scheduler_core.sources.record import Source
from scheduler_core.sources.shape import Shape, shape
from scheduler_core.trace import Trace
from tests.helpers import finish_reasons, hit_tokens, outputs
from tests.sources.files import TRACES, conversations, hashed, needs_traces, read


def specs(source: Source, **wish: object) -> tuple[RequestSpec, ...]:
    return to_specs(shape(source, Shape(**wish)), SyntheticRunner())  # type: ignore[arg-type]


def simulate(requests: tuple[RequestSpec, ...], **knobs: object) -> Trace:
    defaults = {"num_blocks": 256, "max_num_batched_tokens": 256, "quantum": None, "max_num_seqs": 8}
    engine = Engine(EngineConfig(**{**defaults, **knobs}), SyntheticRunner())  # type: ignore[arg-type]
    for spec in requests:
        engine.add_request(spec)
    return engine.run()


def common(one: RequestSpec, other: RequestSpec) -> int:
    """Tokens that both prompts begin with."""
    pairs = zip(one.prompt_token_ids, other.prompt_token_ids, strict=False)
    return next(
        (i for i, (a, b) in enumerate(pairs) if a != b), min(map(len, (one.prompt_token_ids, other.prompt_token_ids)))
    )


def test_every_request_keeps_its_length_time_and_class_and_has_an_id_that_tells_its_line() -> None:
    source = read("arrival,prompt_tokens,output_tokens,priority\n1,300,7,2\n3.5,20,9,\n")
    assert [
        (s.id, len(s.prompt_token_ids), s.sampling.max_tokens, s.sampling.ignore_eos, s.arrival_time, s.priority)
        for s in specs(source)
    ] == [("r2", 300, 7, True, 0.0, 2), ("r3", 20, 9, True, 2.5, 0)]


def test_prompts_of_which_only_the_length_is_known_share_nothing_and_follow_from_the_seed() -> None:
    source = read("prompt_tokens\n" + "200\n" * 50)
    one, again, other = (specs(source, seed=seed) for seed in (1, 1, 2))
    assert one == again
    assert len({spec.prompt_token_ids[:16] for spec in one}) == 50
    assert one[0].prompt_token_ids != other[0].prompt_token_ids


def test_the_prompt_of_a_row_does_not_depend_on_which_others_are_taken() -> None:
    source = read("arrival,prompt_tokens\n" + "".join(f"{i},50\n" for i in range(20)))
    everyone = {spec.id: spec.prompt_token_ids for spec in specs(source)}
    assert all(everyone[s.id] == s.prompt_token_ids for s in specs(source, start=5, end=9, sample=0.9))


def test_prompts_share_exactly_the_blocks_that_have_the_same_ids_whatever_the_scale() -> None:
    source = read(hashed((0, 1_500, [0, 1, 2]), (1, 2_048, [0, 1, 3, 4]), (2, 1_024, [9, 1])))
    for scale, block in ((1, 512), (32, 16), (512, 1)):
        first, second, third = specs(source, scale=scale)
        assert common(first, second) == 2 * block
        assert common(first, third) == 0
        assert first.prompt_token_ids[block : 2 * block] == third.prompt_token_ids[block : 2 * block]
        assert [len(s.prompt_token_ids) for s in (first, second, third)] == [
            -(-n // scale) for n in (1_500, 2_048, 1_024)
        ]


def test_the_end_of_a_prompt_that_has_no_id_is_its_own() -> None:
    one, other = specs(read(hashed((0, 600, [4]), (1, 600, [4]))))
    assert common(one, other) == 512


def test_the_engine_hits_the_blocks_that_a_trace_shares() -> None:
    source = read(hashed((0, 2_048, [0, 1, 2, 3]), (60_000, 2_000, [0, 1, 2, 5]), output=64))
    trace = simulate(specs(source, scale=32))
    assert set(finish_reasons(trace).values()) == {FinishReason.LENGTH}
    assert hit_tokens(trace) == {"r1": [0], "r2": [48]}
    assert [len(tokens) for tokens in outputs(trace).values()] == [2, 2]


def test_a_later_turn_begins_with_the_earlier_one_and_its_answer() -> None:
    source = read(conversations(["Name a river.", "And a longer one?"], ["Name a river."]))
    first, other, second = specs(source, output_tokens=9)
    assert (first.id, other.id, second.id) == ("r1.1", "r2.1", "r1.2")
    encode = SyntheticRunner().encode_chat
    assert first.prompt_token_ids == other.prompt_token_ids == encode("Name a river.")
    said, asked = len(first.prompt_token_ids), encode("And a longer one?")
    assert second.prompt_token_ids[:said] == first.prompt_token_ids
    assert len(second.prompt_token_ids) == said + 9 + len(asked)
    assert second.prompt_token_ids[said + 9 :] == asked
    assert second.prompt == "And a longer one?"


def test_a_cut_prompt_does_not_shorten_what_the_next_turn_begins_with() -> None:
    source = read(conversations(["one two three four five six", "seven"]))
    whole = specs(source)
    cut = specs(source, max_prompt_tokens=4)
    assert [len(spec.prompt_token_ids) for spec in cut] == [4, 4]
    assert all(c.prompt_token_ids == w.prompt_token_ids[:4] for c, w in zip(cut, whole, strict=True))


def test_in_a_conversation_of_lengths_the_shorter_prompt_begins_the_longer_one() -> None:
    text = "arrival,prompt_tokens,conversation\n0,40,a\n1,100,a\n2,60,b\n"
    first, second, other = specs(read(text))
    assert second.prompt_token_ids[:40] == first.prompt_token_ids
    assert common(first, other) == 0


def test_a_conversation_without_end_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    source = read("prompt,output_tokens,conversation\n" + "word,1,talk\n" * 51)
    monkeypatch.setattr(conversion, "MAX_TURNS", 50)
    with pytest.raises(WorkloadError, match=r"line 52: conversation 'talk' has more than 50 turns; leave some out"):
        specs(source)
    monkeypatch.setattr(conversion, "MAX_TOKENS", 100)
    with pytest.raises(WorkloadError, match=r"line 27: the prompt has 103 tokens; at most 100 are taken"):
        specs(source)


def test_more_tokens_than_can_be_made_in_a_while_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversion, "MAX_TOTAL_TOKENS", 1_000)
    source = read("prompt_tokens\n" + "300\n" * 9)
    with pytest.raises(
        WorkloadError, match=r"line 5: up to here the prompts have 1,200 tokens; at most 1,000 are taken"
    ):
        specs(source)
    assert len(specs(source, scale=3)) == 9


def test_a_run_of_such_requests_is_kept_and_read_back() -> None:
    trace = simulate(specs(read(hashed((0, 1_024, [0, 1]), (9, 700, [0, 2]), output=96)), scale=32))
    assert Trace.from_bytes(trace.to_bytes()) == trace


@needs_traces
def test_the_first_requests_of_a_recorded_trace_run_to_their_end() -> None:
    from scheduler_core.sources.source import read_source

    source = read_source(TRACES / "mooncake" / "conversation_trace.jsonl")
    trace = simulate(
        specs(source, first=60, scale=32),
        num_blocks=2_000,
        max_num_batched_tokens=2_048,
        max_model_len=8_192,
        max_num_seqs=64,
    )
    assert list(finish_reasons(trace).values()) == [FinishReason.LENGTH] * 60
    assert sum(hits[0] for hits in hit_tokens(trace).values()) > 0

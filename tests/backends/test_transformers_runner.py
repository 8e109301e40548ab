"""The paged runner against transformers' own `generate`, and its isolation of requests, runs and threads."""

from __future__ import annotations

import dataclasses
import math
import threading
import time
from collections import Counter
from typing import Any

import pytest
import torch

from scheduler_core.backends.base import CopyError
from scheduler_core.backends.model_store import LoadedModel
from scheduler_core.backends.transformers_runner import TransformersRunner, draw, uniform
from scheduler_core.config import EngineConfig
from scheduler_core.engine import Engine
from scheduler_core.errors import ModelError, RequestError
from scheduler_core.events import RequestPreempted, RequestRestored, TokenSampled
from scheduler_core.output import ScheduledRequest, SchedulerOutput
from scheduler_core.request import RequestSpec, SamplingParams
from scheduler_core.trace import Trace
from tests.backends.tiny import tiny_model
from tests.figures import tell
from tests.generated import assert_same_tokens, generate, top_two_margin
from tests.helpers import events, outputs

QUESTIONS = (
    "What is the capital of France?",
    "Write a haiku about the sea.",
    "Explain gravity to a child.",
    "List three colours.",
    "Who wrote Hamlet?",
    "Tell me a joke about cats.",
    "How do I boil an egg?",
    "What is 12 plus 30?",
)


def make_specs(runner: TransformersRunner, prompts: tuple[str, ...], **sampling: Any) -> list[RequestSpec]:
    params = SamplingParams(**{"max_tokens": 12, **sampling})
    return [RequestSpec(f"R{n}", runner.encode_chat(text), params, prompt=text) for n, text in enumerate(prompts)]


def run(runner: TransformersRunner, specs: list[RequestSpec], **knobs: Any) -> Trace:
    defaults = {"block_size": 4, "num_blocks": 128, "max_model_len": 256, "quantum": None, "max_num_seqs": 8}
    engine = Engine(EngineConfig(**{**defaults, **knobs}), runner)
    for spec in specs:
        engine.add_request(spec)
    return engine.run()


def item(name: str, tokens: list[int], blocks: list[int], start: int = 0, **changes: Any) -> ScheduledRequest:
    fixed = {"samples": True, "output_index": 0, "sampling": SamplingParams(), "seed": 1}
    return ScheduledRequest(name, tuple(tokens), start, tuple(blocks), **{**fixed, **changes})


def logits_after(loaded: LoadedModel, tokens: list[int]) -> Any:
    with torch.inference_mode():
        return loaded.model(torch.tensor([tokens])).logits[0, -1]


# --- the same text as generate -----------------------------------------------------------------------------------


@pytest.mark.model
@pytest.mark.alone
def test_eight_chats_together_say_the_same_as_one_by_one_and_both_times_are_printed(model: LoadedModel) -> None:
    runner = TransformersRunner(model)
    specs = make_specs(runner, QUESTIONS, max_tokens=48)
    begin = time.perf_counter()
    expected = {spec.id: generate(model, spec.prompt_token_ids, 48) for spec in specs}
    alone = time.perf_counter() - begin
    begin = time.perf_counter()
    got = outputs(run(runner, specs, block_size=16, num_blocks=64, max_num_batched_tokens=512, chunk_size=None))
    together = time.perf_counter() - begin
    tell(f"eight chats: {alone:.1f} s one by one, {together:.1f} s together, {alone / together:.1f} times as fast")
    for spec in specs:
        assert_same_tokens(model, spec.prompt_token_ids, got[spec.id], expected[spec.id])


@pytest.mark.parametrize("mode", ["swap", "recompute"])
def test_preempted_requests_say_the_same_as_generate(tiny: LoadedModel, mode: str) -> None:
    runner = TransformersRunner(tiny)
    specs = make_specs(runner, ("hello", "hell 12", "a longer line of words"), max_tokens=20, ignore_eos=True)
    trace = run(runner, specs, max_num_seqs=2, quantum=3, chunk_size=5, preemption_mode=mode, num_blocks=40)
    assert events(trace, RequestPreempted)
    assert bool(events(trace, RequestRestored)) == (mode == "swap")
    for spec in specs:
        solo = run(runner, [spec], enable_prefix_caching=False, chunk_size=None)
        assert outputs(trace)[spec.id] == outputs(solo)[spec.id]
        ended = generate(tiny, spec.prompt_token_ids, 20)  # stops at the end of text, which was ignored above
        assert_same_tokens(tiny, spec.prompt_token_ids, outputs(trace)[spec.id][: len(ended)], ended)


def test_generate_on_the_same_weights_goes_on_working_even_with_padding(tiny: LoadedModel) -> None:
    runner = TransformersRunner(tiny)
    prompts = [list(runner.encode("hello")), list(runner.encode("a longer line"))]
    longest = max(map(len, prompts))
    padded = torch.tensor([[2] * (longest - len(p)) + p for p in prompts])
    mask = torch.tensor([[0] * (longest - len(p)) + [1] * len(p) for p in prompts])
    together = tiny.model.generate(padded, attention_mask=mask, max_new_tokens=6, do_sample=False)[:, longest:].tolist()
    for prompt, got in zip(prompts, together, strict=True):
        alone = generate(tiny, prompt, 6)
        assert_same_tokens(tiny, prompt, got[: len(alone)], alone)


def test_the_margin_of_the_two_best_logits_is_their_difference(tiny: LoadedModel) -> None:
    best, second = logits_after(tiny, [5, 6, 7]).topk(2).values.tolist()
    assert top_two_margin(tiny, [5, 6, 7]) == pytest.approx(best - second)


def test_a_difference_where_the_margin_is_wide_is_not_forgiven(tiny: LoadedModel) -> None:
    expected = generate(tiny, [5, 6, 7], 4)
    assert top_two_margin(tiny, [5, 6, 7]) > 1e-3
    with pytest.raises(AssertionError, match="output token 0"):
        assert_same_tokens(tiny, [5, 6, 7], [expected[0] + 1, *expected[1:]], expected)


# --- drawing -----------------------------------------------------------------------------------------------------


def test_candidates_are_the_five_likeliest_with_the_model_s_probabilities(tiny: LoadedModel) -> None:
    runner = TransformersRunner(tiny)
    runner.allocate(4, 4)
    tokens = [10, 20, 30, 40, 50]
    sampled = runner.execute_model(SchedulerOutput(0, (item("a", tokens, [3, 1]),))).sampled["a"]
    expected = logits_after(tiny, tokens).softmax(-1).topk(5)
    assert [candidate.token_id for candidate in sampled.top] == expected.indices.tolist()
    assert [candidate.prob for candidate in sampled.top] == pytest.approx(expected.values.tolist(), abs=2e-6)
    assert sampled.token_id == sampled.top[0].token_id
    assert sampled.text == sampled.top[0].text == runner.token_text(sampled.token_id)


def test_drawn_texts_depend_on_seed_and_position_and_not_on_the_schedule(tiny: LoadedModel) -> None:
    runner = TransformersRunner(tiny)
    specs = make_specs(runner, ("hello", "hell", "well 12"), temperature=1.0, ignore_eos=True)
    torch.manual_seed(1)
    together = outputs(run(runner, specs, chunk_size=3))
    torch.manual_seed(2)
    assert outputs(run(runner, specs, max_num_seqs=1, quantum=2, chunk_size=7)) == together
    assert outputs(run(runner, specs, seed=7)) != together


def test_drawing_leaves_torch_s_random_state_alone(tiny: LoadedModel) -> None:
    before = torch.get_rng_state()
    runner = TransformersRunner(tiny)
    run(runner, make_specs(runner, ("hello",), temperature=1.0))
    assert torch.equal(torch.get_rng_state(), before)


def test_draws_follow_the_probabilities() -> None:
    probs = torch.tensor([0.5, 0.3, 0.15, 0.05])
    warm = item("a", [1], [0], sampling=SamplingParams(temperature=1.0))
    drawn = Counter(draw(probs.log(), dataclasses.replace(warm, output_index=i)) for i in range(4000))
    assert [drawn[i] / 4000 for i in range(4)] == pytest.approx(probs.tolist(), abs=0.03)


def test_temperature_sharpens_and_top_p_cuts_the_tail() -> None:
    logits = torch.tensor([0.5, 0.3, 0.15, 0.05]).log()

    def drawn(**sampling: float) -> set[int]:
        one = item("a", [1], [0], sampling=SamplingParams(**{"temperature": 1.0, **sampling}))  # type: ignore[arg-type]
        return {draw(logits, dataclasses.replace(one, output_index=i)) for i in range(500)}

    assert drawn() == {0, 1, 2, 3}
    assert drawn(top_p=0.8) == {0, 1}
    assert drawn(top_p=0.81) == {0, 1, 2}
    assert drawn(top_p=0.01) == {0}
    assert drawn(temperature=0.01) == {0}
    assert drawn(temperature=1e-300) == {0}


def test_the_numbers_behind_draws_are_spread_evenly_and_fixed() -> None:
    numbers = [uniform(seed, index) for seed in range(40) for index in range(50)]
    assert len(set(numbers)) == len(numbers)
    assert sum(numbers) / len(numbers) == pytest.approx(0.5, abs=0.03)
    assert all(0 <= number < 1 for number in numbers)
    assert uniform(3, 4) == uniform(3, 4)


def test_the_end_of_text_is_not_drawn_before_min_tokens(tiny: LoadedModel) -> None:
    runner = TransformersRunner(tiny)
    (spec,) = make_specs(runner, ("hello",), max_tokens=8)
    first = outputs(run(runner, [spec]))["R0"][0]
    # Whatever comes first is declared an end of text, by the request.
    stopping = dataclasses.replace(spec, sampling=SamplingParams(max_tokens=8, stop_token_ids=(first,)))
    longer = dataclasses.replace(spec, sampling=SamplingParams(max_tokens=8, stop_token_ids=(first,), min_tokens=4))
    assert outputs(run(runner, [stopping]))["R0"] == [first]
    tokens = outputs(run(runner, [longer]))["R0"]
    assert len(tokens) >= 4
    assert first not in tokens[:4]
    assert not set(tokens[:4]) & set(runner.eos_token_ids)


# --- memory ------------------------------------------------------------------------------------------------------


def test_kv_copied_out_and_in_to_other_blocks_is_equal_bit_by_bit(tiny: LoadedModel) -> None:
    runner = TransformersRunner(tiny)
    runner.allocate(8, 4)
    tokens = list(range(20, 32))
    runner.execute_model(SchedulerOutput(0, (item("a", tokens, [5, 0, 7]),)))
    saved = runner.copy_out((5, 0, 7))
    assert saved.any()
    runner.copy_in(saved, 1, (2, 6))
    again = runner.copy_out((5, 2, 6))
    assert torch.equal(again.view(torch.int32), saved.view(torch.int32))
    nxt = {"start": 12, "output_index": 1}
    outputs_of = [
        runner.execute_model(SchedulerOutput(1, (item("a", [40], blocks, **nxt),))).sampled["a"]
        for blocks in ([5, 0, 7, 1], [5, 2, 6, 3])
    ]
    assert outputs_of[0] == outputs_of[1]


def test_a_saved_copy_does_not_follow_later_writes(tiny: LoadedModel) -> None:
    runner = TransformersRunner(tiny)
    runner.allocate(2, 4)
    runner.execute_model(SchedulerOutput(0, (item("a", [5, 6, 7, 8], [0]),)))
    saved = runner.copy_out((0,))
    before = saved.clone()
    runner.execute_model(SchedulerOutput(1, (item("b", [15, 16, 17, 18], [0]),)))
    assert torch.equal(saved, before)


def test_copies_of_blocks_that_do_not_exist_fail_as_copies(tiny: LoadedModel) -> None:
    runner = TransformersRunner(tiny)
    runner.allocate(2, 4)
    with pytest.raises(CopyError):
        runner.copy_out((9,))
    saved = runner.copy_out((0,))
    with pytest.raises(CopyError):
        runner.copy_in(saved, 0, (9,))
    with pytest.raises(CopyError):
        runner.copy_in(saved, 0, (0, 1))


def test_kv_memory_is_taken_from_the_system_only_as_it_is_used(tiny: LoadedModel) -> None:
    import psutil

    runner = TransformersRunner(tiny)
    size = 256 * 2**20
    before = psutil.Process().memory_info().rss
    runner.allocate(size // (runner.kv_bytes_per_token * 16), 16)
    assert psutil.Process().memory_info().rss - before < size / 4
    assert not runner.copy_out((0, 7)).any()


def test_more_kv_than_there_is_memory_is_refused_with_the_bound(tiny: LoadedModel) -> None:
    runner = TransformersRunner(tiny)
    with pytest.raises(ModelError, match=r"num_blocks is 1000000000; \d+ blocks .* lower num_blocks"):
        runner.allocate(1_000_000_000, 1024)


def test_a_tick_before_allocation_is_a_mistake(tiny: LoadedModel) -> None:
    with pytest.raises(RuntimeError, match="allocate"):
        TransformersRunner(tiny).execute_model(SchedulerOutput(0, (item("a", [1], [0]),)))


def test_another_device_than_the_weights_is_refused(tiny: LoadedModel) -> None:
    with pytest.raises(ModelError, match="loaded on cpu, not on cuda"):
        TransformersRunner(tiny, device="cuda")


def test_half_precision_halves_the_kv_and_copies_bit_by_bit() -> None:
    half = tiny_model().to(torch.bfloat16).eval()
    loaded = LoadedModel(half, None, "digest", "bfloat16", "cpu", "tiny")
    runner = TransformersRunner(loaded)
    in_fp32 = sum(2 * 4 * weight.shape[0] for weight in kv_weights(half))
    assert runner.kv_bytes_per_token * 2 == in_fp32
    runner.allocate(4, 4)
    chunk = item("a", list(range(20, 26)), [0, 1], samples=False)
    assert runner.execute_model(SchedulerOutput(0, (chunk,))).failed is None
    saved = runner.copy_out((0, 1))
    runner.copy_in(saved, 0, (3, 2))
    assert saved.dtype is torch.bfloat16
    assert torch.equal(runner.copy_out((3, 2)).view(torch.int16), saved.view(torch.int16))


def kv_weights(model: Any) -> list[Any]:
    """The projections whose rows are what one token's keys (or values) hold, one a layer."""
    return [layer.self_attn.k_proj.weight for layer in model.model.layers]


# --- isolation ---------------------------------------------------------------------------------------------------


def test_kv_that_is_no_number_fails_its_request_with_a_reason_and_no_other(tiny: LoadedModel) -> None:
    runner = TransformersRunner(tiny)
    runner.allocate(8, 4)
    start = (item("bad", [5, 6, 7], [0]), item("good", [25, 26, 27, 28, 29, 30], [1, 2]))
    runner.execute_model(SchedulerOutput(0, start))
    expected = runner.execute_model(SchedulerOutput(1, (item("good", [31], [1, 2], start=6),))).sampled["good"]
    spoiled = runner.copy_out((0,)).fill_(math.nan)
    runner.copy_in(spoiled, 0, (0,))
    both = (item("bad", [8], [0], start=3), item("good", [31], [1, 2], start=6))
    result = runner.execute_model(SchedulerOutput(2, both))
    assert result.failed is not None
    assert list(result.failed) == ["bad"]
    assert "NaN" in result.failed["bad"]
    assert result.sampled["good"].token_id == expected.token_id


def test_a_chunk_that_is_no_number_fails_before_it_is_sampled(tiny: LoadedModel) -> None:
    runner = TransformersRunner(tiny)
    runner.allocate(2, 4)
    runner.copy_in(runner.copy_out((0,)).fill_(math.nan), 0, (0,))
    result = runner.execute_model(SchedulerOutput(0, (item("a", [5, 6], [0, 1], start=4, samples=False),)))
    assert result.failed is not None
    assert list(result.failed) == ["a"]


def test_what_an_earlier_request_left_in_a_block_reaches_nobody(tiny: LoadedModel) -> None:
    runner = TransformersRunner(tiny)
    runner.allocate(4, 4)
    batch = (item("a", [31], [0]), item("b", [25, 26, 27, 28, 29, 30], [1, 2]), item("c", [33], [3]))
    clean = runner.execute_model(SchedulerOutput(0, batch))
    runner.copy_in(runner.copy_out((0, 1, 2, 3)).fill_(math.nan), 0, (0, 1, 2, 3))
    again = runner.execute_model(SchedulerOutput(0, batch))
    assert again.failed is None
    assert again.sampled == clean.sampled


def test_runs_in_two_threads_on_shared_weights_do_not_mix(tiny: LoadedModel) -> None:
    def work(prompt: str, into: dict[str, Any]) -> None:
        runner = TransformersRunner(tiny)
        into[prompt] = outputs(run(runner, make_specs(runner, (prompt,), max_tokens=30, ignore_eos=True)))

    together: dict[str, Any] = {}
    threads = [threading.Thread(target=work, args=(text, together)) for text in ("hello", "a longer line of words")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    alone: dict[str, Any] = {}
    for text in ("hello", "a longer line of words"):
        work(text, alone)
    assert together == alone


# --- facts and text ----------------------------------------------------------------------------------------------


@pytest.mark.model
def test_the_backend_states_the_real_model_s_facts(model: LoadedModel) -> None:
    backend = TransformersRunner(model).backend
    assert backend.kind == "model"
    assert "SmolLM2-135M-Instruct" in backend.model
    assert backend.kv_bytes_per_token == 45 * 1024 * (1 if model.device == "cpu" else 0.5)
    assert len(backend.weights_digest) == 64
    assert backend.eos_token_ids == (2,)
    assert TransformersRunner(model).max_model_len == 8192


@pytest.mark.model
def test_chats_use_the_real_model_s_template_with_its_own_system_prompt(model: LoadedModel) -> None:
    runner = TransformersRunner(model)

    def told(tokens: tuple[int, ...]) -> str:
        return "".join(runner.token_text(token) for token in tokens)

    head = "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
    tail = "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    assert told(runner.encode_chat("Hi")) == head + tail
    assert told(runner.encode_chat("Hi", system="Be brief.")) == f"<|im_start|>system\nBe brief.<|im_end|>\n{tail}"
    assert runner.token_text(2) == "<|im_end|>"
    assert runner.decode((*runner.encode("Hello"), 2)) == "Hello"


@pytest.mark.model
@pytest.mark.parametrize(
    "text", ["Hello  world\n\n\tx", "naïve café 漢字 🙂", "a  1 and 22", "\x00\x07 <script>alert(1)</script>"]
)
def test_text_survives_encoding_and_decoding(model: LoadedModel, text: str) -> None:
    runner = TransformersRunner(model)
    assert runner.decode(runner.encode(text)) == text


@pytest.mark.model
def test_digits_are_cut_one_by_one_as_the_model_was_trained(model: LoadedModel) -> None:
    runner = TransformersRunner(model)
    assert [runner.token_text(token) for token in runner.encode("a  123")] == ["a", "  ", "1", "2", "3"]


@pytest.mark.model
def test_a_part_of_a_character_is_shown_by_its_bytes(model: LoadedModel) -> None:
    runner = TransformersRunner(model)
    shown = [runner.token_text(token) for token in runner.encode("漢")]
    assert "".join(shown) == "<0xE6><0xBC><0xA2>"
    assert runner.decode(runner.encode("漢")) == "漢"


def test_half_a_character_is_refused_with_its_place(tiny: LoadedModel) -> None:
    runner = TransformersRunner(tiny)
    with pytest.raises(RequestError, match=r"half of a character \(U\+D800\) at position 2"):
        runner.encode("ab\ud800")
    with pytest.raises(RequestError, match="position 0"):
        runner.encode_chat("hello", system="\udfff")


def test_the_end_of_text_is_what_generate_stops_at(tiny: LoadedModel) -> None:
    assert TransformersRunner(tiny).eos_token_ids == (2,)


def test_ticks_are_recorded_with_every_sampled_token(tiny: LoadedModel) -> None:
    runner = TransformersRunner(tiny)
    trace = run(runner, make_specs(runner, ("hello",), max_tokens=5, ignore_eos=True))
    sampled = events(trace, TokenSampled)
    assert [event.index for event in sampled] == [0, 1, 2, 3, 4]
    assert all(len(event.top) == 5 for event in sampled)
    assert trace.backend == runner.backend
    assert sum(record.wall_seconds for record in trace.records) > 0
    assert Trace.from_json(trace.to_json()) == trace

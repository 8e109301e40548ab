"""Which requests of a file are taken, how long they are and when they come."""

from __future__ import annotations

import pytest

from scheduler_core.errors import WorkloadError
from scheduler_core.sources.record import Source
from scheduler_core.sources.shape import Shape, ShapedWorkload, shape
from tests.sources.files import conversations, hashed, read


def steady(count: int = 100, prompt: int = 100) -> Source:
    """One request a second."""
    rows = "".join(f"{second},{prompt + second},{10 + second}\n" for second in range(count))
    return read("arrival,prompt_tokens,output_tokens\n" + rows)


def lines(workload: ShapedWorkload) -> list[int]:
    return [request.line for request in workload.requests]


def test_without_a_wish_everything_stays_as_it_is() -> None:
    source = steady()
    shaped = shape(source, Shape())
    assert shaped.requests == source.requests
    assert (shaped.report.num_requests, shaped.report.cut_prompts) == (100, 0)


def test_a_window_is_taken_from_its_start_up_to_its_end_and_begins_at_zero() -> None:
    shaped = shape(steady(), Shape(start=10, end=13))
    assert [(request.line, request.arrival) for request in shaped.requests] == [(12, 0), (13, 1), (14, 2)]
    assert shaped.report.outside_window == 97


def test_the_first_are_those_that_arrive_first() -> None:
    source = read("arrival,prompt_tokens\n9,1\n3,1\n5,1\n")
    shaped = shape(source, Shape(first=2))
    assert (lines(shaped), shaped.report.after_first) == ([3, 4], 1)


def test_lengths_are_divided_and_rounded_up_and_times_multiplied() -> None:
    shaped = shape(steady(3, prompt=31), Shape(scale=32, stretch=2.5))
    assert [(r.prompt_tokens, r.output_tokens, r.arrival) for r in shaped.requests] == [
        (1, 1, 0),
        (1, 1, 2.5),
        (2, 1, 5),
    ]


def test_lengths_are_cut_after_they_are_divided_and_the_cuts_are_counted() -> None:
    shaped = shape(steady(10), Shape(scale=0.5, max_prompt_tokens=210, max_output_tokens=30))
    assert [request.prompt_tokens for request in shaped.requests] == [200, 202, 204, 206, 208, 210, 210, 210, 210, 210]
    assert (shaped.report.cut_prompts, shaped.report.cut_outputs) == (4, 4)


def test_the_same_seed_draws_the_same_sample_and_another_seed_another() -> None:
    source = steady(2_000)
    one, again, other = (shape(source, Shape(sample=0.25, seed=seed)) for seed in (7, 7, 8))
    assert lines(one) == lines(again) != lines(other)
    assert 400 < len(one.requests) < 600
    assert one.report.not_sampled == 2_000 - len(one.requests)
    assert one.report.shape.seed == 7


def test_a_smaller_sample_of_one_seed_is_part_of_a_larger_one() -> None:
    source = steady(500)
    assert set(lines(shape(source, Shape(sample=0.1)))) < set(lines(shape(source, Shape(sample=0.5))))


def test_a_conversation_is_drawn_as_a_whole() -> None:
    source = read(conversations(*([f"{i} one", "two", "three"] for i in range(200))))
    drawn = lines(shape(source, Shape(sample=0.5)))
    assert 60 < len(set(drawn)) < 140
    assert all(drawn.count(line) == 3 for line in set(drawn))


def test_a_scale_of_32_makes_blocks_of_512_tokens_into_ours_of_16() -> None:
    source = read(hashed((0, 1_024, [1, 2]), (1, 1_025, [1, 2, 3])))
    shaped = shape(source, Shape(scale=32))
    assert shaped.report.tokens_per_id == 16
    assert [request.prompt_tokens for request in shaped.requests] == [32, 33]


def test_outputs_that_the_file_does_not_tell_are_assumed_and_counted() -> None:
    shaped = shape(read("prompt_tokens,output_tokens\n5,\n6,9\n"), Shape(output_tokens=40, scale=3))
    assert [request.output_tokens for request in shaped.requests] == [40, 3]
    assert shaped.report.assumed_outputs == 1


@pytest.mark.parametrize(
    ("wish", "message"),
    [
        ({"first": 0}, "first is 0; it must be from 1 to 1e+06"),
        ({"scale": 0}, "scale is 0; it must be from 0.001 to 1e+06"),
        ({"scale": float("nan")}, "scale is nan; it must be"),
        ({"stretch": -1}, "stretch is -1; it must be"),
        ({"sample": 0}, "sample is 0; it must be above 0 and at most 1"),
        ({"sample": 1.5}, "sample is 1.5; it must be above 0 and at most 1"),
        ({"start": 5, "end": 5}, "end is 5; it must be above start"),
        ({"seed": -1}, "seed is -1; it must be"),
        ({"max_prompt_tokens": 0}, "max_prompt_tokens is 0; it must be"),
    ],
)
def test_an_impossible_wish_is_told_with_value_and_bounds(wish: dict[str, float], message: str) -> None:
    with pytest.raises(WorkloadError) as caught:
        Shape(**wish)  # type: ignore[arg-type]
    assert message in str(caught.value)


def test_a_scale_that_does_not_divide_a_block_is_told_with_one_that_does() -> None:
    source = read(hashed((0, 1_024, [1, 2])))
    for scale in (3, 1_024, 0.7):
        with pytest.raises(WorkloadError, match=r"must divide the 512 tokens of a block .* take 32"):
            shape(source, Shape(scale=scale))


def test_a_choice_of_nothing_is_told_with_what_there_is() -> None:
    with pytest.raises(WorkloadError, match=r"no request from 500 s to the end; sample goes from 0 to 99 s"):
        shape(steady(), Shape(start=500))
    with pytest.raises(WorkloadError, match="chose none of 3 requests; take more, or another seed"):
        shape(steady(3), Shape(sample=1e-9))

from __future__ import annotations

import numpy as np
import pytest

from scheduler_core.errors import ConfigError
from scheduler_core.load.lengths import Lengths


def draw(lengths: Lengths, count: int = 20_000) -> np.ndarray:
    return lengths.draw(np.random.Generator(np.random.PCG64(3)), count)


def test_fixed_lengths_are_all_alike() -> None:
    assert set(draw(Lengths.fixed(77), 10)) == {77}


def test_uniform_lengths_reach_both_bounds() -> None:
    drawn = draw(Lengths("uniform", 3, 6))
    assert {count: np.mean(drawn == count) for count in set(drawn.tolist())} == {
        count: pytest.approx(0.25, abs=0.02) for count in (3, 4, 5, 6)
    }


def test_lognormal_lengths_have_the_mean_asked_for_and_keep_to_the_bounds() -> None:
    assert draw(Lengths("lognormal", 1, 1_000_000, mean=1_000.0, sigma=0.8)).mean() == pytest.approx(1_000, rel=0.03)
    bounded = draw(Lengths("lognormal", 500, 1_500, mean=1_000.0, sigma=2.0))
    assert (bounded.min(), bounded.max()) == (500, 1_500)


def test_zipf_lengths_fall_off_by_their_exponent() -> None:
    drawn = draw(Lengths("zipf", 1, 4, exponent=1.0))
    counts = [np.mean(drawn == k) for k in (1, 2, 3, 4)]
    assert counts == pytest.approx([12 / 25, 6 / 25, 4 / 25, 3 / 25], abs=0.01)


def test_empirical_lengths_are_those_of_the_source() -> None:
    drawn = draw(Lengths.of((5, 5, 5, 900)))
    assert set(drawn.tolist()) == {5, 900}
    assert np.mean(drawn == 5) == pytest.approx(0.75, abs=0.02)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("512", Lengths("fixed", 512, 512)),
        ("fixed:8", Lengths("fixed", 8, 8)),
        ("uniform:100:500", Lengths("uniform", 100, 500)),
        ("lognormal:1024:0.8", Lengths("lognormal", 1, 1_000_000, 1024.0, 0.8)),
        ("lognormal:1024:0.8:4096", Lengths("lognormal", 1, 4096, 1024.0, 0.8)),
        ("zipf:1.2:1:4096", Lengths("zipf", 1, 4096, exponent=1.2)),
    ],
)
def test_lengths_are_read_as_written_on_a_command_line(text: str, meant: Lengths) -> None:
    assert Lengths.parse(text) == meant


@pytest.mark.parametrize("text", ["", "many", "uniform:1", "uniform:a:b", "lognormal:1:2:3:4", "gauss:1:2", "1.5"])
def test_what_is_no_length_is_refused_with_the_ways_to_write_one(text: str) -> None:
    with pytest.raises(ConfigError, match="uniform:LOW:HIGH"):
        Lengths.parse(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0", "the shortest length is 0; it must be a whole number from 1"),
        ("uniform:9:3", "the longest length is 3; it must be a whole number from 9"),
        ("lognormal:nan:1", "the mean length is nan"),
        ("zipf:99:1:5", "exponent is 99.0; it must be a number from 0 to 10"),
        ("zipf:1:1:900000", "at most 131072 wide"),
    ],
)
def test_impossible_lengths_name_value_and_bound(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Lengths.parse(text)

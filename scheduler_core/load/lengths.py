"""How long prompts and outputs are: a distribution of whole numbers of tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from scheduler_core.errors import ConfigError
from scheduler_core.load.checks import check_choice, check_number, check_whole

KINDS = ("fixed", "uniform", "lognormal", "zipf", "empirical")
MAX_TOKENS = 1_000_000
MAX_VALUES = 200_000

#: A zipf distribution keeps a table of this many probabilities at most.
MAX_ZIPF_RANGE = 131_072

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Lengths:
    """Lengths from `low` to `high` tokens.

    "fixed": always `low`. "uniform": each as likely. "lognormal": of mean `mean`, the logarithm having the standard
    deviation `sigma`. "zipf": k of them with a probability proportional to k^-`exponent`. "empirical": one of `values`,
    such as a trace has, drawn with replacement. What falls outside the bounds is set to the nearer one.
    """

    kind: str = "fixed"
    low: int = 128
    high: int = 128
    mean: float = 128.0
    sigma: float = 1.0
    exponent: float = 1.2
    values: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        check_choice("the kind of lengths", self.kind, KINDS)
        check_whole("the shortest length", self.low, 1, MAX_TOKENS)
        check_whole("the longest length", self.high, self.low, MAX_TOKENS)
        check_number("the mean length", self.mean, 1, MAX_TOKENS)
        check_number("sigma", self.sigma, 0, 10)
        check_number("exponent", self.exponent, 0, 10)
        if self.kind == "zipf" and self.high - self.low >= MAX_ZIPF_RANGE:
            raise ConfigError(f"a zipf distribution goes from {self.low} to {self.high}; at most {MAX_ZIPF_RANGE} wide")
        if self.kind == "empirical":
            check_whole("the number of empirical lengths", len(self.values), 1, MAX_VALUES)
            for value in self.values:
                check_whole("an empirical length", value, 1, MAX_TOKENS)

    @classmethod
    def fixed(cls, tokens: int) -> Self:
        return cls("fixed", tokens, tokens)

    @classmethod
    def of(cls, values: tuple[int, ...]) -> Self:
        """As likely as in `values`."""
        return cls("empirical", 1, MAX_TOKENS, values=values)

    @classmethod
    def parse(cls, text: str) -> Self:
        """As on a command line: 512, uniform:100:500, lognormal:1024:0.8[:longest], zipf:1.2:1:4096."""
        kind, *parts = text.strip().split(":")
        try:
            match kind, parts:
                case _, []:
                    return cls.fixed(int(kind))
                case "fixed", [tokens]:
                    return cls.fixed(int(tokens))
                case "uniform", [low, high]:
                    return cls("uniform", int(low), int(high))
                case "lognormal", [mean, sigma, *longest] if len(longest) < 2:
                    bound = int(longest[0]) if longest else MAX_TOKENS
                    return cls("lognormal", 1, bound, float(mean), float(sigma))
                case "zipf", [exponent, low, high]:
                    return cls("zipf", int(low), int(high), exponent=float(exponent))
        except ValueError:
            pass
        raise ConfigError(
            f"{text!r} is not a length; write a number of tokens, uniform:LOW:HIGH, lognormal:MEAN:SIGMA[:LONGEST] "
            "or zipf:EXPONENT:LOW:HIGH"
        )

    def draw(self, random: np.random.Generator, count: int) -> Ints:
        """`count` lengths."""
        if self.kind == "fixed":
            return np.full(count, self.low, dtype=np.int64)
        if self.kind == "uniform":
            return random.integers(self.low, self.high, count, endpoint=True)
        if self.kind == "lognormal":
            return self._clip(self._lognormal(random, count))
        if self.kind == "zipf":
            return self.low + _pick(random, _zipf_weights(self.low, self.high, self.exponent), count)
        return np.array(self.values, dtype=np.int64)[random.integers(0, len(self.values), count)]

    def _lognormal(self, random: np.random.Generator, count: int) -> NDArray[np.float64]:
        # The mean of a lognormal is exp(mu + sigma^2 / 2).
        mu = np.log(self.mean) - self.sigma**2 / 2
        lengths: NDArray[np.float64] = np.exp(mu + self.sigma * random.standard_normal(count))
        return lengths

    def _clip(self, lengths: NDArray[np.float64]) -> Ints:
        return np.clip(np.rint(lengths), self.low, self.high).astype(np.int64)


def zipf_ranks(random: np.random.Generator, num_ranks: int, exponent: float, count: int) -> Ints:
    """`count` ranks from 0, the first the most frequent; with exponent 0 all are as likely."""
    return _pick(random, _zipf_weights(1, num_ranks, exponent), count)


def weighted(random: np.random.Generator, weights: NDArray[np.float64], count: int) -> Ints:
    """`count` indices, each as likely as its weight."""
    return _pick(random, weights, count)


def _zipf_weights(low: int, high: int, exponent: float) -> NDArray[np.float64]:
    return np.arange(low, high + 1, dtype=np.float64) ** -exponent


def _pick(random: np.random.Generator, weights: NDArray[np.float64], count: int) -> Ints:
    edges = np.cumsum(weights / weights.sum())
    picked = np.searchsorted(edges, random.random(count), side="right")
    return np.minimum(picked, len(weights) - 1).astype(np.int64)

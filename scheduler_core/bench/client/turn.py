"""`Turn`: what a client has seen of the requests that it sent, and what the gateway says of the same ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from scheduler_core.bench.served.exposition import Metrics, Observed, observed

TTFT = "time_to_first_token_seconds"
ITL = "inter_token_latency_seconds"


@dataclass(frozen=True, slots=True)
class Turn:
    """Seconds: when each request was sent (from the first), its time to first token, and all gaps between tokens."""

    starts: tuple[float, ...]
    ttfts: tuple[float, ...]
    itls: tuple[float, ...]
    output_tokens: int


@dataclass(frozen=True, slots=True)
class Told:
    """What /metrics took in meanwhile."""

    ttft: Observed
    itl: Observed
    output_tokens: int

    @classmethod
    def between(cls, before: Metrics, after: Metrics) -> Told:
        tokens = after["generation_tokens_total"] - before["generation_tokens_total"]
        return cls(observed(before, after, TTFT), observed(before, after, ITL), int(tokens))


def together(turns: Sequence[Turn]) -> Turn:
    """Those of several rounds as one; `starts` are of each round."""
    return Turn(
        tuple(start for turn in turns for start in turn.starts),
        tuple(ttft for turn in turns for ttft in turn.ttfts),
        tuple(itl for turn in turns for itl in turn.itls),
        sum(turn.output_tokens for turn in turns),
    )


def told_together(turns: Sequence[Told]) -> Told:
    """The same for what /metrics told."""
    return Told(_pooled([t.ttft for t in turns]), _pooled([t.itl for t in turns]), sum(t.output_tokens for t in turns))


def _pooled(parts: Sequence[Observed]) -> Observed:
    count = sum(part.count for part in parts)
    total = sum(part.count * part.mean_s for part in parts if part.mean_s is not None)
    return Observed(count, total / count if count else None)

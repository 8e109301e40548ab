"""What happened to one request and when, wherever it ran; and what TTFT, TPOT, ITL and E2E latency are.

The one place of these definitions, for a simulation, the engine and HTTP alike. They are those of vLLM's serving
benchmark (`vllm/benchmarks/serve.py`); GuideLLM's TPOT differs, as it includes the first token.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from scheduler_core.events import (
    LowerTierQueried,
    PrefixCacheQueried,
    RequestFinished,
    RequestPreempted,
    TokenSampled,
)
from scheduler_core.request import FinishReason, RequestSpec
from scheduler_core.trace import TickRecord, Trace
from scheduler_core.whereabouts import COMPLETED, end_of

DEFAULT_TENANT = "all"


@dataclass(frozen=True, slots=True)
class RequestFacts:
    """One request; times are in seconds of one clock, None where something has not happened.

    `token_times` are those of the output tokens, first to last. `num_queried_tokens` is what the prefix cache was asked
    for at the first admission (0 without one) and `num_cached_tokens` what it had.
    """

    id: str
    arrival: float
    num_prompt_tokens: int
    token_times: Sequence[float] = ()
    finish: float | None = None
    reason: FinishReason | None = None
    num_queried_tokens: int = 0
    num_cached_tokens: int = 0
    num_preemptions: int = 0
    tenant: str = DEFAULT_TENANT

    @property
    def num_output_tokens(self) -> int:
        return len(self.token_times)

    @property
    def is_completed(self) -> bool:
        """Whether it ended as asked for, by its end of text or its length."""
        return self.reason in COMPLETED

    @property
    def ttft_s(self) -> float | None:
        """Time to first token: from the arrival to the first token."""
        return self.token_times[0] - self.arrival if self.token_times else None

    @property
    def e2e_s(self) -> float | None:
        """End-to-end latency of a completed request: from the arrival to the end."""
        return self.finish - self.arrival if self.is_completed and self.finish is not None else None

    @property
    def tpot_s(self) -> float | None:
        """Time per output token after the first, (E2E - TTFT) / (output tokens - 1); None with fewer than two."""
        e2e, ttft = self.e2e_s, self.ttft_s
        if e2e is None or ttft is None or len(self.token_times) < 2:
            return None
        return (e2e - ttft) / (len(self.token_times) - 1)

    @property
    def itls_s(self) -> tuple[float, ...]:
        """Inter-token latencies: the gaps between successive tokens."""
        return tuple(after - before for before, after in pairwise(self.token_times))


@dataclass(slots=True)
class _Entry:
    """What has been read of a request so far."""

    spec_id: str
    arrival: float
    num_prompt_tokens: int
    tenant: str
    token_times: array[float] = field(default_factory=lambda: array("d"))
    finish: float | None = None
    reason: FinishReason | None = None
    num_queried_tokens: int = 0
    num_cached_tokens: int = 0
    num_preemptions: int = 0

    def facts(self) -> RequestFacts:
        return RequestFacts(
            self.spec_id,
            self.arrival,
            self.num_prompt_tokens,
            self.token_times,
            self.finish,
            self.reason,
            self.num_queried_tokens,
            self.num_cached_tokens,
            self.num_preemptions,
            self.tenant,
        )


class FactsCollector:
    """Gathers the facts from tick records, full or summary, one after the other; keeps no record."""

    def __init__(self) -> None:
        self._entries: dict[str, _Entry] = {}
        self.num_ended = 0

    def meet(self, spec: RequestSpec, tenant: str = DEFAULT_TENANT) -> None:
        """Hear of a request that was sent."""
        self._entries[spec.id] = _Entry(spec.id, spec.arrival_time, len(spec.prompt_token_ids), tenant)

    def read(self, record: TickRecord) -> int:
        """Take in one tick; returns how many requests were preempted in it."""
        entries, preempted = self._entries, 0
        for event in record.events:
            if isinstance(event, TokenSampled):
                entries[event.request_id].token_times.append(record.end)
            elif isinstance(event, PrefixCacheQueried) and not event.self_hit:
                entry = entries[event.request_id]
                entry.num_queried_tokens, entry.num_cached_tokens = event.query_tokens, event.hit_tokens
            elif isinstance(event, LowerTierQueried) and not event.self_hit:
                entries[event.request_id].num_cached_tokens += event.hit_tokens
            elif isinstance(event, RequestPreempted):
                entries[event.request_id].num_preemptions += 1
                preempted += 1
            elif isinstance(event, RequestFinished):
                entry = entries[event.request_id]
                entry.reason, entry.finish = event.reason, end_of(event, record, entry.arrival)
                self.num_ended += 1
        return preempted

    def facts(self) -> list[RequestFacts]:
        """Of every request met, in that order."""
        return [entry.facts() for entry in self._entries.values()]


def facts_of(trace: Trace, tenants: Mapping[str, str] | None = None) -> list[RequestFacts]:
    """The facts of every request of a trace, in order of sending; `tenants` maps ids to tenants."""
    collector = FactsCollector()
    for spec in trace.requests:
        collector.meet(spec, (tenants or {}).get(spec.id, DEFAULT_TENANT))
    for record in trace.records:
        collector.read(record)
    return collector.facts()


def by_tenant(facts: Iterable[RequestFacts]) -> dict[str, list[RequestFacts]]:
    """Tenant -> its requests; tenants by name."""
    groups: dict[str, list[RequestFacts]] = {}
    for each in facts:
        groups.setdefault(each.tenant, []).append(each)
    return dict(sorted(groups.items()))

"""Helpers to arrange with and to ask a trace, and random workloads from a fixed seed."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from scheduler_core.backends.synthetic import SyntheticRunner
from scheduler_core.config import ADMISSION_RULES, BATCH_ORDERS, POLICIES, PREEMPTION_MODES, EngineConfig
from scheduler_core.engine import Engine
from scheduler_core.events import (
    PrefixCacheQueried,
    RequestAdmitted,
    RequestFinished,
    RequestPreempted,
    TokenSampled,
)
from scheduler_core.request import FinishReason, RequestSpec, SamplingParams
from scheduler_core.trace import RequestSnapshot, Trace


def create_engine(runner: Any = None, **knobs: Any) -> Engine:
    """An engine with small blocks; `knobs` are fields of EngineConfig."""
    defaults = {"block_size": 4, "num_blocks": 32, "max_model_len": 128, "quantum": None}
    return Engine(EngineConfig(**{**defaults, **knobs}), runner or SyntheticRunner())


def create_request(
    name: str, prompt: int | list[int] = 8, max_tokens: int = 4, arrival: float = 0.0, priority: int = 0, **extra: Any
) -> RequestSpec:
    """A request with `prompt` tokens (a number: tokens that no other request of another name shares)."""
    if isinstance(prompt, int):
        base = 1_000 * (1 + sum(map(ord, name)) % 1_000) + 100_000 * len(name)
        prompt = [base + i for i in range(prompt)]
    sampling = {k: extra.pop(k) for k in list(extra) if k in SamplingParams.__dataclass_fields__}
    return RequestSpec(name, tuple(prompt), SamplingParams(max_tokens, **sampling), arrival, priority, **extra)


def run(engine: Engine, *specs: RequestSpec) -> Trace:
    for spec in specs:
        engine.add_request(spec)
    return engine.run()


def outputs(trace: Trace) -> dict[str, list[int]]:
    """Request id -> its output tokens, in order of sampling."""
    tokens: dict[str, list[int]] = {spec.id: [] for spec in trace.requests}
    for event in events(trace, TokenSampled):
        assert event.index == len(tokens[event.request_id])
        tokens[event.request_id].append(event.token_id)
    return tokens


def events(trace: Trace, kind: Any, request_id: str | None = None) -> list[Any]:
    found = (e for record in trace.records for e in record.events if isinstance(e, kind))
    return [e for e in found if request_id is None or e.request_id == request_id]


def tokens_per_tick(trace: Trace) -> list[dict[str, int]]:
    return [{item.request_id: item.num_tokens for item in record.output.scheduled} for record in trace.records]


@dataclass(frozen=True)
class Workload:
    """A random configuration and requests, with aborts as (tick, request id)."""

    config: EngineConfig
    specs: tuple[RequestSpec, ...]
    aborts: tuple[tuple[int, str], ...] = ()
    eos_every: int = 0
    fail_copies: bool = False
    fail_restores: bool = False

    def runner(self) -> SyntheticRunner:
        return SyntheticRunner(eos_every=self.eos_every, fail_copies=self.fail_copies, fail_restores=self.fail_restores)

    def engine(self) -> Engine:
        engine = Engine(self.config, self.runner())
        for spec in self.specs:
            engine.add_request(spec)
        return engine

    def run(self, max_ticks: int = 20_000) -> Trace:
        engine = self.engine()
        aborts = sorted(self.aborts)
        while engine.has_work and engine.tick < max_ticks:
            while aborts and aborts[0][0] <= engine.tick:
                engine.abort(aborts.pop(0)[1])
            engine.step()
        assert not engine.has_work, f"not finished after {max_ticks} ticks"
        return engine.trace()


def random_config(rng: random.Random) -> EngineConfig:
    lanes = rng.randint(1, 5)
    num_blocks = rng.choice([8, 12, 16, 24, 32])
    return EngineConfig(
        block_size=rng.choice([1, 2, 4, 5]),
        num_blocks=num_blocks,
        max_num_batched_tokens=rng.randint(lanes, 24),
        max_num_seqs=lanes,
        max_model_len=rng.choice([24, 40, 64]),
        enable_chunked_prefill=rng.random() < 0.85,
        chunk_size=rng.choice([None, 1, 3, 4, 8]),
        cap_lone_request=rng.random() < 0.7,
        enable_prefix_caching=rng.random() < 0.8,
        policy=rng.choice((*POLICIES, "priority", "priority", "mlfq")),
        aging=rng.choice([0, 0, 1, 3, 10]),
        mlfq_levels=rng.randint(1, 4),
        priority_push_out=rng.random() < 0.8,
        quantum=rng.choice([None, 1, 2, 3, 8]),
        preemption_mode=rng.choice(PREEMPTION_MODES),
        num_swap_blocks=rng.choice([0, 3, 8, 128]),
        batch_order=rng.choice(BATCH_ORDERS),
        admission=rng.choice(ADMISSION_RULES),
        watermark=rng.choice([0, 0, 1, 3]),
        seed=rng.randint(0, 3),
    )


def random_workload(seed: int) -> Workload:
    """The workload number `seed`: shared prefixes, odd lengths, bursts, aborts, all knobs."""
    rng = random.Random(seed)
    config = random_config(rng)
    prefixes = [[rng.randint(10, 99) for _ in range(rng.randint(1, 20))] for _ in range(3)]
    specs = []
    for number in range(rng.randint(1, 9)):
        prefix = rng.choice(prefixes)
        prompt = prefix[: rng.randint(1, len(prefix))] + [
            rng.randint(10, 99) for _ in range(rng.choice([0, 0, 1, 4, 13]))
        ]
        max_tokens = rng.randint(1, 14)
        sampling = SamplingParams(
            max_tokens, temperature=rng.choice([0.0, 0.0, 1.0]), min_tokens=rng.randint(0, min(3, max_tokens))
        )
        arrival = rng.choice([0.0, float(rng.randint(0, 15)), rng.random() * 30])
        salt = rng.choice(["", "", "", "tenant"])
        specs.append(RequestSpec(f"R{number}", tuple(prompt), sampling, arrival, rng.randint(0, 3), salt=salt))
    aborts = [(rng.randint(0, 25), spec.id) for spec in specs if rng.random() < 0.15]
    return Workload(config, tuple(specs), tuple(aborts), rng.choice([0, 0, 8]), rng.random() < 0.1, rng.random() < 0.1)


# Short questions to a trace


def finish_reasons(trace: Trace) -> dict[str, FinishReason]:
    return {e.request_id: e.reason for e in events(trace, RequestFinished)}


def admissions(trace: Trace) -> list[tuple[int, str]]:
    """(Tick, request id) of every admission."""
    return [(r.tick, e.request_id) for r in trace.records for e in r.events if isinstance(e, RequestAdmitted)]


def preemptions(trace: Trace) -> list[tuple[int, str]]:
    """(Tick, request id) of every preemption."""
    return [(r.tick, e.request_id) for r in trace.records for e in r.events if isinstance(e, RequestPreempted)]


def hit_tokens(trace: Trace) -> dict[str, list[int]]:
    """Request id -> the hits of its lookups, in order."""
    hits: dict[str, list[int]] = {}
    for event in events(trace, PrefixCacheQueried):
        hits.setdefault(event.request_id, []).append(event.hit_tokens)
    return hits


def state(trace: Trace, tick: int, request_id: str) -> RequestSnapshot:
    """One request as of the end of a tick."""
    snapshot = trace.records[tick].snapshot
    assert snapshot is not None
    return next(r for r in snapshot.requests if r.id == request_id)


def is_idle_and_sound(engine: Engine) -> bool:
    """Nobody is left, and every block, promise and saved copy has been given back."""
    kv = engine._kv
    nothing_held = not kv.tables and not kv.num_promised and not kv.host_blocks_used and not engine.copies.saved
    return nothing_held and not engine.has_work and kv.pool.num_free == kv.pool.num_blocks

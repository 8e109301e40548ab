"""Runs both clients in turn against one gateway, each with its own reading of /metrics around it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from scheduler_core.backends import model_store
from scheduler_core.bench.client import ours, outside
from scheduler_core.bench.client.plan import ClientPlan
from scheduler_core.bench.client.turn import Told, Turn, together, told_together
from scheduler_core.bench.served.process import ServedProcess, served

#: Both clients send the same prompts: what one has left in the cache must not help the other.
_OPTIONS = ("--set", "enable_prefix_caching=false")


@dataclass(frozen=True, slots=True)
class Seen:
    """One client's figures over all rounds, and the gateway's of the same requests."""

    client: Turn
    gateway: Told


@dataclass(frozen=True, slots=True)
class Raced:
    outside: Seen
    ours: Seen


def race(plan: ClientPlan, python: Path, progress: Callable[[str], None]) -> Raced:
    """`python` is of an environment that has vLLM; raises `BenchError`."""
    theirs: list[tuple[Turn, Told]] = []
    own: list[tuple[Turn, Told]] = []
    with tempfile.TemporaryDirectory(prefix="tickscope-client-") as name:
        folder = Path(name)
        progress("starting the gateway")
        with served(folder, "--backend", plan.backend, *_OPTIONS) as server:
            tokenizer = _tokenizer(plan)
            # The first requests pay for what is compiled and allocated once.
            ours.run(server.url, server.model, plan.prompts(plan.rounds), [0.0] * plan.requests)
            for turn in range(plan.rounds):
                prompts = plan.prompts(turn)
                progress(f"round {turn + 1} of {plan.rounds}: vLLM's client")
                run = partial(outside.run, python, server.url, server.model, tokenizer, prompts, plan, folder)
                theirs.append(_watched(server, run))
                progress(f"round {turn + 1} of {plan.rounds}: our client")
                starts = theirs[-1][0].starts
                own.append(_watched(server, partial(ours.run, server.url, server.model, prompts, starts)))
            server.end()
    return Raced(_seen(theirs), _seen(own))


def _watched(server: ServedProcess, run: Callable[[], Turn]) -> tuple[Turn, Told]:
    before = server.metrics()
    turn = run()
    return turn, Told.between(before, server.metrics())


def _seen(turns: list[tuple[Turn, Told]]) -> Seen:
    return Seen(together([turn for turn, _ in turns]), told_together([told for _, told in turns]))


def _tokenizer(plan: ClientPlan) -> str:
    """The folder of the model that is served, for a client that wants to count tokens itself."""
    if plan.backend == "synthetic":
        return "none"
    weights = model_store.find_weights()
    return str(model_store.folder_of(weights)) if weights is not None else model_store.HUB_REPO

"""What the operations page sees of a gateway and does to it: status, dead letters, caches, planned faults.

Off unless asked for: prompts in dead letters are their senders'.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query
from pydantic import BaseModel, ConfigDict, Field

from scheduler_core.errors import TickscopeError
from scheduler_core.serving.async_engine import AsyncEngine
from scheduler_core.serving.dead_letters import DeadLetter, DeadLetters
from scheduler_core.serving.fault_plan import KINDS, MAX_FAULTS, FaultPlan, planned_faults
from scheduler_core.serving.gateway import BadRequest, Gateway
from scheduler_core.serving.letter_replays import LetterReplays
from scheduler_core.serving.metrics import GatewayMetrics
from scheduler_core.serving.operations_guard import guard
from scheduler_core.storage.block_store import BlockStore, TierStats

PATH = "/operations"
MAX_PAGE = 50
#: Characters of a prompt, a reason or an answer that are shown.
MAX_SHOWN = 2_000

Limit = Annotated[int, Query(ge=1, le=MAX_PAGE)]
Before = Annotated[int | None, Query(ge=0, lt=2**62)]


class FaultsBody(BaseModel):
    """The faults that are to be on; none switches all off."""

    model_config = ConfigDict(strict=True, extra="forbid")

    faults: Annotated[list[dict[str, Any]], Field(max_length=MAX_FAULTS)]


class Operations:
    """The routes, in `router`."""

    def __init__(
        self,
        gateway: Gateway,
        engine: AsyncEngine,
        letters: DeadLetters,
        faults: FaultPlan,
        metrics: GatewayMetrics,
        store: BlockStore | None = None,
    ) -> None:
        self._model = gateway.model
        self._engine = engine
        self._letters = letters
        self._faults = faults
        self._metrics = metrics
        self._store = store
        self._started = time.monotonic()
        self._replays = LetterReplays(letters, gateway.answer_again)
        self.router = APIRouter(prefix=PATH, dependencies=[Depends(guard)])
        add = self.router.add_api_route
        add("/status", self.status, methods=["GET"])
        add("/dead-letters", self.dead_letters, methods=["GET"])
        add("/dead-letters", self.purge_all, methods=["DELETE"])
        add("/dead-letters/replay", self.replay_all, methods=["POST"], status_code=202)
        add("/dead-letters/{letter_id}", self.purge, methods=["DELETE"])
        add("/dead-letters/{letter_id}/replay", self.replay, methods=["POST"], status_code=202)
        add("/cache/{tier}", self.clear_cache, methods=["DELETE"])
        add("/faults", self.faults, methods=["GET"])
        add("/faults", self.switch_faults, methods=["POST"])

    # What is seen

    async def status(self) -> dict[str, Any]:
        """The engine now, and what it has counted since it began."""
        engine, config = self._engine, self._engine.config
        tiers = await asyncio.to_thread(engine.store_stats)
        return {
            "model": self._model,
            "uptime_s": time.monotonic() - self._started,
            "state": (await engine.health())[0],
            "in_flight": engine.num_in_flight,
            "waiting": engine.num_waiting,
            "running": engine.num_running,
            "num_blocks": config.num_blocks,
            "free_blocks": engine.free_blocks,
            "kv_use": 1 - engine.free_blocks / config.num_blocks,
            "counters": {**asdict(engine.counters), "hit_ratio": engine.counters.hit_ratio},
            "ticks": _ticks([*self._metrics.last_ticks]),
            # Texts drawn without a seed of their own could be told from this one.
            "config": {name: value for name, value in asdict(config).items() if name != "seed"},
            "attempts": engine.limits.attempts,
            "tiers": [asdict(tier) for tier in tiers],
            "dead_letters": await asyncio.to_thread(engine.num_letters),
            "faults": self._told_faults(),
        }

    async def dead_letters(self, limit: Limit = 20, before: Before = None) -> dict[str, Any]:
        """The newest first; the next page is before the last id of this one."""
        letters = await asyncio.to_thread(self._letters.page, limit, before)
        replays = self._replays
        return {
            "total": await asyncio.to_thread(len, self._letters),
            "letters": [_letter(letter) for letter in letters],
            "replays": {
                "left": replays.num_left,
                "answered": replays.answered,
                "failed": replays.failed,
                "last": [
                    {"id": each.letter_id, "text": _cut(each.text or ""), "problem": _cut(each.problem or "")}
                    for each in replays.last
                ],
            },
        }

    async def faults(self) -> dict[str, Any]:
        return self._told_faults()

    def _told_faults(self) -> dict[str, Any]:
        on = [asdict(fault) for fault in self._faults.faults]
        return {"faults": on, "happened": self._faults.happened, "kinds": KINDS}

    # What is done

    async def replay(self, letter_id: str) -> dict[str, Any]:
        """Send one again; it leaves the box once it is answered."""
        letter = await self._known(letter_id)
        # By its own id: " 1" and "1.0" name letter 1 too, which must not be sent twice at once.
        return {"accepted": self._replays.begin([letter.id])}

    async def replay_all(self) -> dict[str, Any]:
        return {"accepted": self._replays.begin(await asyncio.to_thread(self._letters.ids))}

    async def purge(self, letter_id: str) -> dict[str, Any]:
        """Throw one away."""
        await self._known(letter_id)
        return {"purged": int(await asyncio.to_thread(self._letters.remove, letter_id))}

    async def purge_all(self) -> dict[str, Any]:
        return {"purged": await asyncio.to_thread(self._letters.purge)}

    async def clear_cache(self, tier: str) -> dict[str, Any]:
        """Forget all blocks of a cache below memory; requests in flight keep what they have loaded."""
        before = await self._tier(tier)
        assert self._store is not None
        await asyncio.to_thread(self._store.clear, tier)
        after = await self._tier(tier)
        if (after.errors, after.not_asked) != (before.errors, before.not_asked):
            raise BadRequest(
                f"the cache {tier!r} does not answer ({_cut(after.last_error)}); clear it again later",
                "tier",
                "cache_unavailable",
                503,
            )
        return {"cleared": max(0, before.entries)}

    async def switch_faults(self, body: FaultsBody) -> dict[str, Any]:
        """Have these on and no others."""
        try:
            faults = planned_faults(body.faults)
        except TickscopeError as problem:
            raise BadRequest(str(problem), "faults") from None
        names = [tier.tier for tier in await asyncio.to_thread(self._engine.store_stats)]
        for fault in faults:
            if fault.tier and fault.tier not in names:
                raise BadRequest(f"tier is {fault.tier[:40]!r}; {_choices(names)}", "faults")
        self._faults.switch(faults)
        return self._told_faults()

    # Checks

    async def _known(self, letter_id: str) -> DeadLetter:
        try:
            return await asyncio.to_thread(self._letters.letter, letter_id[:40])
        except TickscopeError:
            raise BadRequest(
                f"there is no dead letter {letter_id[:40]!r}; list those there are", "letter_id", "not_found", 404
            ) from None

    async def _tier(self, name: str) -> TierStats:
        tiers = {tier.tier: tier for tier in await asyncio.to_thread(self._engine.store_stats)}
        if name not in tiers:
            raise BadRequest(f"there is no cache {name[:40]!r}; {_choices([*tiers])}", "tier", "not_found", 404)
        return tiers[name]


def _choices(tiers: list[str]) -> str:
    return f"there are {', '.join(tiers)}" if tiers else "start the gateway with --store or --redis to have one"


def _ticks(seconds: list[float]) -> dict[str, Any]:
    """The last ticks in milliseconds; nothing where there were none."""
    if not seconds:
        return {"count": 0}
    ordered = sorted(seconds)
    return {
        "count": len(seconds),
        "mean_ms": 1e3 * statistics.fmean(seconds),
        "median_ms": 1e3 * ordered[len(ordered) // 2],
        "max_ms": 1e3 * ordered[-1],
    }


def _letter(letter: DeadLetter) -> dict[str, Any]:
    return {
        "id": letter.id,
        "written": letter.written,
        "endpoint": letter.endpoint,
        "prompt": _cut(_prompt(letter.body)),
        "prompt_tokens": letter.prompt_tokens,
        "attempts": [{**asdict(attempt), "reason": _cut(attempt.reason)} for attempt in letter.attempts],
    }


def _prompt(body: dict[str, Any]) -> str:
    """What a person reads of a request."""
    messages = body.get("messages")
    if isinstance(messages, list):
        return "\n".join(f"{turn.get('role')}: {_content(turn.get('content'))}" for turn in messages)
    prompt = body.get("prompt")
    return prompt if isinstance(prompt, str) else str(prompt)


def _content(content: Any) -> str:
    return content if isinstance(content, str) else "".join(str(part.get("text", "")) for part in content or ())


def _cut(text: str) -> str:
    return text if len(text) <= MAX_SHOWN else text[: MAX_SHOWN - 1] + "…"

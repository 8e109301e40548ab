"""Puts a gateway together from its settings."""

from __future__ import annotations

from pathlib import Path

from scheduler_core.config import EngineConfig
from scheduler_core.serving.async_engine import AsyncEngine
from scheduler_core.serving.dead_letters import DeadLetters
from scheduler_core.serving.fault_plan import FaultPlan, FaultyRunner
from scheduler_core.serving.gateway import Gateway, GatewayLimits
from scheduler_core.serving.keys import ApiKeys
from scheduler_core.serving.metrics import GatewayMetrics
from scheduler_core.serving.operations import Operations
from scheduler_core.serving.served_model import ServedRunner
from scheduler_core.serving.settings import ServeSettings
from scheduler_core.serving.splitting_runner import SplittingRunner
from scheduler_core.storage.block_store import BlockStore


def build(
    settings: ServeSettings,
    config: EngineConfig,
    runner: ServedRunner,
    name: str,
    record_file: Path | None = None,
    record_ticks: int = 0,
    check: bool = False,
    faults: FaultPlan | None = None,
    store: BlockStore | None = None,
) -> Gateway:
    """A gateway that has not started yet; `record_file` takes the first `record_ticks` ticks."""
    runner = SplittingRunner(FaultyRunner(runner, faults) if faults is not None else runner)
    metrics = GatewayMetrics(name)
    letters = DeadLetters(settings.state)
    engine = AsyncEngine(
        config,
        runner,
        settings.limits,
        letters=letters,
        observer=metrics,
        record_ticks=record_ticks if record_file is not None else 0,
        record_file=record_file,
        check=check,
        store=store,
    )
    sizes = GatewayLimits(settings.max_body_bytes, settings.max_prompt_tokens, settings.max_output_tokens)
    gateway = Gateway(engine, runner, name, limits=sizes, keys=ApiKeys(settings.keys), metrics=metrics)
    if settings.operations and faults is not None:
        gateway.api.include_router(Operations(gateway, engine, letters, faults, metrics, store).router)
    return gateway

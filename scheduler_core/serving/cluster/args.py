"""What the application on Ray Serve is told, by `serve --replicas` or by the `args` of a Serve configuration file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

RouterName = Literal["power-of-two", "consistent-hash", "prefix-affinity"]


class ClusterArgs(BaseModel):
    """`store` is a folder on each machine, in which each replica has its own; `redis` is shared by all.

    `settings` are FIELD=VALUE, `faults` those of a fault plan, `gateway` the sizes and times of `ServeSettings`.
    `key_digests` are of API keys; each gateway also takes those in its own environment.
    """

    model_config = ConfigDict(extra="forbid")

    backend: Literal["model", "synthetic"] = "model"
    served_name: str | None = None
    preset: str = "sarathi"
    settings: list[str] = []
    replicas: Annotated[int, Field(ge=1, le=10_000)] = 2
    gateways: Annotated[int, Field(ge=1, le=100)] = 1
    cpus_per_replica: Annotated[float, Field(gt=0)] = 0.5
    router: RouterName = "consistent-hash"
    prefix_blocks: Annotated[int, Field(ge=1, le=1_000)] = 4
    redis: str | None = None
    store: Path | None = None
    store_mib: Annotated[int, Field(ge=1)] = 4_096
    gateway: dict[str, Any] = {}
    key_digests: list[str] = []
    faults: list[dict[str, Any]] = []
    check: bool = False

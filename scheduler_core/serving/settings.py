"""What `serve` can be told, by options or by environment variables that begin with TICKSCOPE_SERVE_."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

from scheduler_core.backends.model_cache import default_root
from scheduler_core.serving.ask import ServingLimits


class ServeSettings(BaseSettings):
    """Sizes in bytes and tokens, times in seconds. `api_keys` are separated by commas; none leaves the gateway open."""

    model_config = SettingsConfigDict(env_prefix="TICKSCOPE_SERVE_")

    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 8000
    api_keys: SecretStr = SecretStr("")
    state: Path = Field(default_factory=lambda: default_root() / "serving")
    max_body_bytes: Annotated[int, Field(ge=1024)] = 1024 * 1024
    max_prompt_tokens: Annotated[int, Field(ge=1)] = 8_192
    max_output_tokens: Annotated[int, Field(ge=1)] = 4_096
    max_waiting: Annotated[int, Field(ge=0)] = 256
    max_connections: Annotated[int, Field(ge=1)] = 2_048
    request_timeout_s: Annotated[float, Field(gt=0)] = 600.0
    stall_s: Annotated[float, Field(gt=0)] = 120.0
    attempts: Annotated[int, Field(ge=1, le=20)] = 3
    backoff_s: Annotated[float, Field(ge=0)] = 0.2
    drain_s: Annotated[float, Field(ge=0)] = 30.0
    operations: bool = False

    @property
    def limits(self) -> ServingLimits:
        return ServingLimits(
            max_waiting=self.max_waiting,
            request_timeout_s=self.request_timeout_s,
            stall_s=self.stall_s,
            attempts=self.attempts,
            backoff_s=self.backoff_s,
            drain_s=self.drain_s,
        )

    @property
    def keys(self) -> list[str]:
        return [key.strip() for key in self.api_keys.get_secret_value().split(",") if key.strip()]

"""What a visitor has chosen on the playground: the one value behind its widgets and its address."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pages.components.fields import preset_config
from pages.components.own_requests import OwnRequest
from scheduler_core.config import EngineConfig

BACKENDS = ("recorded", "synthetic", "live")
PANELS = ("Why?", "Tokens", "Blocks", "Charts", "Events", "Export")

#: The name, in place of a scenario's, of the visitor's own requests.
OWN = "own"


@dataclass(slots=True)
class PlayState:
    """`overrides` are the settings that differ from the preset's; `requests` the visitor's own.

    `block` is the KV block whose life is shown.
    """

    scenario: str
    backend: str = "recorded"
    preset: str = ""
    overrides: dict[str, Any] = field(default_factory=dict)
    tick: int = 0
    selected: str = ""
    panel: str = PANELS[0]
    block: int = 0
    requests: tuple[OwnRequest, ...] = ()

    def config(self, scenario_config: EngineConfig) -> EngineConfig:
        """The configuration chosen; raises `ConfigError` if it is impossible."""
        return preset_config(self.preset, scenario_config).replace(**self.overrides)

    def value(self, name: str, scenario_config: EngineConfig) -> Any:
        """One setting as chosen, also where the whole is impossible."""
        if name in self.overrides:
            return self.overrides[name]
        return getattr(preset_config(self.preset, scenario_config), name)

    def choose(self, name: str, value: Any, scenario_config: EngineConfig) -> None:
        """Set one setting; one that is as the preset has it is no override."""
        self.overrides[name] = value
        if value == getattr(preset_config(self.preset, scenario_config), name):
            del self.overrides[name]

"""What a visitor has chosen on the playground: the one value behind its widgets and its address."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pages.components.fields import preset_config
from pages.components.own_requests import OwnRequest
from scheduler_core.config import EngineConfig
from scheduler_core.sensitivity import FIGURES

BACKENDS = ("recorded", "synthetic", "live")
PANELS = ("Why?", "Tokens", "Blocks", "Charts", "Events", "Export")

#: The sliders that have a curve under them, with the figure that it shows unless another is chosen.
CURVES = {"quantum": "worst_wait", "chunk_size": "largest_gap"}

#: The name, in place of a scenario's, of the visitor's own requests.
OWN = "own"
#: The same for a run that was opened from a file.
IMPORTED = "imported"


@dataclass(slots=True)
class PlayState:
    """`overrides` are the settings that differ from the preset's; `requests` the visitor's own.

    `block` is the KV block whose life is shown; `curves` the figures chosen for the curves of sliders;
    `predict` turns the run into a quiz.
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
    curves: dict[str, str] = field(default_factory=dict)
    predict: bool = False

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

    def curve(self, name: str) -> str:
        """The figure that the curve of a slider shows."""
        return self.curves.get(name, CURVES[name])

    def choose_curve(self, name: str, figure: str) -> None:
        """Show another figure over the positions of a slider."""
        assert figure in FIGURES
        self.curves[name] = figure
        if figure == CURVES[name]:
            del self.curves[name]

"""What a visitor looks at on the operations page, and the same as an address."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pages.components.link import ELSEWHERE
from pages.components.plain import cut

PANELS = ("Figures", "Caches", "Dead letters", "Planned faults", "Live runs")


@dataclass(slots=True)
class OperationsState:
    """`gateway` is the place among those that the operator has named.

    `asks` is what must be confirmed first, "" for nothing; `said` what came of the last thing done, and whether it
    went well. `letter` is the dead letter that is unfolded, `older` the ids before which each page of them begins.
    `moved` counts how often each fault was switched by somebody else.
    """

    panel: str = PANELS[0]
    gateway: int = 0
    asks: str = ""
    said: str = ""
    is_well: bool = True
    letter: str = ""
    older: list[int] = field(default_factory=list)
    moved: dict[str, int] = field(default_factory=dict)

    def say(self, text: str, is_well: bool = True) -> None:
        self.said, self.is_well, self.asks = text, is_well, ""


def to_query(state: OperationsState) -> dict[str, str]:
    """The parts of an address that differ from the default."""
    parts = {"panel": state.panel if state.panel != PANELS[0] else "", "gateway": str(state.gateway or "")}
    return {name: value for name, value in parts.items() if value}


def from_query(query: Mapping[str, str], num_gateways: int) -> tuple[OperationsState, list[str]]:
    """The state that an address asks for, with a message for every part that could not be taken as it stands."""
    state, messages = OperationsState(), []
    panel, gateway = query.get("panel", state.panel), query.get("gateway", "0")
    if panel in PANELS:
        state.panel = panel
    else:
        messages.append(f"The link asks for panel {cut(panel)}; it must be one of {', '.join(PANELS)}.")
    if gateway.isascii() and gateway.isdigit() and len(gateway) < 4 and int(gateway) < num_gateways:
        state.gateway = int(gateway)
    else:
        messages.append(f"The link asks for gateway {cut(gateway)}; it must be a number from 0 to {num_gateways - 1}.")
    stray = [name for name in query if name not in {"panel", "gateway", *ELSEWHERE}]
    return state, messages + [f"The link has a part {cut(name)} that means nothing here." for name in stray]

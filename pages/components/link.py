"""The playground's state as the query of an address, and back; nothing in an address can break a page."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any
from urllib.parse import urlencode

from pages.components.fields import value_from_text, value_to_text
from pages.components.own_requests import pack, unpack
from pages.components.plain import cut
from pages.components.play_state import BACKENDS, CURVES, IMPORTED, OWN, PANELS, PlayState
from scheduler_core.config import FIELD_NAMES, PRESETS
from scheduler_core.errors import ConfigError, RequestError
from scheduler_core.sensitivity import FIGURES

MAX_TICK = 10_000_000
MAX_DIGITS = 100
ON, OFF = "on", "off"

#: What the server of the app itself reads from an address.
FOREIGN = ("embed", "embed_options")
#: These say nothing of the state of a page: the server's own, and the teacher view's.
ELSEWHERE = (*FOREIGN, "teach")


def to_query(state: PlayState, default_scenario: str) -> dict[str, str]:
    """The parts of the state that differ from the default, but for the tick, which the stage writes by itself."""
    parts = {
        "scenario": state.scenario,
        "backend": state.backend,
        "preset": state.preset,
        **{name: value_to_text(name, value) for name, value in sorted(state.overrides.items())},
        "requests": pack(state.requests) if state.scenario == OWN and state.requests else "",
        "selected": state.selected,
        "panel": state.panel,
        "block": str(state.block) if state.block else "",
        **{f"curve_{name}": figure for name, figure in sorted(state.curves.items())},
        "predict": ON if state.predict else "",
    }
    defaults = {"scenario": default_scenario, "backend": BACKENDS[0], "panel": PANELS[0]}
    return {name: text for name, text in parts.items() if text and text != defaults.get(name)}


def to_address(state: PlayState, default_scenario: str) -> str:
    """The whole query, tick included."""
    return urlencode(to_query(state, default_scenario) | ({"tick": str(state.tick)} if state.tick else {}))


def from_query(
    query: Mapping[str, str], scenarios: Collection[str], default_scenario: str
) -> tuple[PlayState, list[str]]:
    """The state that an address asks for, with a message for every part that could not be taken as it stands."""
    messages: list[str] = []
    state = PlayState(default_scenario)
    state.scenario = _scenario(query, scenarios, default_scenario, messages)
    state.backend = _choice(query, "backend", BACKENDS, BACKENDS[0], messages)
    state.preset = _choice(query, "preset", ("", *PRESETS), "", messages)
    state.panel = _choice(query, "panel", PANELS, PANELS[0], messages)
    state.overrides = _overrides(query, messages)
    state.tick, told = tick_from(query)
    messages += told
    state.selected = query.get("selected", "")
    state.block, told = _block(query)
    messages += told
    for name, usual in CURVES.items():
        state.choose_curve(name, _choice(query, f"curve_{name}", FIGURES, usual, messages))
    state.predict = _predict(query, messages)
    if "requests" in query:
        try:
            state.requests = unpack(query["requests"])
        except RequestError as problem:
            messages.append(str(problem))
    known = {"scenario", "backend", "preset", "panel", "block", "tick", "selected", "requests", "predict", *FIELD_NAMES}
    known |= {*ELSEWHERE} | {f"curve_{name}" for name in CURVES}
    messages += [f"The link has a part {cut(name)} that means nothing here." for name in query if name not in known]
    return state, messages


def _scenario(query: Mapping[str, str], scenarios: Collection[str], default: str, messages: list[str]) -> str:
    if query.get("scenario") == IMPORTED and IMPORTED not in scenarios:
        messages.append(
            "The link is to a run that was opened from a file, and a file does not travel in a link. Ask for the file, "
            "and drop it on this page. Shown is the usual run."
        )
        return default
    return _choice(query, "scenario", (*scenarios, OWN), default, messages)


def _choice(query: Mapping[str, str], name: str, choices: Collection[str], default: str, messages: list[str]) -> str:
    asked = query.get(name, default)
    if asked in choices:
        return asked
    offered = ", ".join(choice for choice in choices if choice)
    messages.append(f"The link asks for the {name} {cut(asked)}; there are {offered}. Shown is the usual one.")
    return default


def _predict(query: Mapping[str, str], messages: list[str]) -> bool:
    asked = query.get("predict", OFF)
    if asked not in (ON, OFF):
        messages.append(f"The link asks for predict {cut(asked)}; it can be on or off. The run is shown as it is.")
    return asked == ON


def _overrides(query: Mapping[str, str], messages: list[str]) -> dict[str, Any]:
    overrides: dict[str, Any] = {}
    for name in FIELD_NAMES:
        if name not in query:
            continue
        try:
            overrides[name], message = value_from_text(name, query[name])
        except ConfigError as problem:
            message = f"In the link, {problem}. The usual value is kept."
        if message:
            messages.append(message)
    return overrides


def _block(query: Mapping[str, str]) -> tuple[int, list[str]]:
    """The block that an address asks for; a run that has fewer shows its last one."""
    text = query.get("block", "0").strip()
    if text.isascii() and text.isdigit() and len(text) < MAX_DIGITS:
        return min(int(text), MAX_TICK), []
    return 0, [f"The link asks for the block {cut(text)}, which is no block; shown is block 0."]


def tick_from(query: Mapping[str, str], last: int = MAX_TICK) -> tuple[int, list[str]]:
    """The tick that an address asks for, from 0 to `last`, with a message if it could not be taken."""
    text = query.get("tick", "0")
    digits = text.strip().removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) < MAX_DIGITS):
        return 0, [f"The link asks for the tick {cut(text)}, which is no tick; the run starts at tick 0."]
    tick = int(text)
    if tick < 0:
        return 0, [f"The link asks for the tick {cut(text)}; ticks start at 0, so the run does."]
    if tick > last and last < MAX_TICK:
        # What was read before is cut at MAX_TICK, so a larger number is not known here any more.
        asked = f"the tick {tick:,}" if tick < MAX_TICK else f"a tick past {MAX_TICK - 1:,}"
        return last, [f"The link asks for {asked}; this run has ticks 0 to {last}, so it is at {last}."]
    return min(tick, last), []
